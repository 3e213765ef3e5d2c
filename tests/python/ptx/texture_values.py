# SPDX-License-Identifier: Apache-2.0
"""Texture fetches of every kind, format, filter and address mode, for comparison with a GPU.

python texture_values.py OUTPUT.xz [--levels]     writes the results of the current device (--levels: of further mipmaps)
"""

from __future__ import annotations

import ctypes
import itertools
import json
import lzma
import struct
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from ptxsuite.program import Program, device

HOST, ARRAY = 1, 3
WRAP, CLAMP, MIRROR, BORDER = range(4)
POINT, LINEAR = 0, 1
AS_INTEGER, NORMALIZED, SRGB = 1, 2, 16
LAYERED, CUBE, GATHER = 1, 4, 8
FORMATS = {"u8": (1, np.uint8), "u16": (2, np.uint16), "u32": (3, np.uint32), "s8": (8, np.int8), "s16": (9, np.int16), "s32": (10, np.int32),
           "f16": (16, np.float16), "f32": (32, np.float32)}  # fmt: skip
# Width, height, depth as in an array descriptor, and flags.
SHAPES = {"1d": (13, 0, 0, 0), "2d": (9, 7, 0, 0), "3d": (5, 4, 6, 0), "1d_layered": (13, 0, 3, LAYERED), "2d_layered": (9, 7, 3, LAYERED),
          "cube": (8, 8, 6, CUBE), "cube_layered": (8, 8, 12, CUBE | LAYERED), "gather": (9, 7, 0, GATHER), "lod": (16, 16, 0, 0),
          "lod_1d": (16, 0, 0, 0), "lod_3d": (16, 16, 16, 0), "lod_layered": (16, 16, 3, LAYERED), "lod_cube": (16, 16, 6, CUBE)}  # fmt: skip
SAMPLES = 96

CALLS = {
    "1d": "tex1D<T>(t, x)",
    "2d": "tex2D<T>(t, x, y)",
    "3d": "tex3D<T>(t, x, y, z)",
    "1d_layered": "tex1DLayered<T>(t, x, i % 4)",
    "2d_layered": "tex2DLayered<T>(t, x, y, i % 4)",
    "cube": "texCubemap<T>(t, x, y, z)",
    "cube_layered": "texCubemapLayered<T>(t, x, y, z, i % 2)",
    "gather": "i % 4 == 0 ? tex2Dgather<T>(t, x, y, 0) : i % 4 == 1 ? tex2Dgather<T>(t, x, y, 1) : i % 4 == 2 ? tex2Dgather<T>(t, x, y, 2)"
    " : tex2Dgather<T>(t, x, y, 3)",
    "lod": "tex2DLod<T>(t, x, y, z)",
    "lod_1d": "tex1DLod<T>(t, x, z)",
    "lod_3d": "tex3DLod<T>(t, x, y, z, i * (5.0f / 96))",
    "lod_layered": "tex2DLayeredLod<T>(t, x, y, i % 4, z)",
    "lod_cube": "texCubemapLod<T>(t, x, y, z, i * (5.0f / 96))",
}
SOURCE = "".join(
    f"""extern "C" __global__ void k_{kind}_{result}(cudaTextureObject_t t, const float* at, {result}4* out) {{
  using T = {result}4; int i = threadIdx.x; float x = at[3 * i], y = at[3 * i + 1], z = at[3 * i + 2];
  (void)y; (void)z; out[i] = {call}; }}
"""
    for kind, call in CALLS.items()
    for result in ("float", "int", "uint")
)


@dataclass(frozen=True)
class Case:
    kind: str
    format: str = "f32"
    channels: int = 1
    address: int = CLAMP
    filter: int = POINT
    flags: int = 0

    @property
    def name(self) -> str:
        return " ".join(str(value) for value in asdict(self).values())


def cases() -> Iterator[Case]:
    for format, channels in itertools.product(FORMATS, (1, 2, 4)):
        whole = format[0] != "f"
        yield Case("2d", format, channels, CLAMP, POINT, AS_INTEGER if whole else 0)
        if format not in ("u32", "s32"):
            for kind in ("1d", "2d", "3d"):
                yield Case(kind, format, channels, CLAMP, LINEAR)
    for kind in (kind for kind in SHAPES if not kind.startswith("lod_")):
        for address, filter, flags in itertools.product(range(4), (POINT, LINEAR), (0, NORMALIZED)):
            if "cube" in kind and (address != CLAMP or not flags):
                continue
            if kind in ("gather", "lod") and (address == MIRROR or not flags):
                continue
            yield Case(kind, "f32", 1, address, filter, flags)
            if kind in ("2d", "gather"):
                yield Case(kind, "u8", 4, address, filter, flags)
    yield Case("2d", "u8", 4, CLAMP, LINEAR, NORMALIZED | SRGB)
    yield Case("2d", "u8", 4, CLAMP, POINT, SRGB)


def level_cases() -> Iterator[Case]:
    """Mipmaps of other shapes and formats."""
    for kind in ("lod_1d", "lod_3d", "lod_layered", "lod_cube"):
        for address in (CLAMP,) if kind == "lod_cube" else (WRAP, CLAMP, MIRROR, BORDER):
            for filter in (POINT, LINEAR):
                yield Case(kind, "f32", 1, address, filter, NORMALIZED)
    for format, channels in itertools.product(("u8", "s8", "u16", "s16", "f16", "f32"), (1, 2, 4)):
        for kind in ("lod", "lod_3d"):
            yield Case(kind, format, channels, CLAMP, LINEAR, NORMALIZED)
    yield Case("lod", "u8", 4, CLAMP, LINEAR, NORMALIZED | AS_INTEGER)
    yield Case("lod", "u8", 4, CLAMP, LINEAR, NORMALIZED | SRGB)


def picture(case: Case, level: int = 0) -> np.ndarray:
    width, height, depth, _ = SHAPES[case.kind]
    if case.kind == "lod_3d":
        depth >>= level
    shape = (max(depth, 1), max(height >> level, 1), max(width >> level, 1), case.channels)
    random = np.random.RandomState(7 + level)
    dtype = FORMATS[case.format][1]
    if case.format[0] == "f":
        return random.uniform(-4, 4, shape).astype(dtype)
    info = np.iinfo(dtype)
    return random.randint(
        info.min,
        info.max,
        shape,
        np.int64,
    ).astype(dtype)


def coordinates(case: Case) -> np.ndarray:
    """Coordinates between texels, on their centres and edges, and far outside."""
    random = np.random.RandomState(11)
    width, height, depth, _ = SHAPES[case.kind]
    if "cube" in case.kind:  # cubemap directions only
        return random.uniform(-1, 1, (SAMPLES, 3)).astype(np.float32)
    size = np.array([width, max(height, 1), max(depth, 1)], np.float64)
    at = random.uniform(-0.7, 1.7, (SAMPLES, 3)) * size
    at[:32] = np.floor(at[:32]) + np.array([0, 0.5])[random.randint(0, 2, (32, 3))]
    at[32:48] = np.floor(at[32:48]) + random.randint(0, 512, (16, 3)) / 512
    if case.flags & NORMALIZED:
        at /= size
    if case.kind == "lod_3d":  # weights of exactly one half show how ties are rounded
        at[32:80] = np.floor(at[32:80] * 16 * 8) / (16 * 8)
    elif case.kind.startswith("lod"):
        at[:, 2] = random.uniform(-0.5, 5, SAMPLES)
    return at.astype(np.float32)


def copy_in(array: ctypes.c_void_p, data: np.ndarray) -> None:
    depth, height, width, channels = data.shape
    row = width * channels * data.itemsize
    source = [0, 0, 0, 0, HOST, data.ctypes.data, 0, 0, 0, row, height]
    target = [0, 0, 0, 0, ARRAY, 0, 0, array.value, 0, 0, 0]
    device().call("cuMemcpy3D_v2", struct.pack("<25Q", *source, *target, row, height, depth))


def answer(program: Program, case: Case) -> np.ndarray:
    """SAMPLES times four 32-bit words."""
    width, height, depth, flags = SHAPES[case.kind]
    desc = struct.pack("<QQQiIIxxxx", width, height, depth, FORMATS[case.format][0], case.channels, flags)
    handle = ctypes.c_void_p()
    if case.kind.startswith("lod"):
        device().call("cuMipmappedArrayCreate", ctypes.byref(handle), desc, 5)
        for level in range(5):
            array = ctypes.c_void_p()
            device().call("cuMipmappedArrayGetLevel", ctypes.byref(array), handle, level)
            copy_in(array, picture(case, level))
    else:
        device().call("cuArray3DCreate_v2", ctypes.byref(handle), desc)
        copy_in(handle, picture(case))
    resource = struct.pack("<i4xQ", 1 if case.kind.startswith("lod") else 0, handle.value).ljust(144, b"\0")
    settings = struct.pack("<3iiIIi3f4f12i", *[case.address] * 3, case.filter, case.flags, 0, case.filter, 0, 0, 99, 0.25, 0.5, 0.75, 1,
                           *[0] * 12)  # fmt: skip
    texture = ctypes.c_uint64()
    device().call("cuTexObjectCreate", ctypes.byref(texture), resource, settings, None)
    result = (
        "float" if case.format[0] == "f" or not case.flags & AS_INTEGER else "uint" if case.format[0] == "u" else "int"
    )
    out = np.zeros(4 * SAMPLES, np.uint32)
    program.run(f"k_{case.kind}_{result}", 1, SAMPLES, texture, coordinates(case).ravel(), out)
    device().call("cuTexObjectDestroy", texture)
    device().call("cuMipmappedArrayDestroy" if case.kind.startswith("lod") else "cuArrayDestroy", handle)
    return out.reshape(SAMPLES, 4)


def load(path: Path) -> dict[str, np.ndarray]:
    stored = lzma.decompress(path.read_bytes())
    head, _, body = stored.partition(b"\n")
    words = np.frombuffer(body, np.uint32).reshape(-1, SAMPLES, 4)
    return dict(zip(json.loads(head), words, strict=True))


def store(path: Path, which: Iterator[Case]) -> None:
    program = Program(SOURCE)
    answers = {case.name: answer(program, case) for case in which}
    body = b"".join(words.astype("<u4").tobytes() for words in answers.values())
    path.write_bytes(lzma.compress(json.dumps(list(answers)).encode() + b"\n" + body))


if __name__ == "__main__":
    store(Path(sys.argv[1]), level_cases() if "--levels" in sys.argv else cases())
