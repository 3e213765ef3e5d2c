# SPDX-License-Identifier: Apache-2.0
"""Surface loads, stores and reductions of every form, inside and outside the surface, for comparison with a GPU.

python surface_values.py OUTPUT.xz [--traps]     writes the results of the current device (--traps: of accesses that may fault, and of queries)
"""

from __future__ import annotations

import ctypes
import itertools
import json
import lzma
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from ptxsuite.device import DriverError
from ptxsuite.program import device

HOST, ARRAY = 1, 3
LAYERED, SURFACE, CUBE = 1, 2, 4
# CUarray_format and bytes of a channel.
FORMATS = {"u8": (1, 1), "u16": (2, 2), "u32": (3, 4), "s8": (8, 1), "s16": (9, 2), "s32": (10, 4), "f16": (16, 2), "f32": (32, 4),
           "unorm8": (0xC0, 1), "snorm8": (0xC6, 1), "unorm16": (0xC3, 2), "snorm16": (0xC9, 2)}  # fmt: skip
# Width, height, depth as in an array descriptor, and flags. A cubemap's face is a layer.
SHAPES = {"1d": (12, 0, 0, 0), "2d": (8, 5, 0, 0), "3d": (4, 3, 5, 0), "a1d": (12, 0, 3, LAYERED), "a2d": (8, 5, 3, LAYERED),
          "cube": (4, 4, 6, CUBE), "acube": (4, 4, 12, CUBE | LAYERED)}  # fmt: skip
BYTES = {"b8": 1, "b16": 2, "b32": 4, "u32": 4, "s32": 4, "b64": 8, "u64": 8, "s64": 8, "f16": 2, "f32": 4}
REGISTERS = {1: "b16", 2: "b16", 4: "b32", 8: "b64"}


@dataclass(frozen=True)
class Case:
    op: str
    shape: str
    vector: int
    type: str
    mode: str
    format: str
    channels: int

    @property
    def name(self) -> str:
        return " ".join(str(value) for value in asdict(self).values())

    @property
    def form(self) -> str:
        geometry = {"cube": "a2d", "acube": "a2d"}.get(self.shape, self.shape)
        vector = f".v{self.vector}" if self.vector > 1 else ""
        return f"{self.op}.{geometry}{vector}.{self.type}.{self.mode}"

    @property
    def access(self) -> int:
        return self.vector * BYTES[self.type]

    @property
    def texel(self) -> int:
        return FORMATS[self.format][1] * self.channels


def cases() -> Iterator[Case]:
    modes = ("clamp", "zero")
    sizes = {1: ("u8", 1), 2: ("u16", 1), 4: ("f32", 1), 8: ("u32", 2), 16: ("f32", 4)}
    for op, shape, vector, type, mode in itertools.product(
        ("suld.b", "sust.b"), SHAPES, (1, 2, 4), ("b8", "b16", "b32", "b64"), modes
    ):
        access = vector * BYTES[type]
        if access in sizes:
            yield Case(op, shape, vector, type, mode, *sizes[access])
            if shape == "2d":  # texel sizes that differ from the access size
                for other in sizes.values():
                    if other != sizes[access]:
                        yield Case(op, shape, vector, type, mode, *other)
    for shape, vector, mode, format, channels in itertools.product(
        ("1d", "2d", "3d", "a2d"), (1, 2, 4), modes, FORMATS, (1, 2, 4)
    ):
        if shape == "2d" or format in ("f32", "unorm8"):
            yield Case("sust.p", shape, vector, "b32", mode, format, channels)
    for kind, op, shape, mode in itertools.product(
        ("b", "p"), ("add", "min", "max", "and", "or"), ("1d", "2d", "3d", "a2d"), modes
    ):
        for type in ("u32", "s32", "b32", "u64", "s64", "b64"):
            fits = {
                "add": ("u32", "s32", "u64"),
                "min": ("u32", "s32", "u64", "s64"),
                "max": ("u32", "s32", "u64", "s64"),
            }.get(op, ("b32",))
            if type in (fits if kind == "b" else ("b32", "b64")):
                wide = BYTES[type] == 8
                yield Case(f"sured.{kind}.{op}", shape, 1, type, mode, "u32", 2 if wide else 1)
                if kind == "p" and shape == "2d":
                    yield Case(f"sured.{kind}.{op}", shape, 1, type, mode, "s32", 2 if wide else 1)


def traps() -> Iterator[tuple[Case, tuple[int, int, int]]]:
    """Accesses that may fault: each runs in a separate process. Coordinates are in bytes."""
    load, store = Case("suld.b", "2d", 1, "b32", "trap", "u32", 1), Case("sust.b", "2d", 1, "b32", "trap", "u32", 1)
    for case in (load, store):
        for at in ((0, 0, 0), (-4, 0, 0), (32, 0, 0), (0, -1, 0), (0, 5, 0), (2, 0, 0)):
            yield case, at
    yield Case("suld.b", "a2d", 1, "b32", "trap", "u32", 1), (0, 0, 3)
    yield Case("sust.b", "3d", 1, "b32", "trap", "u32", 1), (0, 0, 5)
    yield Case("sured.b.add", "2d", 1, "u32", "trap", "u32", 1), (32, 0, 0)
    yield Case("sust.p", "2d", 1, "b32", "trap", "u32", 1), (8, 0, 0)
    yield Case("suld.b", "2d", 1, "b32", "clamp", "u32", 1), (2, 1, 0)
    yield Case("sust.b", "2d", 1, "b32", "zero", "u32", 1), (1, 1, 0)


def coordinates(case: Case) -> np.ndarray:
    """Whole texels (or whole accesses, if larger) inside, on the edges and outside; x is in bytes except for formatted access."""
    width, height, depth, _ = SHAPES[case.shape]
    height, depth = max(height, 1), max(depth, 1)
    step = 1 if case.op.startswith(("sust.p", "sured.p")) else max(case.access, case.texel)
    last = width - 1 if step == 1 and case.op[5] == "p" else (width * case.texel - case.access) // step
    rows = [(0, 0, 0), (last, height - 1, depth - 1), (1, 1, 1), (-1, 1, 1), (last + 1, 1, 1), (2, -1, 0), (1, height, 0), (1, 1, -1),
            (0, 1, depth), (-3, -2, 0), (last + 7, height + 9, depth + 2), (2, 2, 2), (3, 1, 0)]  # fmt: skip
    return np.array([(x * step, y, z) for x, y, z in rows], np.int32)


def picture(case: Case) -> np.ndarray:
    width, height, depth, _ = SHAPES[case.shape]
    random = np.random.RandomState(5)
    shape = (max(depth, 1), max(height, 1), width, case.texel)
    return random.randint(0, 256, shape).astype(np.uint8)


def values(case: Case) -> np.ndarray:
    """Operands of stores and reductions: 32 bytes per position. Formatted stores include numbers near the ends of their ranges."""
    random = np.random.RandomState(9)
    count = len(coordinates(case))
    if case.op == "sust.p":
        whole = case.format[0] in "us" and "norm" not in case.format
        if whole:
            words = random.choice(
                np.array([0, 1, 127, 128, 255, 256, 40000, 70000, -1, -128, -129, -40000, 2**31 - 1]), (count, 8)
            )
            return words.astype(np.int64).astype(np.uint32).view(np.uint8).reshape(count, 32)
        floats = random.choice(
            np.array([0, 0.25, 0.5, 1, 1.5, -0.5, -1, -2, 0.3, 1e6, 3e-8, np.inf, np.nan, 0.1234567]), (count, 8)
        )
        return floats.astype(np.float32).view(np.uint8).reshape(count, 32)
    return random.randint(0, 256, (count, 32)).astype(np.uint8)


def text_of(case: Case) -> bytes:
    """One thread visits all positions, so that accesses to one position have a fixed order."""
    register, size = REGISTERS[BYTES[case.type]], BYTES[case.type]
    names = [f"%v{k}" for k in range(case.vector)]
    value = "{" + ", ".join(names) + "}" if case.vector > 1 else names[0]
    place = {"1d": "{%x}", "2d": "{%x, %y}", "3d": "{%x, %y, %z, %z}", "a1d": "{%z, %x}"}.get(
        case.shape, "{%z, %x, %y, %y}"
    )
    memory = {1: "b8", 2: "b16", 4: "b32", 8: "b64"}[size]
    if case.op == "suld.b":
        body = f"{case.form} {value}, [%surface, {place}];\n"
        body += "".join(f"st.global.{memory} [%data+{size * k}], {name};\n" for k, name in enumerate(names))
    else:
        body = "".join(f"ld.global.{memory} {name}, [%data+{size * k}];\n" for k, name in enumerate(names))
        body += f"{case.form} [%surface, {place}], {value};\n"
    return f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 surface, .param .u64 places, .param .u64 data, .param .u32 count) {{
  .reg .b64 %surface, %at, %data; .reg .b32 %left, %x, %y, %z; .reg .{register} %v<4>; .reg .pred %more;
  ld.param.u64 %surface, [surface]; ld.param.u64 %at, [places]; ld.param.u64 %data, [data]; ld.param.u32 %left, [count];
again:
  ld.global.b32 %x, [%at]; ld.global.b32 %y, [%at+4]; ld.global.b32 %z, [%at+8];
  {body}
  add.u64 %at, %at, 12; add.u64 %data, %data, 32; sub.u32 %left, %left, 1;
  setp.ne.u32 %more, %left, 0;
  @%more bra again;
  ret;
}}
""".encode()


def copy(array: ctypes.c_void_p, data: np.ndarray, back: bool) -> None:
    depth, height, width, texel = data.shape
    host = [0, 0, 0, 0, HOST, data.ctypes.data, 0, 0, 0, width * texel, height]
    if back:
        host[4:7] = [HOST, data.ctypes.data, 0]
    place = [0, 0, 0, 0, ARRAY, 0, 0, array.value, 0, 0, 0]
    source, target = (place, host) if back else (host, place)
    device().call("cuMemcpy3D_v2", struct.pack("<25Q", *source, *target, width * texel, height, depth))


def answer(case: Case, places: np.ndarray | None = None) -> str:
    """The loaded bytes, or the surface afterwards, in hexadecimal; or the driver's error for the PTX text or the array."""
    width, height, depth, flags = SHAPES[case.shape]
    kind = FORMATS[case.format][0] + (
        case.channels >> 1 if "norm" in case.format else 0
    )  # those have one for each number of channels
    desc = struct.pack("<QQQiIIxxxx", width, height, depth, kind, case.channels, flags | SURFACE)
    array, surface = ctypes.c_void_p(), ctypes.c_uint64()
    try:
        module = device().load(text_of(case))
    except DriverError as error:
        return f"text: {error.code}"
    try:
        device().call("cuArray3DCreate_v2", ctypes.byref(array), desc)
    except DriverError as error:
        return f"array: {error.code}"
    pixels = picture(case)
    copy(array, pixels, False)
    resource = struct.pack("<i4xQ", 0, array.value).ljust(144, b"\0")
    device().call("cuSurfObjectCreate", ctypes.byref(surface), resource)
    places = coordinates(case) if places is None else places
    at, data = (
        device().memory(places),
        device().memory(values(case) if case.op != "suld.b" else np.full((len(places), 32), 0xEE, np.uint8)),
    )
    device().launch(
        device().function(module, "k"), 1, 1, [surface, at.address, data.address, ctypes.c_uint32(len(places))]
    )
    device().sync()
    if case.op == "suld.b":
        found = data.read(np.uint8, 32 * len(places)).reshape(-1, 32)[:, : case.access]
    else:
        found = np.zeros_like(pixels)
        copy(array, found, True)
    device().call("cuSurfObjectDestroy", surface)
    device().call("cuArrayDestroy", array)
    at.free()
    data.free()
    device().unload(module)
    return found.tobytes().hex()


def collect(todo: list[tuple[Case, tuple[int, int, int] | None]]) -> list[str]:
    """The results one by one. A fault ends the context: a new process continues after it."""
    answers: list[str] = []
    while len(answers) < len(todo):
        rest = json.dumps([[asdict(case), at] for case, at in todo[len(answers) :]])
        done = subprocess.run(
            [sys.executable, __file__, "--walk"], input=rest, capture_output=True, text=True, check=False
        )
        answers += done.stdout.split("\n")[:-1]
        if done.returncode != 0:
            answers.append(f"died: {done.returncode} {done.stderr[-300:]}")
    return answers


def walk(todo: list[tuple[Case, tuple[int, int, int] | None]]) -> None:
    for case, at in todo:
        try:
            print(answer(case, None if at is None else np.array([at], np.int32)), flush=True)
        except DriverError as error:
            print(f"error: {error.code}", flush=True)
            return


def queries() -> dict[str, str]:
    """The results of all suq and txq queries: a number, or the driver's error for the PTX text."""
    answers = {}
    for op, asked in (
        ("suq", ("width", "height", "depth", "array_size", "channel_data_type", "channel_order", "memory_layout")),
        ("txq", ("width", "height", "depth", "array_size", "normalized_coords", "num_mipmap_levels", "num_samples",
                 "channel_data_type", "channel_order", "filter_mode", "addr_mode_0", "force_unnormalized_coords")),
    ):  # fmt: skip
        for what in asked:
            text = f""".version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 object, .param .u64 out) {{
  .reg .b64 %o, %p; .reg .b32 %r; ld.param.u64 %o, [object]; ld.param.u64 %p, [out];
  {op}.{what}.b32 %r, [%o]; st.global.b32 [%p], %r; ret; }}
"""
            try:
                module = device().load(text.encode())
                function = device().function(module, "k")
            except DriverError as error:
                answers[f"{op}.{what}"] = f"text: {error.code}"
                continue
            for shape, format, channels in itertools.product(
                ("1d", "2d", "3d", "a2d", "cube"), ("u8", "f32", "s16"), (1, 4)
            ):
                answers[f"{op}.{what} {shape} {format} {channels}"] = query(function, op, shape, format, channels)
            device().unload(module)
    return answers


def query(function: ctypes.c_void_p, op: str, shape: str, format: str, channels: int) -> str:
    width, height, depth, flags = SHAPES[shape]
    array, handle = ctypes.c_void_p(), ctypes.c_uint64()
    desc = struct.pack("<QQQiIIxxxx", width, height, depth, FORMATS[format][0], channels, flags | SURFACE)
    device().call("cuArray3DCreate_v2", ctypes.byref(array), desc)
    resource = struct.pack("<i4xQ", 0, array.value).ljust(144, b"\0")
    if op == "suq":
        device().call("cuSurfObjectCreate", ctypes.byref(handle), resource)
    else:
        flags = 2 | (1 if format != "f32" else 0)
        settings = struct.pack("<3iiIIi3f4f12i", 1, 1, 1, 0, flags, 0, 0, 0, 0, 0, 0, 0, 0, 0, *[0] * 12)
        device().call("cuTexObjectCreate", ctypes.byref(handle), resource, settings, None)
    out = device().memory(8)
    device().launch(function, 1, 1, [handle, out.address])
    device().sync()
    answer = str(int(out.read(np.uint32, 1)[0]))
    out.free()
    device().call("cuSurfObjectDestroy" if op == "suq" else "cuTexObjectDestroy", handle)
    device().call("cuArrayDestroy", array)
    return answer


def trap_name(case: Case, at: tuple[int, int, int]) -> str:
    return f"{case.name} at {at[0]} {at[1]} {at[2]}"


def load(path: Path) -> dict[str, str]:
    return json.loads(lzma.decompress(path.read_bytes()))  # type: ignore[no-any-return]


def store(path: Path, which: list[tuple[Case, tuple[int, int, int] | None]]) -> None:
    names = [case.name if at is None else trap_name(case, at) for case, at in which]
    path.write_bytes(lzma.compress(json.dumps(dict(zip(names, collect(which), strict=True))).encode()))


if __name__ == "__main__":
    if sys.argv[1] == "--walk":
        walk([(Case(**case), at) for case, at in json.load(sys.stdin)])
    else:
        path = Path(sys.argv[1])
        store(path, list(traps()) if "--traps" in sys.argv else [(case, None) for case in cases()])
        if "--traps" in sys.argv:
            path.write_bytes(lzma.compress(json.dumps(load(path) | queries()).encode()))
