# SPDX-License-Identifier: Apache-2.0
"""Triton without torch: a tensor is an object with `data_ptr` and `dtype`."""

from __future__ import annotations

from typing import Any

import numpy as np
import triton
import triton.language as tl
from arrays import DeviceArray
from rows import main, row


class Kind:
    """The type of a tensor's elements, with the spelling that Triton reads."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return f"torch.{self.name}"

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kind) and other.name == self.name


class Tensor(DeviceArray):
    def __init__(self, values: Any) -> None:
        super().__init__(values)
        self.dtype = Kind(str(self.values.dtype))


def random(*shape: int, kind: str = "float32") -> Tensor:
    return Tensor((np.random.default_rng(sum(shape)).random(shape) - 0.5).astype(kind))


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


@row("add")
def add() -> None:
    n = 10_001
    x, y, out = random(n), random(n), Tensor(np.zeros(n, "float32"))
    add_kernel[(triton.cdiv(n, 256),)](x, y, out, n, BLOCK=256)
    np.testing.assert_array_equal(out.get(), x.values + y.values)


@triton.jit
def softmax_kernel(x, out, columns, BLOCK: tl.constexpr):
    line = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    values = tl.load(x + line * columns + i, mask=i < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + line * columns + i, powers / tl.sum(powers, axis=0), mask=i < columns)


@row("softmax")
def softmax() -> None:
    x, out = random(37, 781), Tensor(np.zeros((37, 781), "float32"))
    softmax_kernel[(37,)](x, out, 781, BLOCK=1024)
    powers = np.exp(x.values - x.values.max(1, keepdims=True))
    np.testing.assert_allclose(out.get(), powers / powers.sum(1, keepdims=True), rtol=1e-5, atol=1e-8)


@triton.jit
def matmul_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, P: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        left = tl.load(a + m[:, None] * K + (start + k)[None, :], mask=m[:, None] < M, other=0.0)
        right = tl.load(b + (start + k)[:, None] * N + n[None, :], mask=n[None, :] < N, other=0.0)
        total = tl.dot(left, right, total, input_precision=P)
    tl.store(c + m[:, None] * N + n[None, :], total, mask=(m[:, None] < M) & (n[None, :] < N))


def matmul(kind: str, precision: str, tolerance: float, warps: int = 4) -> None:
    M, N, K = 96, 136, 128
    a, b, c = random(M, K, kind=kind), random(K, N, kind=kind), Tensor(np.zeros((M, N), "float32"))
    grid = (triton.cdiv(M, 64), triton.cdiv(N, 64))
    matmul_kernel[grid](a, b, c, M, N, K, BM=64, BN=64, BK=32, P=precision, num_warps=warps)
    np.testing.assert_allclose(c.get(), a.values.astype("f4") @ b.values.astype("f4"), rtol=tolerance, atol=tolerance)


@row("matmul fp16")
def matmul_half() -> None:
    matmul("float16", "ieee", 1e-3)


@row("matmul tf32")
def matmul_tf32() -> None:
    matmul("float32", "tf32", 5e-3)


@row("matmul fp32")
def matmul_ieee() -> None:
    matmul("float32", "ieee", 1e-5)


@triton.jit
def attention_kernel(q, k, v, out, N, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    query = tl.load(q + rows[:, None] * D + d[None, :])
    largest = tl.full((BM,), -float("inf"), tl.float32)
    weight = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, D), tl.float32)
    for start in range(0, N, BN):
        columns = start + tl.arange(0, BN)
        keys = tl.load(k + columns[:, None] * D + d[None, :])
        scores = tl.dot(query, tl.trans(keys)) * scale
        scores = tl.where(rows[:, None] >= columns[None, :], scores, -float("inf"))
        now = tl.maximum(largest, tl.max(scores, 1))
        powers = tl.exp(scores - now[:, None])
        shrink = tl.exp(largest - now)
        weight = weight * shrink + tl.sum(powers, 1)
        values = tl.load(v + columns[:, None] * D + d[None, :])
        total = tl.dot(powers.to(tl.float16), values, total * shrink[:, None])
        largest = now
    tl.store(out + rows[:, None] * D + d[None, :], total / weight[:, None])


@row("attention")
def attention() -> None:
    N, D = 128, 64
    q, k, v = (random(N, D + i, kind="float16").values[:, :D] for i in (0, 1, 2))
    q, k, v, out = Tensor(q), Tensor(k), Tensor(v), Tensor(np.zeros((N, D), "float32"))
    attention_kernel[(N // 64,)](q, k, v, out, N, D**-0.5, D=D, BM=64, BN=32)
    scores = q.values.astype("f4") @ k.values.astype("f4").T * D**-0.5
    scores[np.triu_indices(N, 1)] = -np.inf
    powers = np.exp(scores - scores.max(1, keepdims=True))
    expected = powers / powers.sum(1, keepdims=True) @ v.values.astype("f4")
    np.testing.assert_allclose(out.get(), expected, rtol=1e-2, atol=2e-3)


@triton.jit
def histogram_kernel(x, counts, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(counts + tl.load(x + i, mask=i < n, other=0), 1, mask=i < n)


@row("atomics")
def atomics() -> None:
    values = np.random.default_rng(1).integers(0, 10, 5000).astype("int32")
    x, counts = Tensor(values), Tensor(np.zeros(10, "int32"))
    histogram_kernel[(triton.cdiv(5000, 512),)](x, counts, 5000, BLOCK=512)
    np.testing.assert_array_equal(counts.get(), np.bincount(values, minlength=10))


@triton.jit
def scan_kernel(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.cumsum(tl.load(x + i), 0))


@row("scan")
def scan() -> None:
    x, out = Tensor(np.arange(512, dtype="int32")), Tensor(np.zeros(512, "int32"))
    scan_kernel[(1,)](x, out, BLOCK=512)
    np.testing.assert_array_equal(out.get(), np.cumsum(x.values))


if __name__ == "__main__":
    main()
