# SPDX-License-Identifier: Apache-2.0
"""cuda.tile: kernels on tiles, compiled by tileiras and ptxas."""

from __future__ import annotations

import cuda.tile as ct
import numpy as np
from arrays import random, stream, zeros
from rows import main, row


@ct.kernel
def add_kernel(x, y, out, TILE: ct.Constant[int]):
    i = ct.bid(0)
    a = ct.load(x, index=(i,), shape=(TILE,))
    b = ct.load(y, index=(i,), shape=(TILE,))
    ct.store(out, index=(i,), tile=a + b)


@row("add")
def add() -> None:
    n = 4096
    x, y, out = random(n), random(n + 0), zeros(n)
    ct.launch(int(stream.handle), (n // 256,), add_kernel, (x, y, out, 256))
    np.testing.assert_array_equal(out.get(), x.values + y.values)


@ct.kernel
def softmax_kernel(x, out, COLUMNS: ct.Constant[int]):
    i = ct.bid(0)
    values = ct.load(x, index=(i, 0), shape=(1, COLUMNS))
    powers = ct.exp(values - ct.max(values, axis=1, keepdims=True))
    ct.store(out, index=(i, 0), tile=powers / ct.sum(powers, axis=1, keepdims=True))


@row("softmax")
def softmax() -> None:
    x, out = random(32, 256), zeros(32, 256)
    ct.launch(int(stream.handle), (32,), softmax_kernel, (x, out, 256))
    powers = np.exp(x.values - x.values.max(1, keepdims=True))
    np.testing.assert_allclose(out.get(), powers / powers.sum(1, keepdims=True), rtol=1e-5, atol=1e-7)


@ct.kernel
def matmul_kernel(a, b, c, M: ct.Constant[int], N: ct.Constant[int], K: ct.Constant[int], STEPS: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.full((M, N), 0, dtype=ct.float32)
    for k in range(STEPS):
        left = ct.load(a, index=(i, k), shape=(M, K))
        right = ct.load(b, index=(k, j), shape=(K, N))
        total = ct.mma(left, right, total)
    ct.store(c, index=(i, j), tile=total)


@row("matmul")
def matmul() -> None:
    a, b, c = random(128, 64, kind="float16"), random(64, 128, kind="float16"), zeros(128, 128)
    ct.launch(int(stream.handle), (2, 2), matmul_kernel, (a, b, c, 64, 64, 32, 2))
    np.testing.assert_allclose(c.get(), a.values.astype("f4") @ b.values.astype("f4"), rtol=1e-3, atol=1e-3)


@ct.kernel
def reduce_kernel(x, out, COLUMNS: ct.Constant[int]):
    i = ct.bid(0)
    values = ct.load(x, index=(i, 0), shape=(1, COLUMNS))
    ct.store(out, index=(i,), tile=ct.sum(values, axis=1))


@row("reductions")
def reductions() -> None:
    x, out = random(16, 512), zeros(16)
    ct.launch(int(stream.handle), (16,), reduce_kernel, (x, out, 512))
    np.testing.assert_allclose(out.get(), x.values.sum(1), rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    main()
