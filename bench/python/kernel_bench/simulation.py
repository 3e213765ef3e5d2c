# SPDX-License-Identifier: Apache-2.0
"""Physics, search and clustering. Source: bench/cpp/kernels/simulation.cu, native side: simulation.cpp."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import Case, case, f32, i32, uniform, zeros
from .more import grid2
from .ten import flat


@case
def hotspot() -> Case:
    n = 1024

    def expected(a: Any) -> dict[str, Any]:
        t, p = a.x.astype(np.float64), np.pad(a.x, 1, "edge").astype(np.float64)
        vertical, horizontal = p[:-2, 1:-1] + p[2:, 1:-1] - 2 * t, p[1:-1, :-2] + p[1:-1, 2:] - 2 * t
        return {"out": t + 0.1 * (a.power + vertical * 0.5 + horizontal * 0.25 + (80 - t) * 0.01)}

    return Case(
        "hotspot 1024", {"x": uniform((n, n), 60, 90), "power": uniform((n, n), 0, 1), "out": zeros((n, n))},
        launches=lambda d: [("hotspot", *grid2(n, (32, 8)), [d.x, d.power, d.out, i32(n)])],
        native=("hotspot", "x", "power", "out", i32(n)), expected=expected,
    )  # fmt: skip


@case
def diffusion() -> Case:
    n, q0 = 1024, 0.05

    def expected(a: Any) -> dict[str, Any]:
        x = a.x.astype(np.float64)
        c = x[1:-1, 1:-1]
        d = [x[:-2, 1:-1] - c, x[2:, 1:-1] - c, x[1:-1, :-2] - c, x[1:-1, 2:] - c]
        g2, slope = sum(v * v for v in d) / (c * c), sum(d) / c
        q = (0.5 * g2 - 0.0625 * slope * slope) / (1 + 0.25 * slope) ** 2
        return {"out": np.pad(np.clip(1 / (1 + (q - q0) / (q0 * (1 + q0))), 0, 1), 1)}

    return Case(
        "speckle diffusion 1024", {"x": uniform((n, n), 1, 2), "out": zeros((n, n))},
        launches=lambda d: [("diffusion", *grid2(n, (32, 8)), [d.x, d.out, i32(n), f32(q0)])],
        native=("diffusion", "x", "out", i32(n), f32(q0)), expected=expected, tolerance=1e-3,
    )  # fmt: skip


@case
def pathfinder() -> Case:
    columns, steps = 1 << 18, 8
    inside = 256 - 2 * steps

    def expected(a: Any) -> dict[str, Any]:
        now = a.x
        for row in a.wall:
            p = np.pad(now, 1, constant_values=1 << 30)
            now = np.minimum(np.minimum(p[:-2], p[1:-1]), p[2:]) + row
        return {"out": now}

    return Case(
        "pathfinder, 8 rows",
        {"wall": uniform((steps, columns), 0, 10).astype(np.int32), "x": uniform(columns, 0, 10).astype(np.int32), "out": zeros(columns, np.int32)},
        launches=lambda d: [("pathfinder", (-(-columns // inside), 1, 1), (256, 1, 1), [d.wall, d.x, d.out, i32(columns), i32(0), i32(steps)])],
        native=("pathfinder", "wall", "x", "out", i32(columns), i32(steps)), expected=expected, tolerance=0,
    )  # fmt: skip


@case
def pair_forces() -> Case:
    n, count = 1 << 15, 32
    neighbours = (np.arange(n) + np.random.default_rng(9).integers(1, 500, (count, n))) % n

    def expected(a: Any) -> dict[str, Any]:
        p, force = a.position[:, :3].astype(np.float64), np.zeros((n, 4))
        for row in a.neighbours:
            d = p - p[row]
            inverse = 1 / ((d * d).sum(1) + 0.01)
            force[:, :3] += d * (inverse**3 * (inverse**3 - 0.5) * inverse)[:, None]
        return {"force": force}

    return Case(
        "forces by neighbour list", {"position": uniform((n, 4), 0, 20), "neighbours": neighbours.astype(np.int32), "force": zeros((n, 4))},
        launches=lambda d: [("pair_forces", *flat(n), [d.position, d.neighbours, d.force, i32(n), i32(count)])],
        native=("pair_forces", "position", "neighbours", "force", i32(n), i32(count)), expected=expected, tolerance=1e-2,
    )  # fmt: skip


@case
def nearest_centre() -> Case:
    n, count = 1 << 17, 16

    def expected(a: Any) -> dict[str, Any]:
        distance = ((a.points.T[:, None].astype(np.float64) - a.centres) ** 2).sum(2)
        return {"out": distance.argmin(1)}

    return Case(
        "k-means, assignment", {"points": uniform((8, n)), "centres": uniform((count, 8)), "out": zeros(n, np.int32)},
        launches=lambda d: [("nearest_centre", *flat(n), [d.points, d.centres, d.out, i32(n), i32(count)])],
        native=("nearest_centre", "points", "centres", "out", i32(n), i32(count)), expected=expected, tolerance=0, wrong_allowed=0.001,
    )  # fmt: skip


@case
def search() -> Case:
    n, degree, depths = 1 << 16, 8, 7
    columns = np.random.default_rng(11).integers(0, n, n * degree, dtype=np.int32)
    start = np.full(n, -1, np.int32)
    start[0] = 0

    def expected(a: Any) -> dict[str, Any]:
        level = start.copy()
        for depth in range(depths):
            reached = a.columns.reshape(n, degree)[level == depth].ravel()
            level[reached[level[reached] < 0]] = depth + 1
        return {"level": level}

    return Case(
        "breadth-first search",
        {"rows": (np.arange(n + 1) * degree).astype(np.int32), "columns": columns, "level": start, "start": start},
        launches=lambda d: [
            ("copy_ints", *flat(n), [d.start, d.level, i32(n)]),
            *(("search_level", *flat(n), [d.rows, d.columns, d.level, i32(n), i32(k)]) for k in range(depths)),
        ],
        native=("search_levels", "rows", "columns", "level", i32(n), i32(depths)), expected=expected, tolerance=0,
    )  # fmt: skip


@case
def monte_carlo() -> Case:
    threads, tries = 1 << 14, 64

    def expected(a: Any) -> dict[str, Any]:
        state, hits = np.arange(threads, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(12345), 0
        for _ in range(tries):
            point = []
            for _ in range(2):
                state = state * np.uint32(1664525) + np.uint32(1013904223)
                point.append((state >> np.uint32(8)).astype(np.float32) / np.float32(16777216))
            hits += np.count_nonzero(point[0] * point[0] + point[1] * point[1] < 1)
        return {"hits": hits}

    return Case(
        "Monte Carlo, pi", {"hits": zeros(1, np.uint32)},
        launches=lambda d: [("clear", "hits"), ("monte_carlo", *flat(threads), [d.hits, i32(tries)])],
        native=("monte_carlo", "hits", i32(threads), i32(tries)), expected=expected, tolerance=1e-5,
    )  # fmt: skip


@case
def binomial() -> Case:
    n, up, down = 1024, 0.51, 0.489

    def expected(a: Any) -> dict[str, Any]:
        value = np.maximum(a.x[:, None].astype(np.float64) * np.exp((2 * np.arange(256) - 255) * 0.02) - 100, 0)
        for _ in range(255):
            value = up * value[:, 1:] + down * value[:, :-1]
        return {"out": value[:, 0]}

    return Case(
        "binomial options", {"x": uniform(n, 80, 120), "out": zeros(n)},
        launches=lambda d: [("binomial", (n, 1, 1), (256, 1, 1), [d.x, d.out, f32(up), f32(down)])],
        native=("binomial", "x", "out", f32(up), f32(down), i32(n)), expected=expected, tolerance=1e-3,
    )  # fmt: skip


@case
def integrate() -> Case:
    n, dt = 1 << 19, 0.01

    def expected(a: Any) -> dict[str, Any]:
        velocity = a.velocity - np.array([0, 0, 9.81 * dt])
        return {"velocity": velocity, "position": a.position + velocity * dt}

    return Case(
        "particles, three numbers each", {"position": uniform((n, 3)), "velocity": uniform((n, 3), 0, 1)},
        launches=lambda d: [("integrate", *flat(n), [d.position, d.velocity, i32(n), f32(dt)])],
        native=("integrate", "position", "velocity", i32(n), f32(dt)), expected=expected,
    )  # fmt: skip
