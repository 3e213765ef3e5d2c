# SPDX-License-Identifier: Apache-2.0
"""Functions of the device runtime that compilers call by name, declarations that differ in their result, aligned local memory."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from cuda.bindings import driver as d

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"

GRID = """
.extern .func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 scope);
.extern .func (.param .b32 r) cudaCGSynchronize(.param .b64 handle, .param .b32 flags);
.extern .func (.param .b32 r) cudaCGSynchronizeGrid(.param .b64 handle, .param .b32 flags);
.extern .func (.param .b32 r) cudaCGGetSize(.param .b64 threads, .param .b64 grids, .param .b64 handle);
.extern .func (.param .b32 r) cudaCGGetRank(.param .b64 thread, .param .b64 grid, .param .b64 handle);
.visible .entry rounds(.param .u64 out, .param .u64 seen) {
  .local .align 8 .b8 answers[16];
  .reg .b64 %out, %seen, %handle, %where, %at; .reg .b32 %code, %rank, %size, %round, %v, %w, %n; .reg .pred %more, %first;
  ld.param.u64 %out, [out]; ld.param.u64 %seen, [seen];
  { .param .b32 a; .param .b64 r; st.param.b32 [a], 1; call.uni (r), cudaCGGetIntrinsicHandle, (a); ld.param.b64 %handle, [r]; }
  mov.u64 %where, answers; cvta.local.u64 %where, %where; add.u64 %at, %where, 4;
  { .param .b64 a; .param .b64 b; .param .b64 c; .param .b32 r; st.param.b64 [a], %where; st.param.b64 [b], 0;
    st.param.b64 [c], %handle; call.uni (r), cudaCGGetRank, (a, b, c); ld.param.b32 %code, [r]; }
  { .param .b64 a; .param .b64 b; .param .b64 c; .param .b32 r; st.param.b64 [a], %at; st.param.b64 [b], 0;
    st.param.b64 [c], %handle; call.uni (r), cudaCGGetSize, (a, b, c); ld.param.b32 %code, [r]; }
  ld.local.u32 %rank, [answers]; ld.local.u32 %size, [answers+4];
  mul.wide.u32 %at, %rank, 4; add.u64 %out, %out, %at;
  mov.u32 %round, 0; mov.u32 %v, 0;
LOOP:
  atom.global.add.u32 %w, [%seen], 1;
  { .param .b64 a; .param .b32 b; .param .b32 r; st.param.b64 [a], %handle; st.param.b32 [b], 0;
    call.uni (r), cudaCGSynchronize, (a, b); ld.param.b32 %code, [r]; }
  ld.volatile.global.u32 %n, [%seen]; add.u32 %v, %v, %n; add.u32 %v, %v, %code;
  { .param .b64 a; .param .b32 b; .param .b32 r; st.param.b64 [a], %handle; st.param.b32 [b], 0;
    call.uni (r), cudaCGSynchronizeGrid, (a, b); ld.param.b32 %code, [r]; }
  add.u32 %round, %round, 1; setp.lt.u32 %more, %round, 3; @%more bra LOOP;
  add.u32 %v, %v, %size; st.global.u32 [%out], %v;
  ret; }
"""


@pytest.fixture
def context() -> Any:
    assert d.cuInit(0)[0] == 0
    made = d.cuDevicePrimaryCtxRetain(0)[1]
    d.cuCtxSetCurrent(made)
    yield made
    d.cuDevicePrimaryCtxRelease(0)


def linked(*texts: str) -> Any:
    """One module of several texts."""
    code, state = d.cuLinkCreate(0, [], [])
    assert code == 0
    for i, text in enumerate(texts):
        data = (HEAD + text).encode() + b"\0"
        kind = d.CUjitInputType.CU_JIT_INPUT_PTX
        assert d.cuLinkAddData(state, kind, data, len(data), f"{i}".encode(), 0, [], [])[0] == 0
    code, image, _ = d.cuLinkComplete(state)
    assert code == 0, code
    code, module = d.cuModuleLoadData(image)
    assert code == 0, code
    d.cuLinkDestroy(state)
    return module


def run(
    module: Any, name: str, words: int, grid: int = 1, block: int = 1, seen: bool = False, cooperative: bool = False
) -> list[int]:
    code, function = d.cuModuleGetFunction(module, name.encode())
    assert code == 0
    size = 8 * words + 64
    memory = d.cuMemAlloc(size)[1]
    d.cuMemsetD8(memory, 0, size)
    values = [int(memory), int(memory) + 8 * words][: 2 if seen else 1]
    arguments = (ctypes.c_void_p * 2)(*values)
    pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(arguments) + 8 * i for i in range(len(values))))
    if cooperative:
        code = d.cuLaunchCooperativeKernel(function, grid, 1, 1, block, 1, 1, 0, 0, ctypes.addressof(pointers))[0]
    else:
        code = d.cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0, 0, ctypes.addressof(pointers), 0)[0]
    assert code == 0, code
    assert d.cuCtxSynchronize()[0] == 0
    result = (ctypes.c_uint32 * (2 * words))()
    d.cuMemcpyDtoH(ctypes.addressof(result), memory, 8 * words)
    d.cuMemFree(memory)
    return list(result)


@pytest.mark.cpu_only  # a GPU links these functions from libcudadevrt
def test_grid_synchronization_by_name_joins_all_blocks(context: Any, any_width: Any) -> None:
    module = d.cuModuleLoadData((HEAD + GRID).encode())[1]
    threads = 4 * 48
    out = run(module, "rounds", threads, grid=2, block=96, seen=True, cooperative=True)[:threads]
    assert out == [threads + 2 * threads + 3 * threads + threads] * threads


CALLER = """
.extern .func (.param .b32 r) doubled(.param .b64 out);
.visible .entry caller(.param .u64 out) {
  .reg .b64 %o; .reg .b32 %v;
  ld.param.u64 %o, [out];
  { .param .b64 a; .param .b32 r; st.param.b64 [a], %o; call.uni (r), doubled, (a); ld.param.b32 %v, [r]; }
  ret; }
"""
NO_RESULT = """
.visible .func doubled(.param .b64 out) {
  .reg .b64 %o; ld.param.b64 %o, [out]; st.global.u32 [%o], 21; ret; }
"""
VOID_CALLER = """
.extern .func doubled(.param .b64 out);
.visible .entry caller(.param .u64 out) {
  .reg .b64 %o; ld.param.u64 %o, [out];
  { .param .b64 a; st.param.b64 [a], %o; call.uni doubled, (a); }
  ret; }
"""
RESULT = """
.visible .func (.param .b32 r) doubled(.param .b64 out) {
  .reg .b64 %o; ld.param.b64 %o, [out]; st.global.u32 [%o], 21; st.param.b32 [r], 7; ret; }
"""


@pytest.mark.cpu_only  # cuLinkAddData of an H200 refuses them (300); nvJitLink, which numba-cuda calls, does not
@pytest.mark.parametrize(
    "texts",
    [(CALLER, NO_RESULT), (NO_RESULT, CALLER), (VOID_CALLER, RESULT), (RESULT, VOID_CALLER)],
    ids=["value-void", "void-value", "void-called", "called-void"],
)
def test_declarations_that_differ_in_a_missing_result_are_linked(context: Any, texts: tuple[str, str]) -> None:
    assert run(linked(*texts), "caller", 1)[0] == 21


LOCAL = """
.visible .entry place(.param .u64 out) {
  .local .align 4 .b8 odd[20];
  .local .align 256 .b8 wide[272];
  .reg .b64 %o, %a, %t; .reg .b32 %i, %v; 
  ld.param.u64 %o, [out]; mov.u32 %i, %tid.x;
  st.local.u32 [odd+16], %i; st.local.u32 [wide+268], %i;
  and.b32 %v, %i, 15; mul.wide.u32 %t, %v, 4; mov.u64 %a, wide; add.u64 %t, %t, %a; st.local.u32 [%t], %i;
  cvta.local.u64 %a, %a; and.b64 %a, %a, 255;
  mul.wide.u32 %t, %i, 8; add.u64 %o, %o, %t; ld.local.u32 %v, [odd+16]; sub.u32 %v, %v, %i; cvt.u64.u32 %t, %v;
  add.u64 %a, %a, %t;
  bar.sync 0;
  st.global.u64 [%o], %a;
  ret; }
"""


def test_local_memory_has_the_alignment_of_its_declaration(context: Any, any_width: Any) -> None:
    module = d.cuModuleLoadData((HEAD + LOCAL).encode())[1]
    assert run(module, "place", 96, block=96) == [0] * 192


TILE = """
.visible .entry tiles(.param .u64 out)
.reqntid 32
.minnctapersm 1
.language 7
{
  .reg .b64 %o, %t; .reg .b32 %i;
  .loc 1 2 3
  .loc_intermediate 2 21 4
  ld.param.u64 %o, [out]; mov.u32 %i, %tid.x; mul.wide.u32 %t, %i, 4; add.u64 %o, %o, %t;
  add.u32 %i, %i, 1; st.global.u32 [%o], %i;
  ret; }
  .file 1 "kernel.py"
  .file 2 "kernel.tile"
.nv_intermediate_source_section {
  .code_block {
    .ir_name: "tile ir"
    .sourceFileName: 2
    .source_begin
entry @tiles(%arg0: tile<ptr<f32>>) optimization_hints=<sm_90 = {}> {
  %0 = make_token : token  }
.source_end
  }
}
"""


@pytest.mark.cpu_only  # a GPU's driver knows tile kernels by data that ptxas writes
def test_tile_kernel_runs_with_its_own_number_of_threads(context: Any) -> None:
    code, module = d.cuModuleLoadData((HEAD + TILE).encode())
    assert code == 0, code
    assert run(module, "tiles", 16, block=1) == list(range(1, 33))


@pytest.mark.cpu_only
def test_hidden_parameter_is_an_error(context: Any) -> None:
    text = TILE.replace("out)", "out, .hidden .param .align 64 .b8 map[128])")
    assert d.cuModuleLoadData((HEAD + text).encode())[0] == d.CUresult.CUDA_ERROR_INVALID_PTX
