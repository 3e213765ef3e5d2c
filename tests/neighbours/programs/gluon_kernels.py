# SPDX-License-Identifier: Apache-2.0
"""Triton for compute capability 10.0: the rows of triton_kernels.py, and Gluon, whose compiler places matrices in tensor memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from rows import main, row
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    fence_async_shared,
    mbarrier,
    tcgen05_commit,
    tcgen05_copy,
    tcgen05_mma,
)
from triton_kernels import Tensor

SHAPES = ("32x32b", "16x64b", "16x128b", "16x256b")


def factors(m: int, n: int, k: int) -> tuple[Any, Any]:
    """Small integers, so that sums are exact."""
    rng = np.random.default_rng(m + n + k)
    return rng.integers(-3, 4, (m, k)).astype("f2"), rng.integers(-3, 4, (k, n)).astype("f2")


@gluon.jit
def product_kernel(a, b, c, M: gl.constexpr, N: gl.constexpr, K: gl.constexpr, SHAPE: gl.constexpr, PAIR: gl.constexpr):
    cga_m: gl.constexpr = [[1, 0]] if PAIR else []
    cga_n: gl.constexpr = [[0, 1]] if PAIR else []
    rows: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], cga_layout=cga_m)
    columns: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], cga_layout=cga_n)
    shared_a: gl.constexpr = gl.NVMMASharedLayout.get_default_for([M, K], gl.float16, cga_layout=cga_m)
    shared_b: gl.constexpr = gl.NVMMASharedLayout.get_default_for([K, N], gl.float16, cga_layout=cga_n)
    own: gl.constexpr = M // 2 if PAIR else M
    m, ka = gl.arange(0, M, gl.SliceLayout(1, rows)), gl.arange(0, K, gl.SliceLayout(0, rows))
    kb, n = gl.arange(0, K, gl.SliceLayout(1, columns)), gl.arange(0, N, gl.SliceLayout(0, columns))
    left = gl.allocate_shared_memory(gl.float16, [M, K], shared_a, gl.load(a + m[:, None] * K + ka[None, :]))
    right = gl.allocate_shared_memory(gl.float16, [K, N], shared_b, gl.load(b + kb[:, None] * N + n[None, :]))
    layout: gl.constexpr = TensorMemoryLayout(block=(own, N), col_stride=1, cga_layout=cga_m, two_ctas=PAIR)
    total = allocate_tensor_memory(gl.float32, [M, N], layout)
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(done, count=1)
    fence_async_shared(cluster=PAIR)
    if PAIR:
        gl.barrier(cluster=True)
    tcgen05_mma(left, right, total, use_acc=False, mbarriers=[done])
    mbarrier.wait(done, 0)
    registers: gl.constexpr = total.get_reg_layout(instr_variant=SHAPE)
    i, j = gl.arange(0, M, gl.SliceLayout(1, registers)), gl.arange(0, N, gl.SliceLayout(0, registers))
    gl.store(c + i[:, None] * N + j[None, :], total.load(registers))


def product(m: int, pair: bool) -> None:
    n = k = 64
    a, b = factors(m, n, k)
    for shape in SHAPES:
        c = Tensor(np.zeros((m, n), "f4"))
        product_kernel[(1,)](Tensor(a), Tensor(b), c, m, n, k, shape, pair, num_warps=4, num_ctas=2 if pair else 1)
        np.testing.assert_array_equal(c.get(), a.astype("f4") @ b.astype("f4"), err_msg=shape)


@row("products with all shapes of loads")
def products() -> None:
    product(64, False)
    product(128, False)


@row("products by pairs of blocks")
def pairs() -> None:
    product(128, True)
    product(256, True)


@gluon.jit
def tensor_a_kernel(a, b, c, M: gl.constexpr, N: gl.constexpr, K: gl.constexpr, SHAPE: gl.constexpr):
    columns: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    shared: gl.constexpr = gl.NVMMASharedLayout.get_default_for([K, N], gl.float16)
    kb, n = gl.arange(0, K, gl.SliceLayout(1, columns)), gl.arange(0, N, gl.SliceLayout(0, columns))
    right = gl.allocate_shared_memory(gl.float16, [K, N], shared, gl.load(b + kb[:, None] * N + n[None, :]))
    left = allocate_tensor_memory(gl.float16, [M, K], TensorMemoryLayout(block=(M, K), col_stride=1))
    stored: gl.constexpr = left.get_reg_layout(instr_variant=SHAPE)
    m, ka = gl.arange(0, M, gl.SliceLayout(1, stored)), gl.arange(0, K, gl.SliceLayout(0, stored))
    left.store(gl.load(a + m[:, None] * K + ka[None, :]))
    total = allocate_tensor_memory(gl.float32, [M, N], TensorMemoryLayout(block=(M, N), col_stride=1))
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(done, count=1)
    fence_async_shared()
    tcgen05_mma(left, right, total, use_acc=False, mbarriers=[done])
    mbarrier.wait(done, 0)
    registers: gl.constexpr = total.get_reg_layout(instr_variant=SHAPE)
    i, j = gl.arange(0, M, gl.SliceLayout(1, registers)), gl.arange(0, N, gl.SliceLayout(0, registers))
    gl.store(c + i[:, None] * N + j[None, :], total.load(registers))


@row("first factor in tensor memory, all shapes of stores")
def tensor_a() -> None:
    n = k = 64
    for m in (64, 128):
        a, b = factors(m, n, k)
        for shape in SHAPES:
            c = Tensor(np.zeros((m, n), "f4"))
            tensor_a_kernel[(1,)](Tensor(a), Tensor(b), c, m, n, k, shape, num_warps=4)
            np.testing.assert_array_equal(c.get(), a.astype("f4") @ b.astype("f4"), err_msg=shape)


@gluon.jit
def copy_kernel(a, c, N: gl.constexpr, SWIZZLE: gl.constexpr):
    rows: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    shared: gl.constexpr = gl.NVMMASharedLayout(swizzle_byte_width=SWIZZLE, element_bitwidth=32, rank=2)
    m, n = gl.arange(0, 128, gl.SliceLayout(1, rows)), gl.arange(0, N, gl.SliceLayout(0, rows))
    source = gl.allocate_shared_memory(gl.float32, [128, N], shared, gl.load(a + m[:, None] * N + n[None, :]))
    copied = allocate_tensor_memory(gl.float32, [128, N], TensorMemoryLayout(block=(128, N), col_stride=1))
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(done, count=1)
    fence_async_shared()
    tcgen05_copy(source, copied)
    tcgen05_commit(done)
    mbarrier.wait(done, 0)
    registers: gl.constexpr = copied.get_reg_layout()
    i, j = gl.arange(0, 128, gl.SliceLayout(1, registers)), gl.arange(0, N, gl.SliceLayout(0, registers))
    gl.store(c + i[:, None] * N + j[None, :], copied.load(registers))


@row("copies from shared memory")
def copies() -> None:
    values = np.arange(128 * 64, dtype="f4").reshape(128, 64)
    for swizzle in (32, 64, 128):
        c = Tensor(np.zeros_like(values))
        copy_kernel[(1,)](Tensor(values), c, 64, swizzle, num_warps=4)
        np.testing.assert_array_equal(c.get(), values)


if __name__ == "__main__":
    main()
