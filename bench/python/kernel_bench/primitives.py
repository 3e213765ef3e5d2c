# SPDX-License-Identifier: Apache-2.0
"""Building blocks of parallel algorithms. Source: bench/cpp/kernels/primitives.cu, native side: primitives.cpp."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import Case, case, i32, uniform, zeros
from .ten import flat

N = 1 << 20


def ints(low: int, high: int) -> np.ndarray:
    return uniform(N, low, high).astype(np.int32)


def moved(kernel: str, name: str, expected: Any) -> Case:
    """Values by index; neighbours stay within 4096 numbers."""
    places = np.arange(N).reshape(-1, 4096)
    places = np.random.default_rng(13).permuted(places, axis=1).ravel().astype(np.int32)
    return Case(
        name, {"places": places, "x": uniform(N), "out": zeros(N)},
        launches=lambda d: [(kernel, *flat(N), [d.places, d.x, d.out, i32(N)])],
        native=(kernel, "places", "x", "out", i32(N)), expected=lambda a: {"out": expected(a)}, tolerance=0,
    )  # fmt: skip


@case
def gather_values() -> Case:
    return moved("gather_values", "gather, 1M", lambda a: a.x[a.places])


@case
def scatter_values() -> Case:
    return moved("scatter_values", "scatter, 1M", lambda a: a.x[np.argsort(a.places)])


@case
def adjacent_difference() -> Case:
    return Case(
        "adjacent difference", {"x": ints(-1000, 1000), "out": zeros(N, np.int32)},
        launches=lambda d: [("adjacent_difference", *flat(N), [d.x, d.out, i32(N)])],
        native=("adjacent_difference", "x", "out", i32(N)),
        expected=lambda a: {"out": np.diff(a.x, prepend=np.int32(0))}, tolerance=0,
    )  # fmt: skip


@case
def shared_scan() -> Case:
    return Case(
        "scan in shared memory", {"x": ints(-100, 100), "out": zeros(N, np.int32)},
        launches=lambda d: [("shared_scan", *flat(N), [d.x, d.out])],
        native=("shared_scan", "x", "out", i32(N)),
        expected=lambda a: {"out": a.x.reshape(-1, 256).cumsum(1)}, tolerance=0,
    )  # fmt: skip


@case
def arg_max() -> Case:
    def expected(a: Any) -> dict[str, Any]:
        rows = a.x.reshape(-1, 256)
        return {"values": rows.max(1), "places": rows.argmax(1) + 256 * np.arange(N // 256)}

    return Case(
        "largest of a block", {"x": uniform(N), "values": zeros(N // 256), "places": zeros(N // 256, np.int32)},
        launches=lambda d: [("arg_max", *flat(N), [d.x, d.values, d.places])],
        native=("arg_max", "x", "values", "places", i32(N)), expected=expected, tolerance=0, wrong_allowed=0.01,
    )  # fmt: skip


@case
def row_sums() -> Case:
    rows, columns = 1024, 1024
    return Case(
        "sums of rows, warp per row", {"x": uniform((rows, columns), 0, 1), "out": zeros(rows)},
        launches=lambda d: [("row_sums", *flat(rows * 32), [d.x, d.out, i32(rows), i32(columns)])],
        native=("row_sums", "x", "out", i32(rows), i32(columns)), expected=lambda a: {"out": a.x.sum(1, dtype=np.float64)}, tolerance=1e-4,
    )  # fmt: skip


@case
def select_in_order() -> Case:
    def expected(a: Any) -> dict[str, Any]:
        return {"counts": (a.x.reshape(-1, 256) > 0).sum(1)}

    def check(a: Any, got: Any) -> bool:
        kept = [row[:count] for row, count in zip(got("out").reshape(-1, 256), got("counts"), strict=True)]
        return bool((np.concatenate(kept) == a.x[a.x > 0]).all())

    return Case(
        "selection in order", {"x": ints(-100, 100), "out": zeros(N, np.int32), "counts": zeros(N // 256, np.int32)},
        launches=lambda d: [("select_in_order", *flat(N), [d.x, d.out, d.counts])],
        native=("select_in_order", "x", "out", "counts", i32(N)), expected=expected, check=check, tolerance=0,
    )  # fmt: skip


@case
def bit_counts() -> Case:
    def expected(a: Any) -> dict[str, Any]:
        length = np.frexp(a.x.astype(np.float64))[1]
        return {"out": np.bitwise_count(a.x).astype(np.int32) + (32 - length) * 64}

    return Case(
        "bits set and leading zeros", {"x": np.random.default_rng(17).integers(1, 1 << 32, N, dtype=np.uint32), "out": zeros(N, np.int32)},
        launches=lambda d: [("bit_counts", *flat(N), [d.x, d.out, i32(N)])],
        native=("bit_counts", "x", "out", i32(N)), expected=expected, tolerance=0,
    )  # fmt: skip
