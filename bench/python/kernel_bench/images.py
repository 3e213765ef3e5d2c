# SPDX-License-Identifier: Apache-2.0
"""Filters and conversions of images. Source: bench/cpp/kernels/images.cu, native side: images.cpp."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import Case, case, i32, uniform, zeros
from .more import grid2
from .ten import flat

N = 1024


def around(x: np.ndarray, radius: int) -> list[np.ndarray]:
    """The image shifted by all distances up to the radius, without its border; row by row."""
    size = len(x) - 2 * radius
    return [x[j : j + size, i : i + size] for j in range(2 * radius + 1) for i in range(2 * radius + 1)]


def inside(result: np.ndarray, radius: int) -> np.ndarray:
    return np.pad(result, radius)


def filtered(kernel: str, name: str, x: np.ndarray, expected: Any, tolerance: float = 1e-5) -> Case:
    return Case(
        name, {"x": x, "out": zeros((N, N))},
        launches=lambda d: [(kernel, *grid2(N, (32, 8)), [d.x, d.out, i32(N), i32(N)])],
        native=(kernel, "x", "out", i32(N), i32(N)), expected=lambda a: {"out": expected(a.x)}, tolerance=tolerance,
    )  # fmt: skip


@case
def sobel() -> Case:
    def expected(x: np.ndarray) -> np.ndarray:
        a = [v.astype(np.int32) for v in around(x, 1)]
        gx = a[2] - a[0] + 2 * (a[5] - a[3]) + a[8] - a[6]
        gy = a[6] + 2 * a[7] + a[8] - a[0] - 2 * a[1] - a[2]
        return inside(np.sqrt((gx * gx + gy * gy).astype(np.float32)), 1)

    return filtered("sobel", "Sobel filter", uniform((N, N), 0, 256).astype(np.uint8), expected)


@case
def median() -> Case:
    def expected(x: np.ndarray) -> np.ndarray:
        return inside(np.median(np.stack(around(x, 1)), axis=0), 1)

    return filtered("median", "median of 3x3", uniform((N, N)), expected, 0)


@case
def bilateral() -> Case:
    def expected(x: np.ndarray) -> np.ndarray:
        all_of = np.stack(around(x, 2)).astype(np.float64)
        distance = np.array([i * i + j * j for j in range(-2, 3) for i in range(-2, 3)])[:, None, None]
        weight = np.exp(-0.125 * distance - 8 * (all_of - x[2:-2, 2:-2]) ** 2)
        return inside((weight * all_of).sum(0) / weight.sum(0), 2)

    return filtered("bilateral", "bilateral filter 5x5", uniform((N, N)), expected)


@case
def box_blur() -> Case:
    result = filtered(
        "box_blur", "box blur, tiled", uniform((N, N)), lambda x: sum(around(np.pad(x, 1, "edge"), 1)) / 9
    )
    result.launches = lambda d: [("box_blur", *grid2(N, (16, 16)), [d.x, d.out, i32(N), i32(N)])]
    return result


@case
def upscale() -> Case:
    half = N // 2

    def expected(a: Any) -> dict[str, Any]:
        f = np.clip(0.5 * np.arange(N) - 0.25, 0, half - 1)
        low = f.astype(int)
        high, u = np.minimum(low + 1, half - 1), f - low
        rows = a.x[low] * (1 - u)[:, None] + a.x[high] * u[:, None]
        return {"out": rows[:, low] * (1 - u) + rows[:, high] * u}

    return Case(
        "upscaling, bilinear", {"x": uniform((half, half)), "out": zeros((N, N))},
        launches=lambda d: [("upscale", *grid2(N, (32, 8)), [d.x, d.out, i32(half), i32(half)])],
        native=("upscale", "x", "out", i32(half), i32(half)), expected=expected,
    )  # fmt: skip


@case
def rgb_to_yuv() -> Case:
    n = 1 << 20
    weights = np.array([[0.299, 0.587, 0.114], [-0.14713, -0.28886, 0.436], [0.615, -0.51499, -0.10001]])

    def expected(a: Any) -> dict[str, Any]:
        return dict(zip("yuv", (a.x.astype(np.float64) @ weights.T).T, strict=True))

    return Case(
        "RGB to YUV, 1M", {"x": uniform((n, 3), 0, 256).astype(np.uint8), "y": zeros(n), "u": zeros(n), "v": zeros(n)},
        launches=lambda d: [("rgb_to_yuv", *flat(n), [d.x, d.y, d.u, d.v, i32(n)])],
        native=("rgb_to_yuv", "x", "y", "u", "v", i32(n)), expected=expected, tolerance=1e-4,
    )  # fmt: skip
