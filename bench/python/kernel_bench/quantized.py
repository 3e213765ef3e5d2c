# SPDX-License-Identifier: Apache-2.0
"""Numbers of few bits, and layers of image networks. Source: bench/cpp/kernels/quantized.cu, native side: quantized.cpp."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import Case, case, i32, uniform, zeros
from .more import grid2
from .ten import flat

RANDOM = np.random.default_rng(19)


@case
def quantize() -> Case:
    n = 1 << 20

    def expected(a: Any) -> dict[str, Any]:
        rows = a.x.reshape(-1, 32)
        scales = np.abs(rows).max(1) / np.float32(127)
        return {"scales": scales, "out": np.rint(rows / scales[:, None])}

    return Case(
        "quantization, 8 bits", {"x": uniform(n), "out": zeros(n, np.int8), "scales": zeros(n // 32)},
        launches=lambda d: [("quantize", *flat(n), [d.x, d.out, d.scales, i32(n)])],
        native=("quantize", "x", "out", "scales", i32(n)), expected=expected, wrong_allowed=0.001,
    )  # fmt: skip


def nibbles(a: np.ndarray) -> np.ndarray:
    blocks = a.reshape(-1, 16).astype(np.int32)
    return np.concatenate([blocks & 15, blocks >> 4], 1) - 8


@case
def dequantize() -> Case:
    n = 1 << 19
    return Case(
        "dequantization, 4 bits", {"x": RANDOM.integers(0, 256, n, dtype=np.uint8), "scales": uniform(n // 16), "out": zeros(2 * n)},
        launches=lambda d: [("dequantize", *flat(n), [d.x, d.scales, d.out, i32(n)])],
        native=("dequantize", "x", "scales", "out", i32(n)), expected=lambda a: {"out": nibbles(a.x) * a.scales[:, None]},
    )  # fmt: skip


@case
def matvec_q4() -> Case:
    rows, columns = 1024, 2048

    def expected(a: Any) -> dict[str, Any]:
        matrix = (nibbles(a.a) * a.scales.reshape(-1, 1)).reshape(rows, columns)
        return {"y": matrix.astype(np.float64) @ a.x}

    return Case(
        "matrix of 4 bits x vector",
        {"a": RANDOM.integers(0, 256, (rows, columns // 2), dtype=np.uint8), "scales": uniform((rows, columns // 32)), "x": uniform(columns, 0, 1), "y": zeros(rows)},
        launches=lambda d: [("matvec_q4", *flat(rows * 32), [d.a, d.scales, d.x, d.y, i32(rows), i32(columns)])],
        native=("matvec_q4", "a", "scales", "x", "y", i32(rows), i32(columns)), expected=expected, tolerance=1e-3,
    )  # fmt: skip


@case
def matvec_q8() -> Case:
    rows, words = 1024, 512
    a, x = (RANDOM.integers(-128, 128, shape, dtype=np.int8) for shape in ((rows, 4 * words), (4 * words,)))
    return Case(
        "matrix of bytes x vector, dp4a", {"a": a, "x": x, "y": zeros(rows, np.int32)},
        launches=lambda d: [("matvec_q8", *flat(rows * 32), [d.a, d.x, d.y, i32(rows), i32(words)])],
        native=("matvec_q8", "a", "x", "y", i32(rows), i32(words)),
        expected=lambda a: {"y": a.a.astype(np.int32) @ a.x.astype(np.int32)}, tolerance=0,
    )  # fmt: skip


@case
def im2col() -> Case:
    n = 256

    def expected(a: Any) -> dict[str, Any]:
        p = np.pad(a.x, 1)
        return {"out": np.stack([p[j : j + n, k : k + n] for j in range(3) for k in range(3)])}

    return Case(
        "patches to columns", {"x": uniform((n, n)), "out": zeros((9, n, n))},
        launches=lambda d: [("im2col", *flat(n * n), [d.x, d.out, i32(n)])],
        native=("im2col", "x", "out", i32(n)), expected=expected, tolerance=0,
    )  # fmt: skip


@case
def max_pool() -> Case:
    n = 512
    return Case(
        "maximum of 2x2", {"x": uniform((2 * n, 2 * n)), "out": zeros((n, n))},
        launches=lambda d: [("max_pool", *grid2(n, (32, 8)), [d.x, d.out, i32(n)])],
        native=("max_pool", "x", "out", i32(n)), expected=lambda a: {"out": a.x.reshape(n, 2, n, 2).max((1, 3))}, tolerance=0,
    )  # fmt: skip
