"""Runs single PTX instructions over edge values and seeded random inputs, on any driver library. Standard library only.

tests/ptx/*.ptx hold the cases, one or more per line:

    // EXEC: s32 = s32 s32 : add.s32 d, a, b
    // EXEC[T=u16,s16]: b32 = $T $T : mul.wide.$T d, a, b
    // EXEC: b32 = b32 b32 b32 : shf.l.wrap.b32 d, a, b, c -- 0x80000001 0x80000001 1 -> 3
    // EXEC: f32 = f32 : ex2.approx.f32 d, a ~ 2 ulp

Left of the colon: what the registers d (d0, d1 … when several) and a b c e hold. Right: the instruction, or several ended by
semicolons. Also there: `tid` (the thread, .b32), `lane`, `scratch` (32 bytes of global memory per thread, zeroed, .b64), `sh` (4 KiB of
shared memory), predicates p and q. After `--` examples with known results; after `~` how far a result may be off, else not at all.
`@ sm_100` after the type list: needs that target. Every case runs as two blocks of 128 threads, all lanes active.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import lzma
import math
import random
import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

THREADS = 256
FOLDER = Path(__file__).resolve().parents[2] / "ptx"
RECORDED = FOLDER / "h200.bin"

WIDTH = {"pred": 8, "u8": 8, "s8": 8, "b8": 8, "u16": 16, "s16": 16, "b16": 16, "f16": 16, "bf16": 16, "b128": 128}
WIDTH |= {
    t: 32 for t in ("u32", "s32", "b32", "f32", "f16x2", "bf16x2", "shift", "sel", "u16x2", "s16x2", "index", "digit")
}
WIDTH |= {t: 64 for t in ("u64", "s64", "b64", "f64", "f32x2")}


@dataclass
class Case:
    name: str
    outputs: list[str]
    inputs: list[str]
    body: str
    target: int = 90
    tolerance: str = ""
    examples: list[tuple[list[int], list[int]]] = field(default_factory=list)


def parse_number(text: str) -> int:
    if text.lower().startswith("0f"):
        return int(text[2:], 16)
    return int(text, 0)


LINE = re.compile(
    r"//\s*EXEC(?:\[(\w+)=([^\]]*)\])?(?:\[(\w+)=([^\]]*)\])?:\s*(.*?)\s*=\s*(.*?)(?:\s*@\s*sm_(\d+))?\s*:\s(.*)$"
)


def read_cases(path: Path) -> Iterator[Case]:
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if "EXEC" not in line:
            continue
        match = LINE.match(line.strip())
        if match is None:
            raise ValueError(f"{path.name}:{number}: not an EXEC line: {line}")
        v1, l1, v2, l2, outs, ins, target, rest = match.groups()
        rest, _, examples = rest.partition(" -- ")
        rest, _, tolerance = rest.partition(" ~ ")
        for x, y in itertools.product(l1.split(",") if l1 else [""], l2.split(",") if l2 else [""]):

            def put(text: str) -> str:
                for variable, value in ((v1, x), (v2, y)):
                    if variable:
                        text = text.replace("${" + variable + "}", value).replace("$" + variable, value)
                return text

            body = put(rest).strip()
            case = Case(
                f"{path.stem}: {body}",
                put(outs).split(),
                put(ins).split(),
                body,
                int(target or 90),
                put(tolerance).strip(),
            )
            for example in filter(None, (e.strip() for e in examples.split(","))):
                given, _, result = example.partition("->")
                case.examples.append(
                    ([parse_number(n) for n in given.split()], [parse_number(n) for n in result.split()])
                )
            yield case


def all_cases() -> list[Case]:
    return [case for path in sorted(FOLDER.glob("*.ptx")) for case in read_cases(path)]


# --- inputs -----------------------------------------------------------------------------------------------------------------


def int_edges(bits: int) -> list[int]:
    top = 1 << (bits - 1)
    edges = [
        0,
        1,
        2,
        3,
        7,
        top - 1,
        top,
        top + 1,
        2 * top - 1,
        2 * top - 2,
        top >> 1,
        0x55555555AAAAAAAA,
        100,
        bits - 1,
        bits,
    ]
    return [e & (2 * top - 1) for e in edges]


F32 = [
    0x00000000,
    0x80000000,
    0x3F800000,
    0xBF800000,
    0x3F000000,
    0x7F800000,
    0xFF800000,
    0x7FC00000,
    0x7F800001,
    0xFFC12345,
    0x00000001,
    0x80000001,
    0x007FFFFF,
    0x00800000,
    0x7F7FFFFF,
    0xFF7FFFFF,
    0x3F7FFFFF,
    0x3F800001,
    0x4B000001,
    0x4B7FFFFF,
    0x4EFFFFFF,
    0x4F000000,
    0xCF000000,
    0x4F800000,
    0x5F000000,
    0x3FC00000,
    0x40200000,
    0xC0200000,
    0x40490FDB,
    0x00000003,
]
F64 = [
    0x0,
    0x8000000000000000,
    0x3FF0000000000000,
    0xBFF0000000000000,
    0x3FE0000000000000,
    0x7FF0000000000000,
    0xFFF0000000000000,
    0x7FF8000000000000,
    0x7FF0000000000001,
    0xFFF8000012345678,
    0x1,
    0x8000000000000001,
    0x000FFFFFFFFFFFFF,
    0x0010000000000000,
    0x7FEFFFFFFFFFFFFF,
    0xFFEFFFFFFFFFFFFF,
    0x3FEFFFFFFFFFFFFF,
    0x3FF0000000000001,
    0x41DFFFFFFFC00000,
    0x41E0000000000000,
    0xC1E0000000000000,
    0x43E0000000000000,
    0x4004000000000000,
    0x3FF8000000000000,
    0xC004000000000000,
    0x47EFFFFFE0000000,
    0x47EFFFFFF0000000,
    0x36A0000000000000,
    0x3690000000000000,
    0x400921FB54442D18,
]
F16 = [
    0x0000,
    0x8000,
    0x3C00,
    0xBC00,
    0x3800,
    0x7C00,
    0xFC00,
    0x7E00,
    0x7C01,
    0xFE12,
    0x0001,
    0x8001,
    0x03FF,
    0x0400,
    0x7BFF,
    0xFBFF,
    0x3BFF,
    0x3C01,
    0x3E00,
    0x4100,
    0xC100,
    0x4248,
    0x6800,
    0x0003,
]
BF16 = [
    0x0000,
    0x8000,
    0x3F80,
    0xBF80,
    0x3F00,
    0x7F80,
    0xFF80,
    0x7FC0,
    0x7F81,
    0xFFC1,
    0x0001,
    0x8001,
    0x007F,
    0x0080,
    0x7F7F,
    0xFF7F,
    0x3F7F,
    0x3F81,
    0x3FC0,
    0x4020,
    0xC020,
    0x4049,
    0x4300,
    0x0003,
]


def edges(kind: str) -> list[int]:
    if kind == "f32":
        return F32
    if kind == "f64":
        return F64
    if kind in ("f16", "bf16"):
        return F16 if kind == "f16" else BF16
    if kind in ("f16x2", "bf16x2"):
        base = F16 if kind == "f16x2" else BF16
        return [x | base[(i * 7 + 3) % len(base)] << 16 for i, x in enumerate(base)]
    if kind == "shift":
        return [0, 1, 2, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 255, 256, 0xFFFFFFFF]
    if kind == "pred":
        return [0, 1]
    if kind == "index":
        return list(range(32))
    if kind == "digit":
        return list(range(4))
    return int_edges(WIDTH[kind])


def sample(kind: str, rng: random.Random) -> int:
    bits = WIDTH[kind]
    if kind == "pred":
        return rng.getrandbits(1)
    if kind == "shift":
        return rng.randrange(72)
    if kind == "index":
        return rng.randrange(32)
    if kind == "digit":
        return rng.randrange(4)
    if (
        kind in ("f32", "f64", "f16", "bf16") and rng.random() < 0.7
    ):  # near 1, where results are not all zero or infinite
        value = math.ldexp(rng.uniform(-2, 2), rng.randrange(-12, 13))
        if kind == "f64":
            return struct.unpack("<Q", struct.pack("<d", value))[0]
        if kind == "f16":
            return struct.unpack("<H", struct.pack("<e", value))[0]
        single = struct.unpack("<I", struct.pack("<f", value))[0]
        return single >> 16 if kind == "bf16" else single
    if kind in ("f16x2", "bf16x2"):
        return sample(kind[:-2], rng) | sample(kind[:-2], rng) << 16
    if kind == "f32x2":
        return sample("f32", rng) | sample("f32", rng) << 32
    if rng.random() < 0.3:
        return rng.getrandbits(rng.randrange(1, bits + 1))
    return rng.getrandbits(bits)


def inputs_of(case: Case) -> list[list[int]]:
    """THREADS tuples: the examples, then edge values against each other, then random ones. The same on every machine."""
    rng = random.Random(zlib.crc32(case.body.encode()))
    rows = [list(given) for given, _ in case.examples]
    sets = [edges(kind) for kind in case.inputs]
    if len(sets) == 1:
        rows += [[x] for x in sets[0]]
    elif sets:
        product = math.prod(map(len, sets))
        if product <= 160:
            rows += [list(t) for t in itertools.product(*sets)]
        else:  # each edge meets many others
            rows += [[rng.choice(s) for s in sets] for _ in range(160)]
    while len(rows) < THREADS:
        rows.append([sample(kind, rng) for kind in case.inputs])
    return rows[:THREADS]


# --- kernels ----------------------------------------------------------------------------------------------------------------


def size_of(kind: str) -> int:
    return 16 if kind == "b128" else 8


def register_type(kind: str) -> str:
    if kind == "pred":
        return "pred"
    width = WIDTH[kind]
    return "b16" if width == 8 else f"b{width}"


def kernel(case: Case, name: str) -> str:
    outs = ["d"] if len(case.outputs) == 1 else [f"d{i}" for i in range(len(case.outputs))]
    lines = [f".visible .entry {name}(.param .u64 P0, .param .u64 P1, .param .u64 P2)", "{"]
    lines += ["  .reg .pred p, q; .reg .b32 tid, lane, T0, T1; .reg .b64 scratch, IN, OUT, OFF, W0;"]
    lines += ["  .shared .align 16 .b8 sh[4096];"]
    for reg, kind in zip(["a", "b", "c", "e"], case.inputs):
        lines.append(f"  .reg .{register_type(kind)} {reg};")
    for reg, kind in zip(outs, case.outputs):
        lines.append(f"  .reg .{register_type(kind)} {reg};")
    lines += [
        "  ld.param.u64 IN, [P0]; ld.param.u64 OUT, [P1]; ld.param.u64 scratch, [P2];",
        "  mov.u32 T0, %ctaid.x; mov.u32 T1, %ntid.x; mov.u32 tid, %tid.x; mad.lo.u32 tid, T0, T1, tid;",
        "  mov.u32 lane, %laneid; mul.wide.u32 OFF, tid, 32; add.u64 scratch, scratch, OFF;",
    ]
    at = 0
    for reg, kind in zip(["a", "b", "c", "e"], case.inputs):
        step = size_of(kind)
        lines.append(f"  mul.wide.u32 OFF, tid, {step}; add.u64 OFF, OFF, IN;")
        if kind == "pred":
            lines.append(f"  ld.global.u32 T0, [OFF+{at}]; setp.ne.u32 {reg}, T0, 0;")
        elif kind == "b128":
            lines.append(f"  {{ .reg .b64 L, H; ld.global.v2.b64 {{L, H}}, [OFF+{at}]; mov.b128 {reg}, {{L, H}}; }}")
        else:
            lines.append(f"  ld.global.{register_type(kind)} {reg}, [OFF+{at}];")
        at += THREADS * step
    block = case.body.startswith("{") and case.body.endswith("}")
    body = case.body if block or case.body.endswith(";") else case.body + ";"
    lines.append(f"  {body}")
    at = 0
    for reg, kind in zip(outs, case.outputs):
        step = size_of(kind)
        lines.append(f"  mul.wide.u32 OFF, tid, {step}; add.u64 OFF, OFF, OUT;")
        if kind == "pred":
            lines.append(f"  selp.b64 W0, 1, 0, {reg}; st.global.b64 [OFF+{at}], W0;")
        elif kind == "b128":
            lines.append(f"  {{ .reg .b64 L, H; mov.b128 {{L, H}}, {reg}; st.global.v2.b64 [OFF+{at}], {{L, H}}; }}")
        else:
            wide = register_type(kind)
            if wide == "b64":
                lines.append(f"  st.global.b64 [OFF+{at}], {reg};")
            else:
                lines.append(f"  mov.b64 W0, 0; st.global.b64 [OFF+{at}], W0; st.global.{wide} [OFF+{at}], {reg};")
        at += THREADS * step
    return "\n".join([*lines, "  ret;", "}"])


def module_text(case: Case) -> bytes:
    version = "8.6" if case.target >= 100 else "8.3"
    return f".version {version}\n.target sm_{case.target}\n.address_size 64\n\n{kernel(case, 'test')}\n\0".encode()


# --- driver -----------------------------------------------------------------------------------------------------------------


class Driver:
    """The few driver calls a test needs, on the library at `path`."""

    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)
        self.check("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.check("cuDeviceGet", ctypes.byref(device), 0)
        self.check("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.check("cuCtxSetCurrent", context)
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.check("cuDeviceGetAttribute", ctypes.byref(major), 75, device)
        self.check("cuDeviceGetAttribute", ctypes.byref(minor), 76, device)
        self.capability = major.value * 10 + minor.value

    def check(self, name: str, *args: object) -> None:
        code = getattr(self.library, name)(*args)
        if code != 0:
            raise RuntimeError(f"{name} answered {code}")

    def load(self, text: bytes) -> ctypes.c_void_p:
        log = ctypes.create_string_buffer(8192)
        keys = (ctypes.c_int * 2)(5, 6)  # error log and its size
        values = (ctypes.c_void_p * 2)(ctypes.cast(log, ctypes.c_void_p), ctypes.c_void_p(8192))
        module = ctypes.c_void_p()
        code = self.library.cuModuleLoadDataEx(ctypes.byref(module), text, 2, keys, values)
        if code != 0:
            raise RuntimeError(f"cuModuleLoadDataEx answered {code}: {log.value.decode(errors='replace')}")
        return module

    def run(self, case: Case) -> list[list[int]]:
        """The outputs of every thread."""
        rows = inputs_of(case)
        packed = b""
        for k, kind in enumerate(case.inputs):
            step = size_of(kind)
            packed += b"".join(row[k].to_bytes(step, "little") for row in rows)
        out_bytes = sum(THREADS * size_of(kind) for kind in case.outputs)
        sizes = [max(len(packed), 16), out_bytes, THREADS * 32]
        buffers = [ctypes.c_uint64() for _ in sizes]
        module = self.load(module_text(case))
        try:
            for buffer, size in zip(buffers, sizes):
                self.check("cuMemAlloc_v2", ctypes.byref(buffer), ctypes.c_size_t(size))
                self.check("cuMemsetD8_v2", buffer, ctypes.c_ubyte(0), ctypes.c_size_t(size))
            if packed:
                self.check("cuMemcpyHtoD_v2", buffers[0], packed, ctypes.c_size_t(len(packed)))
            function = ctypes.c_void_p()
            self.check("cuModuleGetFunction", ctypes.byref(function), module, b"test")
            params = (ctypes.c_void_p * 3)(*[ctypes.cast(ctypes.pointer(b), ctypes.c_void_p) for b in buffers])
            self.check("cuLaunchKernel", function, 2, 1, 1, THREADS // 2, 1, 1, 0, None, params, None)
            self.check("cuCtxSynchronize")
            out = ctypes.create_string_buffer(out_bytes)
            self.check("cuMemcpyDtoH_v2", out, buffers[1], ctypes.c_size_t(out_bytes))
        finally:
            for buffer in buffers:
                if buffer.value:
                    self.library.cuMemFree_v2(buffer)
            self.library.cuModuleUnload(module)
        results: list[list[int]] = [[] for _ in range(THREADS)]
        at = 0
        for kind in case.outputs:
            step = size_of(kind)
            for i in range(THREADS):
                results[i].append(int.from_bytes(out.raw[at + i * step : at + (i + 1) * step], "little"))
            at += THREADS * step
        return results


# --- comparison and the recorded answers ---------------------------------------------------------------------------------------


def to_float(kind: str, bits: int) -> float:
    if kind == "f64":
        return struct.unpack("<d", struct.pack("<Q", bits))[0]
    if kind == "f16":
        return struct.unpack("<e", struct.pack("<H", bits & 0xFFFF))[0]
    if kind == "bf16":
        bits = (bits & 0xFFFF) << 16
    return struct.unpack("<f", struct.pack("<I", bits & 0xFFFFFFFF))[0]


def ordered(kind: str, bits: int) -> int:
    top = 1 << (WIDTH[kind] - 1)
    return bits if bits < top else top - bits


def close(kind: str, ours: int, theirs: int, tolerance: str) -> bool:
    if ours == theirs:
        return True
    if not tolerance:
        return False
    if kind.endswith("x2"):
        half = kind[:-2]
        return all(close(half, ours >> s & 0xFFFF, theirs >> s & 0xFFFF, tolerance) for s in (0, 16))
    if kind not in ("f16", "bf16", "f32", "f64"):
        return False
    x, y = to_float(kind, ours), to_float(kind, theirs)
    if math.isnan(x) or math.isnan(y):
        return math.isnan(x) and math.isnan(y)
    amount, unit = tolerance.split()
    if unit == "abs":
        return abs(x - y) <= float(amount)
    if unit == "rel":
        return abs(x - y) <= float(amount) * max(abs(x), abs(y)) or max(abs(x), abs(y)) < 2.0**-126
    return abs(ordered(kind, ours) - ordered(kind, theirs)) <= int(amount)


def record_size(kind: str) -> int:
    return 1 if kind == "pred" else max(WIDTH[kind] // 8, 1)


def pack(case: Case, results: list[list[int]]) -> bytes:
    return b"".join(
        row[k].to_bytes(record_size(kind), "little") for k, kind in enumerate(case.outputs) for row in results
    )


def unpack(case: Case, data: bytes) -> list[list[int]]:
    results: list[list[int]] = [[] for _ in range(THREADS)]
    at = 0
    for kind in case.outputs:
        step = record_size(kind)
        for i in range(THREADS):
            results[i].append(int.from_bytes(data[at + i * step : at + (i + 1) * step], "little"))
        at += THREADS * step
    return results


def save(answers: dict[str, bytes], errors: dict[str, str]) -> bytes:
    names = sorted(answers)
    header = json.dumps({"sizes": {n: len(answers[n]) for n in names}, "errors": errors}).encode()
    return lzma.compress(struct.pack("<I", len(header)) + header + b"".join(answers[n] for n in names), preset=9)


def load_recorded() -> dict[str, bytes]:
    if not RECORDED.exists():
        return {}
    data = lzma.decompress(RECORDED.read_bytes())
    (length,) = struct.unpack_from("<I", data)
    sizes = json.loads(data[4 : 4 + length])["sizes"]
    at, answers = 4 + length, {}
    for name in sorted(sizes):
        answers[name] = data[at : at + sizes[name]]
        at += sizes[name]
    return answers


def differences(case: Case, ours: list[list[int]], theirs: list[list[int]]) -> list[str]:
    out = []
    for row, mine, wanted in zip(inputs_of(case), ours, theirs):
        for k, kind in enumerate(case.outputs):
            if not close(kind, mine[k], wanted[k], case.tolerance):
                given = " ".join(hex(x) for x in row)
                out.append(f"{case.body}: {given} -> {mine[k]:#x}, the GPU says {wanted[k]:#x}")
    return out
