# SPDX-License-Identifier: Apache-2.0
"""Further kernels. Source: bench/cpp/kernels/more.cu, native side: more.cpp."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from .case import Case, case, f32, i32, uniform, zeros
from .ten import flat


def grid2(n: int, block: tuple[int, int]) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    return (n // block[0], n // block[1], 1), (*block, 1)


def u32(value: int) -> ctypes.c_uint:
    return ctypes.c_uint(value)


def transposed(kernel: str, name: str) -> Case:
    n = 2048
    return Case(
        name, {"x": uniform((n, n)), "out": zeros((n, n))},
        launches=lambda d: [(kernel, (n // 32, n // 32, 1), (32, 8, 1), [d.x, d.out, i32(n)])],
        native=("transpose", "x", "out", i32(n)), expected=lambda a: {"out": a.x.T}, tolerance=0,
    )  # fmt: skip


@case
def transpose_naive() -> Case:
    return transposed("transpose_naive", "transpose, naive")


@case
def transpose_tiled() -> Case:
    return transposed("transpose_tiled", "transpose, tiled")


@case
def grayscale() -> Case:
    n = 1 << 22

    def expected(a: Any) -> dict[str, Any]:
        p = a.x.astype(np.float32)
        return {
            "out": (p[:, 0] * np.float32(0.299) + p[:, 1] * np.float32(0.587) + p[:, 2] * np.float32(0.114)).astype(
                np.uint8
            )
        }

    return Case(
        "grayscale 4M", {"x": uniform((n, 4), 0, 256).astype(np.uint8), "out": zeros(n, np.uint8)},
        launches=lambda d: [("grayscale", *flat(n), [d.x, d.out, i32(n)])],
        native=("grayscale", "x", "out", i32(n)), expected=expected, tolerance=0, wrong_allowed=0.01,
    )  # fmt: skip


@case
def convolution() -> Case:
    n = 2048
    taps = np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1]).astype(np.float32)

    def expected(a: Any) -> dict[str, Any]:
        out = np.zeros_like(a.x)
        sums = sum(taps[j, i] * a.x[j : n - 4 + j, i : n - 4 + i] for j in range(5) for i in range(5))
        out[2:-2, 2:-2] = sums / 256
        return {"out": out}

    return Case(
        "convolution 5x5", {"x": uniform((n, n)), "out": zeros((n, n))},
        launches=lambda d: [("convolution", *grid2(n, (32, 8)), [d.x, d.out, i32(n), i32(n)])],
        native=("convolution", "x", "out", i32(n), i32(n)), expected=expected,
    )  # fmt: skip


@case
def row_filter() -> Case:
    n = 1 << 22
    return Case(
        "filter of 17 points", {"x": uniform(n), "out": zeros(n)},
        launches=lambda d: [("row_filter", *flat(n), [d.x, d.out, i32(n)])],
        native=("row_filter", "x", "out", i32(n)),
        expected=lambda a: {"out": np.convolve(a.x.astype(np.float64), np.ones(17) / 17, "same")},
    )  # fmt: skip


@case
def jacobi() -> Case:
    n = 2048

    def expected(a: Any) -> dict[str, Any]:
        out, c = np.zeros_like(a.x), slice(1, -1)
        out[c, c] = 0.25 * (a.x[c, :-2] + a.x[c, 2:] + a.x[:-2, c] + a.x[2:, c])
        return {"out": out}

    return Case(
        "jacobi, double", {"x": uniform((n, n), dtype=np.float64), "out": zeros((n, n), np.float64)},
        launches=lambda d: [("jacobi", *grid2(n, (32, 8)), [d.x, d.out, i32(n)])],
        native=("jacobi", "x", "out", i32(n)), expected=expected, tolerance=1e-12,
    )  # fmt: skip


@case
def life() -> Case:
    n = 2048

    def expected(a: Any) -> dict[str, Any]:
        x, out = a.x, np.zeros_like(a.x)
        around = sum(x[1 + j : n - 1 + j, 1 + i : n - 1 + i] for j in (-1, 0, 1) for i in (-1, 0, 1) if i or j)
        out[1:-1, 1:-1] = (around == 3) | ((around == 2) & (x[1:-1, 1:-1] == 1))
        return {"out": out}

    return Case(
        "game of life", {"x": (uniform((n, n)) > 0).astype(np.uint8), "out": zeros((n, n), np.uint8)},
        launches=lambda d: [("life", *grid2(n, (32, 8)), [d.x, d.out, i32(n)])],
        native=("life", "x", "out", i32(n)), expected=expected, tolerance=0,
    )  # fmt: skip


def sparse(kernel: str, name: str, per_row: int, threads: int) -> Case:
    n = 1 << 16
    random = np.random.default_rng(7)
    lengths = random.integers(per_row // 2, per_row * 3 // 2, n)
    rows = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    columns = random.integers(0, n, rows[-1]).astype(np.int32)
    values = uniform(int(rows[-1]))

    def expected(a: Any) -> dict[str, Any]:
        products = a.values.astype(np.float64) * a.x[a.columns]
        return {"y": np.add.reduceat(products, a.rows[:-1])}

    return Case(
        name, {"rows": rows, "columns": columns, "values": values, "x": uniform(n), "y": zeros(n)},
        launches=lambda d: [(kernel, *flat(n * threads), [d.rows, d.columns, d.values, d.x, d.y, i32(n)])],
        native=("spmv", "rows", "columns", "values", "x", "y", i32(n)), expected=expected, tolerance=1e-4,
    )  # fmt: skip


@case
def spmv_thread() -> Case:
    return sparse("spmv_thread", "SpMV, thread per row", 16, 1)


@case
def spmv_warp() -> Case:
    return sparse("spmv_warp", "SpMV, warp per row", 128, 32)


@case
def softmax() -> Case:
    rows, columns = 4096, 1024

    def expected(a: Any) -> dict[str, Any]:
        e = np.exp(a.x.astype(np.float64) - a.x.max(axis=1, keepdims=True))
        return {"out": e / e.sum(axis=1, keepdims=True)}

    return Case(
        "softmax 4096x1024", {"x": uniform((rows, columns), -5, 5), "out": zeros((rows, columns))},
        launches=lambda d: [("softmax", (rows, 1, 1), (256, 1, 1), [d.x, d.out, i32(columns)])],
        native=("softmax", "x", "out", i32(rows), i32(columns)), expected=expected,
    )  # fmt: skip


@case
def layer_norm() -> Case:
    rows, columns = 4096, 1024

    def expected(a: Any) -> dict[str, Any]:
        x = a.x.astype(np.float64)
        return {"out": (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * a.gain + a.bias}

    return Case(
        "layer norm 4096x1024",
        {"x": uniform((rows, columns), -5, 5), "gain": uniform(columns), "bias": uniform(columns, 0, 1), "out": zeros((rows, columns))},
        launches=lambda d: [("layer_norm", (rows, 1, 1), (256, 1, 1), [d.x, d.gain, d.bias, d.out, i32(columns)])],
        native=("layer_norm", "x", "gain", "bias", "out", i32(rows), i32(columns)), expected=expected, tolerance=1e-4,
    )  # fmt: skip


@case
def attention() -> Case:
    n = 1024

    def expected(a: Any) -> dict[str, Any]:
        q, k, v = (m.astype(np.float64) for m in (a.q, a.k, a.v))
        s = q @ k.T / 8
        p = np.exp(s - s.max(1, keepdims=True))
        return {"out": p @ v / p.sum(1, keepdims=True)}

    return Case(
        "attention 1024x64", {"q": uniform((n, 64)), "k": uniform((n, 64), 0, 1), "v": uniform((n, 64), -2, 2), "out": zeros((n, 64))},
        launches=lambda d: [("attention", (n, 1, 1), (64, 1, 1), [d.q, d.k, d.v, d.out, i32(n)])],
        native=("attention", "q", "k", "v", "out", i32(n)), expected=expected, tolerance=1e-4,
    )  # fmt: skip


def keys(n: int) -> np.ndarray:
    return np.random.default_rng(n).integers(1, 1 << 32, n, dtype=np.uint32)


@case
def bitonic() -> Case:
    n = 1 << 20
    return Case(
        "bitonic sort of 512s", {"data": keys(n)},
        launches=lambda d: [("bitonic", (n // 512, 1, 1), (256, 1, 1), [d.data])],
        native=("sort_blocks", "data", i32(n)),
        expected=lambda a: {"data": np.sort(a.data.reshape(-1, 512), axis=1).ravel()}, tolerance=0,
    )  # fmt: skip


@case
def radix() -> Case:
    n = 1 << 20
    blocks = n // 256
    return Case(
        "radix sort, one pass", {"x": keys(n), "out": zeros(n, np.uint32), "counts": zeros(16 * blocks, np.uint32)},
        launches=lambda d: [
            ("radix_count", *flat(n), [d.x, d.counts, i32(8)]),
            ("radix_scan", (1, 1, 1), (1024, 1, 1), [d.counts, i32(16 * blocks)]),
            ("radix_move", *flat(n), [d.x, d.out, d.counts, i32(8)]),
        ],
        native=("radix_pass", "x", "out", i32(n), i32(8)),
        expected=lambda a: {"out": a.x[np.argsort(a.x >> 8 & 15, kind="stable")]}, tolerance=0,
    )  # fmt: skip


@case
def look_back() -> Case:
    n = 1 << 20
    return Case(
        "prefix sum by look-back",
        {"x": uniform(n, 0, 100).astype(np.int32), "out": zeros(n, np.int32), "state": zeros(n // 256, np.uint64), "ticket": zeros(1, np.uint32)},
        launches=lambda d: [("clear", "state"), ("clear", "ticket"), ("look_back", *flat(n), [d.x, d.out, d.state, d.ticket, i32(n)])],
        native=("prefix_sum", "x", "out", i32(n)),
        expected=lambda a: {"out": np.cumsum(a.x, dtype=np.int32)}, tolerance=0,
    )  # fmt: skip


@case
def compact() -> Case:
    n = 1 << 22
    return Case(
        "stream compaction", {"x": uniform(n, -100, 100).astype(np.int32), "out": zeros(n, np.int32), "count": zeros(1, np.uint32)},
        launches=lambda d: [("clear", "count"), ("compact", *flat(n), [d.x, d.out, d.count, i32(n)])],
        native=("compact", "x", "out", "count", i32(n)),
        expected=lambda a: {"count": np.count_nonzero(a.x > 0)}, tolerance=0,
    )  # fmt: skip


def mix(h: np.ndarray) -> np.ndarray:
    h = (h ^ h >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    h = (h ^ h >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return h ^ h >> np.uint32(16)


@case
def hash_numbers() -> Case:
    n = 1 << 22

    def expected(a: Any) -> dict[str, Any]:
        h = a.x
        for k in range(8):
            h = mix(h + np.uint32(k))
        return {"out": h}

    return Case(
        "hash of numbers", {"x": keys(n), "out": zeros(n, np.uint32)},
        launches=lambda d: [("hash", *flat(n), [d.x, d.out, i32(n)])],
        native=("hash", "x", "out", i32(n)), expected=expected, tolerance=0,
    )  # fmt: skip


@case
def hash_insert() -> Case:
    n, size = 1 << 19, 1 << 20

    def expected(
        a: Any,
    ) -> dict[str, Any]:  # the position of a key depends on the order of threads; the set of keys does not
        return {}

    return Case(
        "hash table, insertion", {"x": np.unique(keys(n)), "table": zeros(size, np.uint32)},
        launches=lambda d: [("clear", "table"), ("hash_insert", *flat(n), [d.x, d.table, i32(len(np.unique(keys(n)))), u32(size - 1)])],
        native=("hash_insert", "x", "table", i32(len(np.unique(keys(n)))), u32(size - 1)),
        expected=expected, check=lambda a, got: bool((np.sort(got("table")[got("table") != 0]) == a.x).all()),
    )  # fmt: skip


@case
def floyd() -> Case:
    n = 256

    def expected(a: Any) -> dict[str, Any]:
        d = a.distance.copy()
        for k in range(n):
            d = np.minimum(d, d[:, k : k + 1] + d[k : k + 1])
        return {"distance": d}

    return Case(
        "Floyd-Warshall 256", {"distance": uniform((n, n), 1, 1000).astype(np.int32)},
        launches=lambda d: [("floyd", *grid2(n, (32, 8)), [d.distance, i32(n), i32(k)]) for k in range(n)],
        native=("floyd", "distance", i32(n)), expected=expected, tolerance=0,
    )  # fmt: skip


@case
def philox() -> Case:
    n, seed = 1 << 20, 1234

    def expected(a: Any) -> dict[str, Any]:
        c = [np.arange(n, dtype=np.uint64), *(np.zeros(n, np.uint64) for _ in range(3))]
        k, low = [seed, 0], np.uint64(0xFFFFFFFF)
        for _ in range(10):
            p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
            c = [
                p1 >> np.uint64(32) ^ c[1] ^ np.uint64(k[0]),
                p1 & low,
                p0 >> np.uint64(32) ^ c[3] ^ np.uint64(k[1]),
                p0 & low,
            ]
            k = [k[0] + 0x9E3779B9 & 0xFFFFFFFF, k[1] + 0xBB67AE85 & 0xFFFFFFFF]
        return {"out": np.stack(c, axis=1)}

    return Case(
        "random numbers, philox", {"out": zeros((n, 4), np.uint32)},
        launches=lambda d: [("philox", *flat(n), [d.out, u32(seed), i32(n)])],
        native=("philox", "out", u32(seed), i32(n)), expected=expected, tolerance=0,
    )  # fmt: skip


@case
def collatz() -> Case:
    n = 1 << 18

    def expected(a: Any) -> dict[str, Any]:
        v, steps = np.arange(1, n + 1, dtype=np.uint32), np.zeros(n, np.int32)
        while (on := v != 1).any():
            v = np.where(on, np.where(v & 1, 3 * v + 1, v // 2), v).astype(np.uint32)
            steps += on
        return {"out": steps}

    return Case(
        "Collatz, 256K", {"out": zeros(n, np.int32)},
        launches=lambda d: [("collatz", *flat(n), [d.out, i32(n)])],
        native=("collatz", "out", i32(n)), expected=expected, tolerance=0,
    )  # fmt: skip


@case
def fft() -> Case:
    count = 1024

    def expected(a: Any) -> dict[str, Any]:
        return {
            "out": np.fft.fft(a.x.view(np.complex64).reshape(count, 1024), axis=1).astype(np.complex64).view(np.float32)
        }

    return Case(
        "FFT, 1024 x 1024 points", {"x": uniform((count, 2048)), "out": zeros((count, 2048))},
        launches=lambda d: [("fft", (count, 1, 1), (256, 1, 1), [d.x, d.out])],
        native=("fft", "x", "out", i32(count)), expected=expected, tolerance=1e-3,
    )  # fmt: skip


@case
def half_axpy() -> Case:
    n = 1 << 23
    return Case(
        "axpy in half, 8M", {"x": uniform(n, dtype=np.float16), "y": uniform(n, 0, 1, np.float16)},
        launches=lambda d: [
            ("half_axpy", *flat(n // 2), [ctypes.c_uint16(int(np.float16(2.5).view(np.uint16))), d.x, d.y, i32(n // 2)])
        ],
        native=("half_axpy", f32(2.5), "x", "y", i32(n)),
        expected=lambda a: {"y": 2.5 * a.x.astype(np.float32) + a.y.astype(np.float32)}, tolerance=2e-3,
    )  # fmt: skip


@case
def dot() -> Case:
    n = 1 << 22
    return Case(
        "dot product, double", {"x": uniform(n, dtype=np.float64), "y": uniform(n, 0, 1, np.float64), "out": zeros(1, np.float64)},
        launches=lambda d: [("clear", "out"), ("dot", (256, 1, 1), (256, 1, 1), [d.x, d.y, d.out, i32(n)])],
        native=("dot", "x", "y", "out", i32(n)), expected=lambda a: {"out": a.x @ a.y}, tolerance=1e-9,
    )  # fmt: skip


@case
def dgemm() -> Case:
    n = 512
    return Case(
        "tiled matmul, double 512",
        {"a": uniform((n, n), dtype=np.float64), "b": uniform((n, n), 0, 1, np.float64), "c": zeros((n, n), np.float64)},
        launches=lambda d: [("dgemm", (n // 16, n // 16, 1), (16, 16, 1), [d.a, d.b, d.c, i32(n)])],
        native=("dgemm", "a", "b", "c", i32(n)), expected=lambda a: {"c": a.a @ a.b}, tolerance=1e-9,
    )  # fmt: skip


@case
def warp_matmul() -> Case:
    n = 256
    return Case(
        "warp matrix product 256",
        {"a": uniform((n, n), dtype=np.float16), "b": uniform((n, n), 0, 1, np.float16), "c": zeros((n, n))},
        launches=lambda d: [("warp_matmul", (n // 16, n // 16, 1), (32, 1, 1), [d.a, d.b, d.c, i32(n)])],
        native=("half_matmul", "a", "b", "c", i32(n)),
        expected=lambda a: {"c": a.a.astype(np.float32) @ a.b.astype(np.float32)}, tolerance=1e-2,
    )  # fmt: skip
