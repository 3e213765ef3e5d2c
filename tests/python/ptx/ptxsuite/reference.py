# SPDX-License-Identifier: Apache-2.0
"""Results of instruction forms according to the exact models, independent of any device."""

from __future__ import annotations

from functools import cache

import numpy as np

from . import model_float, model_integer, model_video  # noqa: F401  each registers its models
from .forms import Form
from .model import MODELS, Model
from .values import inputs


def results(form: Form) -> bytes | None:
    """The model's results of a form over its values; None if no model covers it."""
    return _results(form.family, form.id, form)


def case(name: str, operands: list[int]) -> tuple[int, ...]:
    """The model's results of an instruction for one thread's operands."""
    compute = _find(name)
    if compute is None:
        raise KeyError(name)
    return compute(*operands)


_CACHE: dict[tuple[str, str], bytes | None] = {}


def _results(family: str, name: str, form: Form) -> bytes | None:
    if (family, name) not in _CACHE:
        _CACHE[family, name] = _compute(form)
    return _CACHE[family, name]


def _compute(form: Form) -> bytes | None:
    if form.id.startswith("wmma.m16n16"):
        return _wmma(form)
    compute = _find(form.id.removesuffix("-least"))  # the same instruction with other values
    if compute is None:
        return None
    cells = [[int(x) for x in row] for row in inputs(form)]
    rows = [compute(*case) for case in zip(*cells, strict=True)]
    views = {2: np.uint16, 4: np.uint32, 8: np.uint64}
    parts = []
    for k, result in enumerate(form.results):
        mask = (1 << (8 * result.bytes)) - 1
        parts.append(np.array([row[k] & mask for row in rows], np.uint64).astype(views[result.bytes]).tobytes())
    return b"".join(parts)


@cache
def _find(name: str) -> Model | None:
    for pattern, make in MODELS:
        if match := pattern.match(name):
            return make(match)
    return None


def _wmma(form: Form) -> bytes:
    """The products of the wmma forms per warp: each lane provides some elements of a and b, and reads some of d."""
    cells = inputs(form).astype(np.uint32)
    half = len(form.operands) // 2
    parts = form.id.split(".")
    kind, depth, plus = (np.float16, 16, 1) if parts[-1] == "f16" else (np.float32, 8, 1)
    if parts[2] == "s32":
        kind, depth, plus = (np.uint8 if parts[-1] == "u8" else np.int8), 16, -3
    layout_a, layout_b = (parts[2], parts[3]) if parts[-1] == "f16" else ("row", "col")
    result = np.int32 if parts[2] == "s32" else np.float32
    rows = []
    for warp in range(0, form.cases, 32):
        a, b = (cells[k : k + half, warp : warp + 32].T.copy().view(kind).astype(np.int64) for k in (0, half))
        a = a.reshape(16, depth) if layout_a == "row" else a.reshape(depth, 16).T
        b = b.reshape(depth, 16) if layout_b == "row" else b.reshape(16, depth).T
        d = a @ b + plus
        rows.append((d if layout_a == "row" else d.T).astype(result).reshape(32, 8))
    lanes = np.concatenate(rows)[:, 8 - len(form.results) :]
    return b"".join(np.ascontiguousarray(lanes[:, k]).tobytes() for k in range(len(form.results)))
