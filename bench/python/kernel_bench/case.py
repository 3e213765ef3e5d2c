# SPDX-License-Identifier: Apache-2.0
"""A benchmark case: data, launches, native call, and the expected result from NumPy."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

CASES: list[Callable[[], Case]] = []


@dataclass
class Case:
    name: str
    arrays: dict[str, np.ndarray]
    """What they hold before any side has run, by name."""
    launches: Callable[[Any], list[tuple[Any, ...]]]
    """From the arrays on the device: (kernel, grid, block, arguments) one after the other, or ("clear", name)."""
    native: tuple[Any, ...]
    """The native function and its arguments; a str names an array."""
    expected: Callable[[Any], dict[str, Any]]
    """NumPy's results from the untouched arrays: name to array, or to (indices, array) to check a part."""
    check: Callable[[Any, Callable[[str], np.ndarray]], bool] | None = None
    """What is checked beyond that: from the untouched arrays and a function that fetches a result."""
    goal: float | None = None
    tolerance: float = 1e-5
    wrong_allowed: float = 0
    """Share of elements that may be off (where rounding decides about a whole step)."""
    repeat: int = 1
    """How often one run launches the kernel and waits for it. The loop is compiled code on every side, so that a launch is in the
    measure and the language that calls it is not; the native function repeats by itself."""


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    CASES.append(make)
    return make


def namespace(values: dict[str, Any]) -> SimpleNamespace:
    return SimpleNamespace(**values)


def f32(value: float) -> ctypes.c_float:
    return ctypes.c_float(value)


def i32(value: int) -> ctypes.c_int:
    return ctypes.c_int(value)


def uniform(n: int | tuple[int, ...], low: float = -1, high: float = 1, dtype: Any = np.float32) -> np.ndarray:
    size = n if isinstance(n, int) else int(np.prod(n))
    numbers = np.random.default_rng(size).random(n, dtype=np.float32)
    return (low + (high - low) * numbers).astype(dtype)


def zeros(n: int | tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    return np.zeros(n, dtype)


def error_of(got: np.ndarray, want: Any, tolerance: float) -> tuple[float, float]:
    """Maximum error (relative to the larger of 1 and the value) and the fraction of elements above the tolerance."""
    if isinstance(want, tuple):
        where, want = want
        got = got[where]
    want = np.asarray(want).reshape(got.shape)
    a, b = got.astype(np.float64), want.astype(np.float64)
    difference = np.abs(a - b) / np.maximum(1.0, np.abs(b))
    difference = np.where(np.isnan(a) & np.isnan(b), 0, difference)
    difference = np.where(np.isnan(difference), np.inf, difference)
    return float(difference.max()), float((difference > tolerance).mean())
