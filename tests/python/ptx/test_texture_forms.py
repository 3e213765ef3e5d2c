# SPDX-License-Identifier: Apache-2.0
"""Texture fetches without a CUDA C++ function, and queries: half results, offsets, residency, level sizes."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator

import numpy as np
import pytest
from ptxsuite.device import DriverError
from ptxsuite.program import device
from texture_values import CLAMP, FORMATS, LINEAR, NORMALIZED, POINT, WRAP, copy_in

SPARSE, LAYERED, GATHER = 0x40, 1, 8
TILE_POOL = 1
WIDTH, HEIGHT = 9, 7
POINTS = 64


def kernel(fetch: str) -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
    """`fetch` may use %o (the texture), %x %y %z (floats) and %i %j (integers), and writes its results to %r0 to %r4."""
    text = f""".version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 object, .param .u64 at, .param .u64 out) {{
  .reg .b64 %o, %p, %q, %s; .reg .b32 %r<5>, %t, %i, %j, %l; .reg .f32 %x, %y, %z; .reg .b16 %h<4>; .reg .pred %c;
  ld.param.u64 %o, [object]; ld.param.u64 %p, [at]; ld.param.u64 %q, [out];
  mov.u32 %t, %tid.x; mul.wide.u32 %s, %t, 12; add.u64 %p, %p, %s; mul.wide.u32 %s, %t, 20; add.u64 %q, %q, %s;
  ld.global.f32 %x, [%p]; ld.global.f32 %y, [%p+4]; ld.global.f32 %z, [%p+8];
  cvt.rmi.s32.f32 %i, %x; cvt.rmi.s32.f32 %j, %y; mov.u32 %l, 1;
  mov.u32 %r0, 0; mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r3, 0; mov.u32 %r4, 0;
  {fetch}
  st.global.u32 [%q], %r0; st.global.u32 [%q+4], %r1; st.global.u32 [%q+8], %r2; st.global.u32 [%q+12], %r3; st.global.u32 [%q+16], %r4;
  ret; }}
"""
    module = device().load(text.encode())
    return module, device().function(module, "k")


class Texture:
    """An initialized array of the given shape, and a texture of it."""

    def __init__(
        self,
        format: str = "f32",
        channels: int = 4,
        shape: tuple[int, int, int] = (WIDTH, HEIGHT, 0),
        flags: int = 0,
        address: int = CLAMP,
        filter: int = POINT,
        settings: int = 0,
    ) -> None:
        width, height, depth = shape
        code, dtype = FORMATS[format]
        self.array, self.handle = ctypes.c_void_p(), ctypes.c_uint64()
        desc = struct.pack("<QQQiIIxxxx", width, height, depth, code, channels, flags)
        device().call("cuArray3DCreate_v2", ctypes.byref(self.array), desc)
        random, size = np.random.RandomState(5), (max(depth, 1), max(height, 1), width, channels)
        data = random.uniform(-4, 4, size) if format[0] == "f" else random.randint(0, 200, size)
        copy_in(self.array, np.ascontiguousarray(data.astype(dtype)))
        self.handle = texture_over(self.array, address, filter, settings)

    def close(self) -> None:
        device().call("cuTexObjectDestroy", self.handle)
        device().call("cuArrayDestroy", self.array)


def texture_over(
    array: ctypes.c_void_p, address: int = CLAMP, filter: int = POINT, flags: int = 0, kind: int = 0
) -> ctypes.c_uint64:
    handle = ctypes.c_uint64()
    resource = struct.pack("<i4xQ", kind, array.value).ljust(144, b"\0")
    settings = struct.pack("<3iiIIi3f4f12i", *[address] * 3, filter, flags, 0, 0, 0, 0, 99, 0, 0, 0, 0, *[0] * 12)
    device().call("cuTexObjectCreate", ctypes.byref(handle), resource, settings, None)
    return handle


def fetched(texture: ctypes.c_uint64, at: np.ndarray, fetch: str) -> np.ndarray:
    module, function = kernel(fetch)
    places, out = device().memory(at.astype(np.float32)), device().memory(20 * len(at))
    device().launch(function, 1, len(at), [texture, places.address, out.address])
    device().sync()
    found = out.read(np.uint32, 5 * len(at)).reshape(-1, 5)
    places.free()
    out.free()
    device().unload(module)
    return found


def places() -> np.ndarray:
    return np.random.RandomState(3).uniform(-3, 13, (POINTS, 3)).astype(np.float32)


@pytest.fixture
def textures() -> Iterator[list[Texture]]:
    made: list[Texture] = []
    yield made
    for texture in made:
        texture.close()


FLOATS = "tex.2d.v4.f32.f32 {%r0,%r1,%r2,%r3}, [%o,{%x,%y}];"
HALVES = "tex.2d.v4.f16.f32 {%h0,%h1,%h2,%h3}, [%o,{%x,%y}]; mov.b32 %r0, {%h0,%h1}; mov.b32 %r1, {%h2,%h3};"
PAIRS = "tex.2d.v2.f16x2.f32 {%r0,%r1}, [%o,{%x,%y}];"


@pytest.mark.parametrize("format", ["f16", "f32", "u8", "s16"])
@pytest.mark.parametrize("filter", [POINT, LINEAR], ids=["point", "linear"])
def test_half_fetch_rounds_the_float_result(format: str, filter: int, textures: list[Texture]) -> None:
    """Rounded to nearest, as on an H200."""
    textures.append(Texture(format, filter=filter))
    texture = textures[0].handle
    floats = np.ascontiguousarray(fetched(texture, places(), FLOATS)[:, :4]).view(np.float32)
    for form in (HALVES, PAIRS):
        halves = np.ascontiguousarray(fetched(texture, places(), form)[:, :2]).view(np.float16)
        assert (halves == floats.astype(np.float16)).all()


@pytest.mark.parametrize(
    "form",
    [
        "tex.level.2d.v4.f16.f32 {%h0,%h1,%h2,%h3}, [%o,{%x,%y}], 0f00000000; mov.b32 %r0, {%h0,%h1}; mov.b32 %r1, {%h2,%h3};",
        "tex.grad.2d.v2.f16x2.f32 {%r0,%r1}, [%o,{%x,%y}], {%z,%z}, {%z,%z};",
        "tex.base.2d.v2.f16x2.f32 {%r0,%r1}, [%o,{%x,%y}];",
        "tex.level.2d.v2.f16x2.s32 {%r0,%r1}, [%o,{%i,%j}], 0;",
    ],
)
def test_half_fetch_works_in_every_form(form: str, textures: list[Texture]) -> None:
    textures.append(Texture("f16"))
    texture = textures[0].handle
    assert (fetched(texture, places(), form)[:, :2] == fetched(texture, places(), PAIRS)[:, :2]).all()


@pytest.mark.parametrize("address", [0, 1, 2, 3], ids=["wrap", "clamp", "mirror", "border"])
@pytest.mark.parametrize("format", ["f32", "f16", "u8"])
def test_integer_coordinates_outside_fetch_zero_or_the_edge(format: str, address: int, textures: list[Texture]) -> None:
    """As on an H200, independent of the address mode."""
    textures.append(Texture(format, address=address))
    texture = textures[0].handle
    edges = ((-2, -1, 0, 5, WIDTH - 1, WIDTH), (-1, 0, 2, HEIGHT - 1, HEIGHT + 2))
    at = np.array([[x + 0.5, y + 0.5, 0] for x in edges[0] for y in edges[1]])
    inside = (at[:, 0] >= 0) & (at[:, 0] < WIDTH) & (at[:, 1] >= 0) & (at[:, 1] < HEIGHT)
    floats = fetched(texture, at, FLOATS)
    whole = fetched(texture, at, "tex.2d.v4.f32.s32 {%r0,%r1,%r2,%r3}, [%o,{%i,%j}];")
    assert (whole == np.where(inside[:, None], floats, 0)).all()
    pairs = fetched(texture, at, "tex.2d.v2.f16x2.s32 {%r0,%r1}, [%o,{%i,%j}];")
    assert (pairs == np.where(inside[:, None], fetched(texture, at, PAIRS), 0)).all()
    level = fetched(texture, at, "tex.level.2d.v4.f32.s32 {%r0,%r1,%r2,%r3}, [%o,{%i,%j}], 0;")
    clamped = np.clip(at, [0.5, 0.5, 0], [WIDTH - 0.5, HEIGHT - 0.5, 0])
    assert (level == fetched(texture, clamped, FLOATS)).all()


def test_integer_coordinates_fetch_zero_from_a_1d_array(textures: list[Texture]) -> None:
    """They are for linear memory; an H200 returns zeros."""
    textures.append(Texture(shape=(WIDTH, 0, 0)))
    assert not fetched(textures[0].handle, places(), "tex.1d.v4.f32.s32 {%r0,%r1,%r2,%r3}, [%o,{%i}];").any()
    assert fetched(textures[0].handle, places(), "tex.1d.v4.f32.f32 {%r0,%r1,%r2,%r3}, [%o,{%x}];").any()


# A fetch with offsets, the same fetch without them, and the equivalent change of the coordinates.
OFFSETS = {
    "constants": ("tex.2d.v4.f32.f32 {%r0,%r1,%r2,%r3}, [%o,{%x,%y}], {3,-2};", FLOATS, (3, -2, 0)),
    "registers": (
        "mov.u32 %r4, -8; tex.2d.v4.f32.f32 {%r0,%r1,%r2,%r3}, [%o,{%x,%y}], {%r4,%l}; mov.u32 %r4, 0;",
        FLOATS,
        (-8, 1, 0),
    ),
    "whole numbers": (
        "tex.2d.v4.f32.s32 {%r0,%r1,%r2,%r3}, [%o,{%i,%j}], {7,-3};",
        "tex.2d.v4.f32.s32 {%r0,%r1,%r2,%r3}, [%o,{%i,%j}];",
        (7, -3, 0),
    ),
    "level": (
        "tex.level.2d.v4.f32.f32 {%r0,%r1,%r2,%r3}, [%o,{%x,%y}], 0f00000000, {-1,2};",
        FLOATS,
        (-1, 2, 0),
    ),
    "gradients": (
        "tex.grad.2d.v4.f32.f32 {%r0,%r1,%r2,%r3}, [%o,{%x,%y}], {%z,%z}, {%z,%z}, {-1,2};",
        FLOATS,
        (-1, 2, 0),
    ),
}


@pytest.mark.parametrize("form", OFFSETS)
@pytest.mark.parametrize("filter", [POINT, LINEAR], ids=["point", "linear"])
def test_fetch_offset_is_in_texels(form: str, filter: int, textures: list[Texture]) -> None:
    textures.append(Texture(filter=filter))
    texture, (with_offset, plain, step) = textures[0].handle, OFFSETS[form]
    at = np.round(places() * 256) / 256  # so that adding an integer is exact
    assert (fetched(texture, at, with_offset) == fetched(texture, at + np.array(step), plain)).all()


def test_fetch_offset_wraps_with_the_coordinates(textures: list[Texture]) -> None:
    textures.append(Texture(shape=(8, 8, 0), address=WRAP, filter=LINEAR, settings=NORMALIZED))
    at = np.round(places() * 16) / 128
    moved = fetched(textures[0].handle, at, "tex.2d.v4.f32.f32 {%r0,%r1,%r2,%r3}, [%o,{%x,%y}], {5,-6};")
    assert (moved == fetched(textures[0].handle, at + np.array([5 / 8, -6 / 8, 0]), FLOATS)).all()


@pytest.mark.parametrize(
    ("shape", "flags", "form", "plain", "step"),
    [
        ((13, 0, 0), 0, "tex.1d.v4.f32.f32 {%r0,%r1,%r2,%r3}, [%o,{%x}], {2};",
         "tex.1d.v4.f32.f32 {%r0,%r1,%r2,%r3}, [%o,{%x}];", (2, 0, 0)),
        ((5, 4, 6), 0, "tex.3d.v4.f32.f32 {%r0,%r1,%r2,%r3}, [%o,{%x,%y,%z,%z}], {1,-1,2,0};",
         "tex.3d.v4.f32.f32 {%r0,%r1,%r2,%r3}, [%o,{%x,%y,%z,%z}];", (1, -1, 2)),
        ((9, 7, 3), LAYERED, "tex.a2d.v4.f32.f32 {%r0,%r1,%r2,%r3}, [%o,{%l,%x,%y,%y}], {1,-1};",
         "tex.a2d.v4.f32.f32 {%r0,%r1,%r2,%r3}, [%o,{%l,%x,%y,%y}];", (1, -1, 0)),
        ((9, 7, 0), GATHER, "tld4.g.2d.v4.f32.f32 {%r0,%r1,%r2,%r3}, [%o,{%x,%y}], {1,-1};",
         "tld4.g.2d.v4.f32.f32 {%r0,%r1,%r2,%r3}, [%o,{%x,%y}];", (1, -1, 0)),
    ],
    ids=["1d", "3d", "layered", "gather"],
)  # fmt: skip
def test_fetch_offset_works_for_every_shape(
    shape: tuple[int, int, int], flags: int, form: str, plain: str, step: tuple[int, ...], textures: list[Texture]
) -> None:
    textures.append(Texture(shape=shape, flags=flags))
    at = np.round(places() * 256) / 256
    assert (fetched(textures[0].handle, at, form) == fetched(textures[0].handle, at + np.array(step), plain)).all()


def test_query_returns_the_size_of_a_level() -> None:
    mipmap = ctypes.c_void_p()
    device().call("cuMipmappedArrayCreate", ctypes.byref(mipmap), struct.pack("<QQQiIIxxxx", 20, 12, 0, 0x20, 1, 0), 5)
    texture = texture_over(mipmap, flags=NORMALIZED, kind=1)
    for level, (width, height) in enumerate([(20, 12), (10, 6), (5, 3), (2, 1), (1, 1)]):
        asked = f"mov.u32 %r4, {level}; txq.level.width.b32 %r0, [%o], %r4; txq.level.height.b32 %r1, [%o], {level}; mov.u32 %r4, 0;"
        assert fetched(texture, places()[:1], asked)[0].tolist() == [width, height, 0, 0, 0]
    device().call("cuTexObjectDestroy", texture)
    device().call("cuMipmappedArrayDestroy", mipmap)


@pytest.mark.parametrize(
    ("shape", "flags", "told"),
    [((4, 4, 12), 5, [4, 4, 2]), ((12, 0, 3), 1, [12, 3, 0])],
    ids=["cubes", "rows"],
)
def test_query_returns_the_size_of_layers(
    shape: tuple[int, int, int], flags: int, told: list[int], textures: list[Texture]
) -> None:
    """As on an H200: the depth of a cubemap array is the number of cubes, the number of layers of a 1D array is its height."""
    textures.append(Texture(shape=shape, flags=flags))
    asked = "txq.width.b32 %r0, [%o]; txq.height.b32 %r1, [%o]; txq.depth.b32 %r2, [%o];"
    assert fetched(textures[0].handle, places()[:1], asked)[0].tolist() == [*told, 0, 0]


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("tex.2d.v4.f32.f32 {%r0,%r1,%r2,%r3}, [%o,{%x,%y}], %z;", "depth"),
        ("tex.cube.v4.f32.f32 {%r0,%r1,%r2,%r3}, [%o,{%x,%y,%z,%z}], {1,2};", "offsets"),
        ("tex.2d.v2.f16x2.f32 {%r0,%r1,%r2,%r3}, [%o,{%x,%y}];", "a vector of 2"),
        ("tex.2dms.v4.f32.s32 {%r0,%r1,%r2,%r3}, [%o,{%i,%i,%j,%j}];", "'tex' in this form"),
    ],
)
@pytest.mark.skipif(os.environ.get("CUCORE_DEVICE") == "gpu", reason="about the CPU device's words")
def test_unsupported_fetch_is_rejected_at_load_time(form: str, message: str) -> None:
    with pytest.raises(DriverError, match=message) as caught:
        kernel(form)
    assert caught.value.code == 218


class SparsePicture:
    """A sparse array of 32-bit floats, many tiles high; only the first tile of the second row has memory, with the value 2.5."""

    def __init__(self) -> None:
        tiles = (ctypes.c_uint * 16)()
        self.array = ctypes.c_void_p()
        self.width, self.height = 512, 512
        desc = struct.pack("<QQQiIIxxxx", self.width, self.height, 0, 0x20, 1, SPARSE)
        device().call("cuArray3DCreate_v2", ctypes.byref(self.array), desc)
        device().call("cuArrayGetSparseProperties", tiles, self.array)
        self.tile = (tiles[0], tiles[1])
        prop = struct.pack("<iiiiQBBHBBBB", 1, 0, 1, 0, 0, 0, 0, TILE_POOL, 0, 0, 0, 0)
        self.memory = ctypes.c_uint64()
        device().call("cuMemCreate", ctypes.byref(self.memory), ctypes.c_size_t(2 << 20), prop, ctypes.c_uint64(0))
        self.map(1)
        data = np.full((1, self.tile[1], self.tile[0], 1), 2.5, np.float32)
        row = data.shape[2] * 4
        source = [0, 0, 0, 0, 1, data.ctypes.data, 0, 0, 0, row, data.shape[1]]
        target = [0, self.tile[1], 0, 0, 3, 0, 0, self.array.value, 0, 0, 0]
        device().call("cuMemcpy3D_v2", struct.pack("<25Q", *source, *target, row, data.shape[1], 1))

    def map(self, operation: int) -> None:
        """Maps (1) or unmaps (2) the tile in the second row of tiles."""
        where = struct.pack("<8I", 0, 0, 0, self.tile[1], 0, *self.tile, 1)
        memory = self.memory.value if operation == 1 else 0
        info = struct.pack("<i4xQi4x", 0, self.array.value, 0) + where
        info += struct.pack("<iiQQIIII", operation, 0, memory, 0, 1, 0, 0, 0)
        device().call("cuMemMapArrayAsync", info, 1, None)
        device().sync()

    def close(self) -> None:
        device().call("cuArrayDestroy", self.array)
        device().call("cuMemRelease", self.memory)


@pytest.fixture
def sparse() -> Iterator[SparsePicture]:
    picture = SparsePicture()
    yield picture
    picture.close()


RESIDENT = "tex.2d.v4.f32.f32 {%r0,%r1,%r2,%r3}|%c, [%o,{%x,%y}]; selp.u32 %r4, 1, 0, %c;"


def test_fetch_returns_the_residency_of_its_texel(sparse: SparsePicture) -> None:
    texture = texture_over(sparse.array)
    middle = np.array([[8.5, 8.5, 0], [8.5, sparse.tile[1] + 8.5, 0], [8.5, 2 * sparse.tile[1] + 8.5, 0]])
    found = fetched(texture, middle, RESIDENT)
    assert found[:, 4].tolist() == [0, 1, 0]
    assert np.ascontiguousarray(found[:, 0]).view(np.float32).tolist() == [0, 2.5, 0]
    sparse.map(2)
    assert fetched(texture, middle, RESIDENT)[:, 4].tolist() == [0, 0, 0]
    device().call("cuTexObjectDestroy", texture)


def test_gather_and_half_fetch_return_the_residency(sparse: SparsePicture) -> None:
    texture = texture_over(sparse.array)
    middle = np.array([[8.5, 8.5, 0], [8.5, sparse.tile[1] + 8.5, 0]])
    halves = "tex.2d.v2.f16x2.f32 {%r0,%r1}|%c, [%o,{%x,%y}]; selp.u32 %r4, 1, 0, %c;"
    gather = "tld4.r.2d.v4.f32.f32 {%r0,%r1,%r2,%r3}|%c, [%o,{%x,%y}]; selp.u32 %r4, 1, 0, %c;"
    for form in (halves, gather):
        assert fetched(texture, middle, form)[:, 4].tolist() == [0, 1]
    device().call("cuTexObjectDestroy", texture)


def test_texels_of_a_regular_array_are_resident(textures: list[Texture]) -> None:
    textures.append(Texture())
    assert fetched(textures[0].handle, places(), RESIDENT)[:, 4].all()
