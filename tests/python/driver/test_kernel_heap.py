# SPDX-License-Identifier: Apache-2.0
"""malloc in kernels: each context has a heap of CU_LIMIT_MALLOC_HEAP_SIZE bytes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cuda.bindings import driver as d

MEGA = 1 << 20
PTX = b"""
.version 8.0
.target sm_90
.address_size 64
.extern .func (.param .b64 r) malloc(.param .b64 n);
.extern .func free(.param .b64 p);
.visible .entry take(.param .u64 bytes, .param .u64 out) {
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [bytes];
  ld.param.u64 %rd2, [out];
  { .param .b64 n; .param .b64 r; st.param.b64 [n], %rd1; call (r), malloc, (n); ld.param.b64 %rd3, [r]; }
  st.global.u64 [%rd2], %rd3;
  ret;
}
.visible .entry give(.param .u64 p) {
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [p];
  { .param .b64 x; st.param.b64 [x], %rd1; call free, (x); }
  ret;
}
\0"""


class Heap:
    """A new context, and kernels that allocate and free memory of its heap."""

    def __init__(self, check: Callable[[tuple[Any, ...]], Any], limit: int = 0) -> None:
        self.check = check
        check(d.cuInit(0))
        self.context = check(d.cuCtxCreate(None, 0, 0))
        if limit:
            check(d.cuCtxSetLimit(d.CUlimit.CU_LIMIT_MALLOC_HEAP_SIZE, limit))
        module = check(d.cuModuleLoadData(PTX))
        self.kernels = {name: check(d.cuModuleGetFunction(module, name.encode())) for name in ("take", "give")}
        self.out = check(d.cuMemAlloc(8))

    def run(self, name: str, *values: int) -> None:
        arguments = (values, (ctypes.c_uint64,) * len(values))
        self.check(d.cuLaunchKernel(self.kernels[name], 1, 1, 1, 1, 1, 1, 0, 0, arguments, 0))
        self.check(d.cuCtxSynchronize())

    def take(self, size: int) -> int:
        self.run("take", size, int(self.out))
        got = ctypes.c_uint64()
        self.check(d.cuMemcpyDtoH(ctypes.addressof(got), self.out, 8))
        return got.value


@pytest.fixture
def heap(check: Any) -> Iterator[Callable[..., Heap]]:
    made: list[Heap] = []

    def make(limit: int = 0) -> Heap:
        made.append(Heap(check, limit))
        return made[-1]

    yield make
    for each in made:
        check(d.cuCtxDestroy(each.context))


def test_heap_default_size_is_8_mib(heap: Any, check: Any) -> None:
    small = heap()
    assert check(d.cuCtxGetLimit(d.CUlimit.CU_LIMIT_MALLOC_HEAP_SIZE)) == 8 * MEGA
    assert small.take(16 * MEGA) == 0
    assert small.take(MEGA) != 0


def test_heap_limit_sets_its_size(heap: Any) -> None:
    large = heap(64 * MEGA)
    first = large.take(40 * MEGA)
    assert first != 0
    assert large.take(40 * MEGA) == 0
    large.run("give", first)
    assert large.take(40 * MEGA) != 0


def test_each_context_has_its_own_heap(heap: Any) -> None:
    large, small = heap(64 * MEGA), heap()
    assert small.take(16 * MEGA) == 0
    small.check(d.cuCtxPushCurrent(large.context))
    assert large.take(16 * MEGA) != 0
    small.check(d.cuCtxPopCurrent())
