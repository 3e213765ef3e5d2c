# SPDX-License-Identifier: Apache-2.0
"""cuda.coop: primitives of CUB for blocks and warps in kernels of numba-cuda."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from cuda.coop import _experimental as coop
from numba import cuda
from rows import main, row

cuda.config.CUDA_ENABLE_PYNVJITLINK = True
THREADS = 128


@row("block reduce")
def block_reduce() -> None:
    def larger(a, b):
        return a if a > b else b

    reduce = coop.block.make_reduce(numba.int32, THREADS, larger)

    @cuda.jit(link=reduce.files)
    def kernel(x, out):
        result = reduce(x[cuda.threadIdx.x])
        if cuda.threadIdx.x == 0:
            out[0] = result

    x = np.random.default_rng(1).integers(0, 1000, THREADS).astype(np.int32)
    out = np.zeros(1, np.int32)
    kernel[1, THREADS](x, out)
    assert out[0] == x.max()


@row("block sum")
def block_sum() -> None:
    total = coop.block.make_sum(numba.int32, THREADS)

    @cuda.jit(link=total.files)
    def kernel(x, out):
        result = total(x[cuda.threadIdx.x])
        if cuda.threadIdx.x == 0:
            out[0] = result

    x = np.arange(THREADS, dtype=np.int32)
    out = np.zeros(1, np.int32)
    kernel[1, THREADS](x, out)
    assert out[0] == x.sum()


@row("block scan, load and store")
def block_scan() -> None:
    items = 4
    load = coop.block.make_load(numba.int32, THREADS, items, "striped")
    store = coop.block.make_store(numba.int32, THREADS, items, "striped")
    scan = coop.block.make_exclusive_sum(numba.int32, THREADS, items)

    @cuda.jit(link=load.files + store.files + scan.files)
    def kernel(x, out):
        mine = cuda.local.array(shape=items, dtype=numba.int32)
        load(x, mine)
        scan(mine, mine)
        store(out, mine)

    x = np.ones(THREADS * items, np.int32)
    out = np.zeros_like(x)
    kernel[1, THREADS](x, out)
    expected = (np.arange(THREADS)[None, :] * items + np.arange(items)[:, None]).ravel()
    np.testing.assert_array_equal(out, expected)


def sorting(sort: Any, items: int) -> Any:
    """A kernel that sorts an array of which each thread has `items` neighbours."""

    @cuda.jit(link=sort.files)
    def kernel(x):
        mine = cuda.local.array(shape=items, dtype=numba.int32)
        for i in range(items):
            mine[i] = x[cuda.threadIdx.x * items + i]
        sort(mine)
        for i in range(items):
            x[cuda.threadIdx.x * items + i] = mine[i]

    return kernel


@row("block radix sort")
def block_sort() -> None:
    items = 2
    sort = coop.block.make_radix_sort_keys(numba.int32, THREADS, items)

    x = np.random.default_rng(3).permutation(THREADS * items).astype(np.int32)
    sorting(sort, items)[1, THREADS](x)
    np.testing.assert_array_equal(x, np.arange(THREADS * items))


@row("warp reduce")
def warp_reduce() -> None:
    def plus(a, b):
        return a + b

    reduce = coop.warp.make_reduce(numba.int32, plus)

    @cuda.jit(link=reduce.files)
    def kernel(x, out):
        result = reduce(x[cuda.threadIdx.x])
        if cuda.threadIdx.x == 0:
            out[0] = result

    x = np.arange(32, dtype=np.int32)
    out = np.zeros(1, np.int32)
    kernel[1, 32](x, out)
    assert out[0] == x.sum()


@row("warp merge sort")
def warp_sort() -> None:
    items = 4

    def before(a, b):
        return a < b

    sort = coop.warp.make_merge_sort_keys(numba.int32, items, before)

    x = np.random.default_rng(4).permutation(32 * items).astype(np.int32)
    sorting(sort, items)[1, 32](x)
    np.testing.assert_array_equal(x, np.arange(32 * items))


if __name__ == "__main__":
    main()
