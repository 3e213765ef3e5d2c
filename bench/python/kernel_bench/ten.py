# SPDX-License-Identifier: Apache-2.0
"""The ten kernels with goals. CUDA source: bench/cpp/kernels/source.cu, native side: native.cpp."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import Case, case, f32, i32, uniform, zeros


def flat(n: int, block: int = 256) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    return ((n + block - 1) // block, 1, 1), (block, 1, 1)


@case
def saxpy() -> Case:
    n = 1 << 24
    return Case(
        "saxpy 16M", {"x": uniform(n), "y": uniform(n + 1)[:n].copy()}, goal=1.3,
        launches=lambda d: [("saxpy", *flat(n), [f32(2.5), d.x, d.y, i32(n)])],
        native=("saxpy", f32(2.5), "x", "y", i32(n)),
        expected=lambda a: {"y": np.float32(2.5) * a.x + a.y},
    )  # fmt: skip


@case
def vector_add() -> Case:
    n = 1 << 20
    return Case(
        "vector add 1M", {"a": uniform(n), "b": uniform(n, 0, 3), "c": zeros(n)}, goal=1.3, repeat=20,
        launches=lambda d: [("vector_add", *flat(n), [d.a, d.b, d.c, i32(n)])],
        native=("vector_add", "a", "b", "c", i32(n), i32(20)),
        expected=lambda a: {"c": a.a + a.b}, tolerance=0,
    )  # fmt: skip


@case
def matmul() -> Case:
    n = 1024
    return Case(
        "tiled matmul 1024", {"a": uniform((n, n)), "b": uniform((n, n), 0, 1), "c": zeros((n, n))}, goal=1.2,
        launches=lambda d: [("matmul", (n // 16, n // 16, 1), (16, 16, 1), [d.a, d.b, d.c, i32(n)])],
        native=("matmul", "a", "b", "c", i32(n)),
        expected=lambda a: {"c": a.a @ a.b}, tolerance=1e-3,
    )  # fmt: skip


@case
def reduce() -> Case:
    n = 1 << 24
    return Case(
        "block reduction 16M", {"x": uniform(n, 0, 1), "out": zeros(1)}, goal=1.3,
        launches=lambda d: [("clear", "out"), ("reduce", *flat(n), [d.x, d.out, i32(n)])],
        native=("reduce", "x", "out", i32(n)),
        expected=lambda a: {"out": a.x.sum(dtype=np.float64)}, tolerance=1e-2,
    )  # fmt: skip


@case
def histogram() -> Case:
    n = 1 << 24
    return Case(
        "shared histogram 16M", {"x": uniform(n, 0, 256).astype(np.uint8), "bins": zeros(256, np.uint32)}, goal=2,
        launches=lambda d: [("clear", "bins"), ("histogram", (256, 1, 1), (256, 1, 1), [d.x, d.bins, i32(n)])],
        native=("histogram", "x", "bins", i32(n)),
        expected=lambda a: {"bins": np.bincount(a.x, minlength=256)}, tolerance=0,
    )  # fmt: skip


def mandelbrot_rows(width: int, height: int, most: int, rows: np.ndarray) -> np.ndarray:
    cx = np.float32(-2) + np.float32(3) * np.arange(width, dtype=np.float32) / np.float32(width)
    cy = (np.float32(-1.5) + np.float32(3) * rows.astype(np.float32) / np.float32(height))[:, None]
    x, y, n = (np.zeros((len(rows), width), t) for t in (np.float32, np.float32, np.int32))
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(most):
            inside = x * x + y * y <= 4
            if not inside.any():
                break
            x, y = np.where(inside, x * x - y * y + cx, x), np.where(inside, 2 * x * y + cy, y)
            n += inside
    return n


@case
def mandelbrot() -> Case:
    width = height = 2048
    rows = np.arange(0, height, 32)
    return Case(
        "mandelbrot 2048", {"out": zeros((height, width), np.int32)}, goal=1.3,
        launches=lambda d: [
            ("mandelbrot", (width // 16, height // 16, 1), (16, 16, 1), [d.out, i32(width), i32(height), i32(200)])
        ],
        native=("mandelbrot", "out", i32(width), i32(height), i32(200)),
        expected=lambda a: {"out": (rows, mandelbrot_rows(width, height, 200, rows))}, wrong_allowed=0.02,
    )  # fmt: skip


def normal_distribution(d: np.ndarray) -> np.ndarray:
    k = 1 / (1 + 0.2316419 * np.abs(d))
    series = k * (0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    c = 0.39894228040143267794 * np.exp(-0.5 * d * d) * series
    return np.where(d > 0, 1 - c, c)


@case
def blackscholes() -> Case:
    n, rate, volatility = 1 << 22, 0.02, 0.3

    def expected(a: Any) -> dict[str, Any]:
        s, x, t = (v.astype(np.float64) for v in (a.price, a.strike, a.years))
        d1 = (np.log(s / x) + (rate + 0.5 * volatility**2) * t) / (volatility * np.sqrt(t))
        n1, n2, discount = (
            normal_distribution(d1),
            normal_distribution(d1 - volatility * np.sqrt(t)),
            x * np.exp(-rate * t),
        )
        return {"call": s * n1 - discount * n2, "put": discount * (1 - n2) - s * (1 - n1)}

    return Case(
        "black-scholes 4M",
        {"price": uniform(n, 5, 30), "strike": uniform(n + 1, 1, 100)[:n].copy(), "years": uniform(n + 2, 0.25, 10)[:n].copy(),
         "call": zeros(n), "put": zeros(n)}, goal=1.3,
        launches=lambda d: [
            ("blackscholes", *flat(n), [d.call, d.put, d.price, d.strike, d.years, f32(rate), f32(volatility), i32(n)])
        ],
        native=("blackscholes", "call", "put", "price", "strike", "years", f32(rate), f32(volatility), i32(n)),
        expected=expected, tolerance=1e-4,
    )  # fmt: skip


@case
def nbody() -> Case:
    n, part = 8192, np.arange(0, 8192, 32)

    def expected(a: Any) -> dict[str, Any]:
        p = a.position.astype(np.float64)
        d = p[None, :, :3] - p[part][:, None, :3]
        s = p[None, :, 3] / (np.sum(d * d, axis=2) + 1e-6) ** 1.5
        return {"force": (part, np.concatenate([np.einsum("ijk,ij->ik", d, s), np.zeros((len(part), 1))], axis=1))}

    return Case(
        "n-body 8192", {"position": uniform((n, 4), 0, 1), "force": zeros((n, 4))}, goal=1.3,
        launches=lambda d: [("nbody", *flat(n), [d.position, d.force, i32(n)])],
        native=("nbody", "position", "force", i32(n)),
        expected=expected, tolerance=1e-3,
    )  # fmt: skip


@case
def stencil() -> Case:
    side = 256

    def expected(a: Any) -> dict[str, Any]:
        out, x, c = np.zeros_like(a.x), a.x, slice(1, -1)
        around = x[c, c, :-2] + x[c, c, 2:] + x[c, :-2, c] + x[c, 2:, c] + x[:-2, c, c] + x[2:, c, c]
        out[c, c, c] = np.float32(0.4) * x[c, c, c] + np.float32(0.1) * around
        return {"out": out}

    return Case(
        "stencil 256^3", {"x": uniform((side, side, side), 0, 1), "out": zeros((side, side, side))}, goal=1.3,
        launches=lambda d: [
            ("stencil", (side // 32, side // 8, side), (32, 8, 1), [d.x, d.out, i32(side), i32(side), i32(side)])
        ],
        native=("stencil", "x", "out", i32(side), i32(side), i32(side)),
        expected=expected,
    )  # fmt: skip


@case
def scan() -> Case:
    n = 1 << 24

    def expected(a: Any) -> dict[str, Any]:
        out = np.cumsum(a.x.reshape(-1, 256), axis=1, dtype=np.int32)
        return {"out": out, "sums": out[:, -1]}

    return Case(
        "block scan 16M",
        {"x": uniform(n, 0, 100).astype(np.int32), "out": zeros(n, np.int32), "sums": zeros(n // 256, np.int32)}, goal=1.3,
        launches=lambda d: [("scan", *flat(n), [d.x, d.out, d.sums, i32(n)])],
        native=("scan", "x", "out", "sums", i32(n)),
        expected=expected, tolerance=0,
    )  # fmt: skip
