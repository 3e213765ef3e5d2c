# SPDX-License-Identifier: Apache-2.0
"""Layers of language models. Source: bench/cpp/kernels/networks.cu, native side: networks.cpp."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import Case, case, f32, i32, uniform, zeros
from .ten import flat


def pointwise(kernel: str, name: str, inputs: dict[str, np.ndarray], expected: Any) -> Case:
    n = len(inputs["x"])
    return Case(
        name, {**inputs, "out": zeros(n)},
        launches=lambda d: [(kernel, *flat(n), [*(getattr(d, key) for key in inputs), d.out, i32(n)])],
        native=(kernel, *inputs, "out", i32(n)), expected=lambda a: {"out": expected(a)},
    )  # fmt: skip


@case
def gelu() -> Case:
    def expected(a: Any) -> np.ndarray:
        x = a.x.astype(np.float64)
        return 0.5 * x * (1 + np.tanh(0.79788456 * (x + 0.044715 * x**3)))

    return pointwise("gelu", "GELU, 1M", {"x": uniform(1 << 20, -4, 4)}, expected)


@case
def silu_gate() -> Case:
    def expected(a: Any) -> np.ndarray:
        x = a.x.astype(np.float64)
        return x / (1 + np.exp(-x)) * a.up

    return pointwise(
        "silu_gate", "SiLU with gate, 1M", {"x": uniform(1 << 20, -4, 4), "up": uniform(1 << 20, 0, 1)}, expected
    )


@case
def residual() -> Case:
    n = 1 << 20
    return Case(
        "residual sum, float4", {"a": uniform(n), "b": uniform(n, 0, 1), "out": zeros(n)},
        launches=lambda d: [("residual", *flat(n // 4), [d.a, d.b, d.out, i32(n // 4)])],
        native=("residual", "a", "b", "out", i32(n)), expected=lambda a: {"out": a.a + a.b}, tolerance=0,
    )  # fmt: skip


@case
def embed() -> Case:
    words, length, count, channels = 4096, 512, 2048, 768
    tokens = np.random.default_rng(3).integers(0, words, count, dtype=np.int32)
    return Case(
        "embedding of tokens",
        {"tokens": tokens, "words": uniform((words, channels)), "places": uniform((length, channels), 0, 1), "out": zeros((count, channels))},
        launches=lambda d: [("embed", *flat(count * channels), [d.tokens, d.words, d.places, d.out, i32(length), i32(channels)])],
        native=("embed", "tokens", "words", "places", "out", i32(count), i32(length), i32(channels)),
        expected=lambda a: {"out": a.words[a.tokens] + np.tile(a.places, (count // length, 1))}, tolerance=0,
    )  # fmt: skip


@case
def adamw() -> Case:
    n = 1 << 20
    numbers = [f32(1e-3), f32(0.1), f32(0.19), f32(0.0975)]
    names = ("parameters", "gradients", "m", "v")

    def expected(a: Any) -> dict[str, Any]:
        m, v = 0.9 * a.m + 0.1 * a.gradients, 0.95 * a.v + 0.05 * a.gradients**2
        step = m / 0.19 / (np.sqrt(v / 0.0975) + 1e-8) + 0.1 * a.parameters
        return {"parameters": a.parameters - 1e-3 * step, "m": m, "v": v}

    return Case(
        "AdamW, 1M", {"parameters": uniform(n), "gradients": uniform(n, -0.1, 0.1), "m": uniform(n, 0, 0.1), "v": uniform(n, 0, 0.01)},
        launches=lambda d: [("adamw", *flat(n), [*(getattr(d, name) for name in names), i32(n), *numbers])],
        native=("adamw", *names, i32(n), *numbers), expected=expected, tolerance=1e-4,
    )  # fmt: skip


@case
def cross_entropy() -> Case:
    rows, columns = 1024, 1024
    targets = np.random.default_rng(5).integers(0, columns, rows, dtype=np.int32)

    def expected(a: Any) -> dict[str, Any]:
        x = a.x.astype(np.float64)
        return {"losses": np.log(np.exp(x).sum(1)) - x[np.arange(rows), a.targets]}

    return Case(
        "cross entropy, warp per row", {"x": uniform((rows, columns), -5, 5), "targets": targets, "losses": zeros(rows)},
        launches=lambda d: [("cross_entropy", *flat(rows * 32), [d.x, d.targets, d.losses, i32(rows), i32(columns)])],
        native=("cross_entropy", "x", "targets", "losses", i32(rows), i32(columns)), expected=expected, tolerance=1e-4,
    )  # fmt: skip


@case
def rope() -> Case:
    pairs, rows = 64, 8192
    n = pairs * rows
    angles = 10000.0 ** (-np.arange(pairs) / pairs)
    turns = np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)

    def expected(a: Any) -> dict[str, Any]:
        turned = a.x.view(np.complex64)[..., 0] * a.turns.view(np.complex64)[:, 0]
        return {"out": np.stack([turned.real, turned.imag], -1)}

    return Case(
        "rotary embedding", {"x": uniform((rows, pairs, 2)), "turns": turns, "out": zeros((rows, pairs, 2))},
        launches=lambda d: [("rope", *flat(n), [d.x, d.turns, d.out, i32(pairs), i32(n)])],
        native=("rope", "x", "turns", "out", i32(pairs), i32(n)), expected=expected,
    )  # fmt: skip


@case
def rms_norm() -> Case:
    rows, columns = 1024, 1024

    def expected(a: Any) -> dict[str, Any]:
        x = a.x.astype(np.float64)
        return {"out": x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * a.gain}

    return Case(
        "RMS norm 1024x1024", {"x": uniform((rows, columns), -2, 2), "gain": uniform(columns), "out": zeros((rows, columns))},
        launches=lambda d: [("rms_norm", (rows, 1, 1), (256, 1, 1), [d.x, d.gain, d.out, i32(columns)])],
        native=("rms_norm", "x", "gain", "out", i32(rows), i32(columns)), expected=expected,
    )  # fmt: skip


@case
def split_heads() -> Case:
    length, heads, size = 1024, 12, 64
    return Case(
        "attention heads apart", {"x": uniform((length, heads, size)), "out": zeros((heads, length, size))},
        launches=lambda d: [("split_heads", *flat(length * heads * size), [d.x, d.out, i32(length), i32(heads), i32(size)])],
        native=("split_heads", "x", "out", i32(length), i32(heads), i32(size)),
        expected=lambda a: {"out": a.x.transpose(1, 0, 2)}, tolerance=0,
    )  # fmt: skip
