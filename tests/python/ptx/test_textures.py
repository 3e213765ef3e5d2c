# SPDX-License-Identifier: Apache-2.0
"""Texture objects over linear and pitched memory: fetches, filtering, addressing, borders."""

from __future__ import annotations

import ctypes
import os
import struct

import numpy as np
import pytest
from ptxsuite.nvrtc import library
from ptxsuite.program import Program, device

try:
    library()
except OSError as error:
    pytest.skip(str(error), allow_module_level=True)

LINEAR, PITCH2D = 2, 3
WRAP, CLAMP, MIRROR, BORDER = range(4)
FLOAT, UINT8 = 0x20, 0x01
READ_AS_INTEGER, NORMALIZED = 1, 2

SOURCE = """
extern "C" __global__ void fetch(cudaTextureObject_t t, float* out) { out[threadIdx.x] = tex1Dfetch<float>(t, threadIdx.x); }
extern "C" __global__ void at(cudaTextureObject_t t, const float* x, const float* y, float* out) {
  int i = threadIdx.x;
  out[i] = tex2D<float>(t, x[i], y[i]);
}
extern "C" __global__ void bytes(cudaTextureObject_t t, unsigned char* out) {
  int i = threadIdx.x;
  uchar4 v = tex2D<uchar4>(t, i + 0.5f, 1.5f);
  out[4 * i] = v.x, out[4 * i + 1] = v.y, out[4 * i + 2] = v.z, out[4 * i + 3] = v.w;
}
"""


@pytest.fixture(scope="module")
def program() -> Program:
    return Program(SOURCE)


class Texture:
    def __init__(
        self, resource: bytes, address: int = CLAMP, filter: int = 0, flags: int = 0, border: float = 0
    ) -> None:
        resource = resource.ljust(144, b"\0")
        settings = struct.pack("<3iiIIi3f4f12i", *[address] * 3, filter, flags, 0, 0, 0, 0, 0, *[border] * 4, *[0] * 12)
        self.handle = ctypes.c_uint64()
        device().call("cuTexObjectCreate", ctypes.byref(self.handle), resource, settings, None)

    def close(self) -> None:
        device().call("cuTexObjectDestroy", self.handle)


def pitched(memory: object, format: int, channels: int, width: int, height: int, pitch: int) -> bytes:
    return struct.pack("<i4xQIIQQQ", PITCH2D, memory.address.value, format, channels, width, height, pitch)  # type: ignore[attr-defined]


def test_linear_texture_is_read_by_index(program: Program) -> None:
    values = np.arange(32, dtype=np.float32) * 1.5
    memory = device().memory(values)
    texture = Texture(struct.pack("<i4xQIIQ", LINEAR, memory.address.value, FLOAT, 1, values.nbytes))
    out = np.zeros(32, np.float32)
    program.run("fetch", 1, 32, texture.handle, out)
    np.testing.assert_array_equal(out, values)
    texture.close()
    memory.free()


def sample(program: Program, data: np.ndarray, x: list[float], y: list[float], **settings: float) -> np.ndarray:
    memory = device().memory(data)
    texture = Texture(pitched(memory, FLOAT, 1, data.shape[1], data.shape[0], data.strides[0]), **settings)  # type: ignore[arg-type]
    out = np.zeros(len(x), np.float32)
    program.run("at", 1, len(x), texture.handle, np.array(x, np.float32), np.array(y, np.float32), out)
    texture.close()
    memory.free()
    return out


GRID = np.arange(64, dtype=np.float32).reshape(4, 16)


def test_point_filter_reads_the_nearest_texel(program: Program) -> None:
    out = sample(program, GRID, [0.5, 3.9, -2.0, 99.0], [0.5, 2.1, 1.5, 99.0])
    assert list(out) == [0.0, 35.0, 16.0, 63.0]


def test_linear_filter_interpolates_between_texel_centres(program: Program) -> None:
    out = sample(program, GRID, [1.0, 0.5, 2.25, 0.0], [0.5, 1.0, 1.0, 0.5], filter=1)
    assert list(out) == [0.5, 8.0, 9.75, 0.0]


def test_address_modes_wrap_mirror_and_border(program: Program) -> None:
    centre = [0.5 / 4]
    wrapped = sample(program, GRID, [1 + 0.5 / 16, -0.5 / 16], centre * 2, address=WRAP, flags=NORMALIZED)
    assert list(wrapped) == [0.0, 15.0]
    mirrored = sample(program, GRID, [1 + 0.5 / 16, -0.5 / 16], centre * 2, address=MIRROR, flags=NORMALIZED)
    assert list(mirrored) == [15.0, 0.0]
    outside = sample(program, GRID, [-1.0, 16.5, 2.5], [0.5, 0.5, 0.5], address=BORDER, border=0.0)
    assert list(outside) == [0.0, 0.0, 2.0]


def test_integer_texture_returns_integers(program: Program) -> None:
    data = (np.arange(256, dtype=np.uint8)).reshape(4, 64)
    memory = device().memory(data)
    texture = Texture(pitched(memory, UINT8, 4, 16, 4, 64), flags=READ_AS_INTEGER)
    out = np.zeros(64, np.uint8)
    program.run("bytes", 1, 16, texture.handle, out)
    np.testing.assert_array_equal(out, data[1])
    texture.close()
    memory.free()


@pytest.mark.parametrize(
    ("mode", "kinds"),
    [
        ("", ["texref", "surfref"]),
        pytest.param(
            ", texmode_independent",
            ["texref", "surfref", "samplerref"],
            marks=pytest.mark.skipif(
                os.environ.get("CUCORE_DEVICE") == "gpu",
                reason="a GPU's driver loads no module with samplers (error 500)",
            ),
        ),
    ],
)
def test_istypep_distinguishes_reference_types(mode: str, kinds: list[str]) -> None:
    count = len(kinds) + 1  # the last one is not a reference
    text = (
        f".version 8.0\n.target sm_90{mode}\n.address_size 64\n"
        + "".join(f".global .{kind} {kind}_;\n" for kind in [*kinds, "u64"])
        + f"""
.visible .entry kinds(.param .u64 out) {{
  .reg .pred %p; .reg .b32 %r; .reg .b64 %out; .reg .b64 %rd<{count}>;
  ld.param.u64 %out, [out];
"""
        + "".join(f"mov.u64 %rd{operand}, {kind}_;\n" for operand, kind in enumerate([*kinds, "u64"]))
        + "".join(
            f"istypep.{kind} %p, %rd{operand}; selp.u32 %r, 1, 0, %p; st.global.u32 [%out+{4 * (k * count + operand)}], %r;\n"
            for k, kind in enumerate(kinds)
            for operand in range(count)
        )
        + "ret; }\n"
    )
    out = device().memory(4 * len(kinds) * count)
    device().launch(device().function(device().load(text.encode()), "kinds"), 1, 1, [out.address])
    device().sync()
    told = out.read(np.uint32, len(kinds) * count).reshape(len(kinds), count)
    np.testing.assert_array_equal(told, np.eye(len(kinds), count))
    out.free()
