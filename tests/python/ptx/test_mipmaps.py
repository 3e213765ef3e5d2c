# SPDX-License-Identifier: Apache-2.0
"""Mipmapped textures: explicit levels, levels from gradients, filtering between levels; texture references."""

from __future__ import annotations

import ctypes
import struct

import numpy as np
import pytest
from ptxsuite.nvrtc import library
from ptxsuite.program import Program, device

try:
    library()
except OSError as error:
    pytest.skip(str(error), allow_module_level=True)

HOST, ARRAY = 1, 3
FLOAT = 0x20
POINT, LINEAR = 0, 1
CLAMP = 1
NORMALIZED = 2
SIZE, LEVELS = 16, 5

SOURCE = """
extern "C" __global__ void lod(cudaTextureObject_t t, const float* level, float* out) {
  int i = threadIdx.x;
  out[i] = tex2DLod<float>(t, 0.5f, 0.5f, level[i]);
}
extern "C" __global__ void grad(cudaTextureObject_t t, const float* step, float* out) {
  int i = threadIdx.x;
  out[i] = tex2DGrad<float>(t, 0.5f, 0.5f, make_float2(step[i], 0), make_float2(0, step[i]));
}
extern "C" __global__ void base(cudaTextureObject_t t, float* out) { out[threadIdx.x] = tex2D<float>(t, 0.5f, 0.5f); }
"""


def copy_in(array: ctypes.c_void_p, data: np.ndarray) -> None:
    height, width = data.shape
    fields = [0, 0, HOST, data.ctypes.data, 0, 0, width * 4, 0, 0, ARRAY, 0, 0, array.value, 0, width * 4, height]
    device().call("cuMemcpy2D_v2", struct.pack("<16Q", *fields))


class Mipmap:
    """All texels of level n are n * 10."""

    def __init__(self) -> None:
        self.handle = ctypes.c_void_p()
        desc = struct.pack("<QQQiIIxxxx", SIZE, SIZE, 0, FLOAT, 1, 0)
        device().call("cuMipmappedArrayCreate", ctypes.byref(self.handle), desc, LEVELS)
        for level in range(LEVELS):
            array = ctypes.c_void_p()
            device().call("cuMipmappedArrayGetLevel", ctypes.byref(array), self.handle, level)
            copy_in(array, np.full((SIZE >> level, SIZE >> level), 10.0 * level, np.float32))

    def texture(self, between: int, bias: float = 0, low: float = 0, high: float = 99) -> ctypes.c_uint64:
        resource = struct.pack("<i4xQ", 1, self.handle.value).ljust(144, b"\0")
        settings = struct.pack(
            "<3iiIIi3f4f12i", *[CLAMP] * 3, POINT, NORMALIZED, 0, between, bias, low, high, *[0.0] * 4, *[0] * 12
        )
        texture = ctypes.c_uint64()
        device().call("cuTexObjectCreate", ctypes.byref(texture), resource, settings, None)
        return texture


@pytest.fixture(scope="module")
def program() -> Program:
    return Program(SOURCE)


@pytest.fixture(scope="module")
def mipmap() -> Mipmap:
    return Mipmap()


def sampled(program: Program, kernel: str, texture: ctypes.c_uint64, values: list[float]) -> list[float]:
    out = np.zeros(len(values), np.float32)
    program.run(kernel, 1, len(values), texture, np.array(values, np.float32), out)
    device().call("cuTexObjectDestroy", texture)
    return [float(v) for v in out]


def test_point_filter_selects_the_nearest_level(program: Program, mipmap: Mipmap) -> None:
    assert sampled(program, "lod", mipmap.texture(POINT), [0, 1, 2.25, 3.75, 9, -1]) == [0, 10, 20, 40, 40, 0]


def test_linear_filter_interpolates_levels(program: Program, mipmap: Mipmap) -> None:
    assert sampled(program, "lod", mipmap.texture(LINEAR), [0, 0.5, 2.25, 3.75]) == [0, 5, 22.5, 37.5]


def test_bias_and_clamps_change_the_level(program: Program, mipmap: Mipmap) -> None:
    assert sampled(program, "lod", mipmap.texture(LINEAR, bias=1, low=1.5, high=3), [0, 1, 3]) == [15, 20, 30]


def test_gradients_select_the_level(program: Program, mipmap: Mipmap) -> None:
    steps = [1 / SIZE, 2 / SIZE, 4 / SIZE, 16 / SIZE, 0.1 / SIZE]
    assert sampled(program, "grad", mipmap.texture(LINEAR), steps) == [0, 10, 20, 40, 0]


def test_fetch_without_a_level_reads_the_base_level(program: Program, mipmap: Mipmap) -> None:
    texture, out = mipmap.texture(LINEAR), np.ones(4, np.float32)
    program.run("base", 1, 4, texture, out)
    assert list(out) == [0] * 4


REFERENCES = """
.version 8.0
.target sm_90
.address_size 64
.global .texref picture;
.global .surfref canvas;
.visible .entry look(.param .u64 out)
{
  .reg .b64 %rd<4>; .reg .b32 %r<4>; .reg .f32 %f<8>;
  ld.param.u64 %rd0, [out];
  cvta.to.global.u64 %rd0, %rd0;
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, 1;
  tex.2d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [picture, {%r0, %r1}];
  mul.wide.u32 %rd1, %r0, 4;
  add.u64 %rd0, %rd0, %rd1;
  st.global.f32 [%rd0], %f0;
  cvt.u32.u64 %r2, %rd1;
  add.f32 %f4, %f0, %f0;
  mov.b32 %r3, %f4;
  sust.b.2d.b32.trap [canvas, {%r2, %r1}], {%r3};
  ret;
}
"""


def test_kernel_reads_and_writes_through_references() -> None:
    module = device().load(REFERENCES.encode())
    data = np.arange(32, dtype=np.float32).reshape(4, 8)
    picture, canvas = ctypes.c_void_p(), ctypes.c_void_p()
    for array, flags in ((picture, 0), (canvas, 2)):
        device().call("cuArray3DCreate_v2", ctypes.byref(array), struct.pack("<QQQiIIxxxx", 8, 4, 0, FLOAT, 1, flags))
    copy_in(picture, data)
    texture, surface = ctypes.c_void_p(), ctypes.c_void_p()
    device().call("cuModuleGetTexRef", ctypes.byref(texture), module, b"picture")
    device().call("cuTexRefSetArray", texture, picture, 1)
    device().call("cuModuleGetSurfRef", ctypes.byref(surface), module, b"canvas")
    device().call("cuSurfRefSetArray", surface, canvas, 0)
    memory = device().memory(np.zeros(8, np.float32))
    device().launch(device().function(module, "look"), 1, 8, [memory.address], 0, False)
    device().sync()
    np.testing.assert_array_equal(memory.read(np.dtype(np.float32), 8), data[1])
    drawn = np.zeros(8, np.float32)
    fields = [0, 1, ARRAY, 0, 0, canvas.value, 0, 0, 0, HOST, drawn.ctypes.data, 0, 0, 32, 32, 1]
    device().call("cuMemcpy2D_v2", struct.pack("<16Q", *fields))
    np.testing.assert_array_equal(drawn, 2 * data[1])
    memory.free()
