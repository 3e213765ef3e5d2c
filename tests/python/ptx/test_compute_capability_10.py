# SPDX-License-Identifier: Apache-2.0
"""Instructions of compute capability 10.0 and later. No such GPU was asked: the expected values come from references written here
from the text of the PTX manual and from the host code of the CUDA headers' documentation of the small formats."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from ptxsuite.device import Device, DriverError
from ptxsuite.threads import N, kernel

pytestmark = pytest.mark.cpu_only

F32_EDGES = np.array(
    [0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345, 0x7F812345,
     0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F000000, 0x40C00000, 0x00400000,
     0x00400001, 0x7F000000, 0x7F000001, 0x3E800000, 0x40E00000, 0x41E00000],
    np.uint32,
)  # fmt: skip


def floats(seed: int) -> np.ndarray:
    """Every pair of edge values comes first, then numbers of all sizes and of the size of the small formats."""
    rng = np.random.default_rng(seed)
    some = np.concatenate(
        [
            rng.integers(0, 2**32, N // 2, np.uint32),
            (rng.standard_normal(N // 2) * 2.0 ** rng.integers(-6, 6, N // 2)).astype(np.float32).view(np.uint32),
        ]
    )
    pairs = np.array(list(itertools.product(F32_EDGES, F32_EDGES)), np.uint32)[:, seed % 2][: N // 2]
    some[: len(pairs)] = pairs
    return some.view(np.float32)


@pytest.fixture(scope="module")
def device() -> Device:
    return Device()


@pytest.fixture(autouse=True)
def _arch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUCORE_CPU_ARCH", "10.0")  # read at each load


@pytest.mark.parametrize("mods", ["rn", "rz", "rm", "rp", "rn.ftz", "rz.ftz"])
@pytest.mark.parametrize("op", ["add", "sub", "mul", "fma"])
def test_packed_f32_arithmetic_equals_the_scalar_instruction_on_each_half(device: Device, op: str, mods: str) -> None:
    a, b, c = (np.stack([floats(2 * n), floats(2 * n + 1)], axis=1).copy().view(np.uint64)[:, 0] for n in range(3))
    packed = f"{op}.{mods}.f32x2 %rd1, %rd2, %rd3{', %rd4' if op == 'fma' else ''};"
    wide = kernel(
        device,
        f"ld.u64 %rd2, [%rd10]; ld.u64 %rd3, [%rd11]; ld.u64 %rd4, [%rd12];\n{packed}\nst.u64 [%rd9], %rd1;",
        a, b, c, out=np.uint64, target="sm_100",
    )  # fmt: skip
    scalar = f"{op}.{mods}.f32 %f1, %f2, %f3{', %f4' if op == 'fma' else ''};"
    lines = "".join(
        f"ld.f32 %f2, [%rd10+{at}]; ld.f32 %f3, [%rd11+{at}]; ld.f32 %f4, [%rd12+{at}];\n{scalar}\nst.f32 [%rd9+{at}], %f1;\n"
        for at in (0, 4)
    )
    assert np.array_equal(wide, kernel(device, lines, a, b, c, out=np.uint64))


@pytest.mark.parametrize("small", ["f16", "bf16"])
@pytest.mark.parametrize("op", ["add", "sub", "fma"])
@pytest.mark.parametrize("mods", ["rn", "rz", "rp", "rm.sat"])
def test_mixed_arithmetic_equals_f32_arithmetic_of_the_widened_values(
    device: Device, op: str, small: str, mods: str
) -> None:
    rng = np.random.default_rng(5)
    x, y = (rng.integers(0, 2**16, N, np.uint16) for _ in range(2))
    z = floats(3)
    loads = "ld.b16 %h0, [%rd10]; ld.b16 %h1, [%rd11]; ld.f32 %f3, [%rd12];\n"
    extra = "%h1, " if op == "fma" else ""
    mixed = kernel(
        device, f"{loads}{op}.{mods}.f32.{small} %f0, %h0, {extra}%f3; st.f32 [%rd9], %f0;", x, y, z, out=np.uint32
    )
    extra = "%f2, " if op == "fma" else ""
    widened = f"{loads}cvt.f32.{small} %f1, %h0; cvt.f32.{small} %f2, %h1; {op}.{mods}.f32 %f0, %f1, {extra}%f3; st.f32 [%rd9], %f0;"
    assert np.array_equal(mixed, kernel(device, widened, x, y, z, out=np.uint32))


@pytest.mark.parametrize("nan", [False, True])
@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("mask", [0xFFFFFFFF, 0x0000FFF0])
def test_reduction_of_floats_over_a_warp(device: Device, op: str, absolute: bool, nan: bool, mask: int) -> None:
    rows = floats(1).view(np.uint32).reshape(-1, 32).copy()
    rows[0], rows[1, :31] = 0x7FC00000, 0xFFC00000
    rows[2] = np.where(np.arange(32) % 2, 0x00000000, 0x80000000)
    mods = f"{op}{'.abs' if absolute else ''}{'.NaN' if nan else ''}"
    lines = f"""mov.u32 %r1, %laneid; mov.u32 %r3, 1; shl.b32 %r3, %r3, %r1; and.b32 %r3, %r3, {mask};
      setp.eq.u32 %p0, %r3, 0; ld.f32 %f0, [%rd10];
      @%p0 bra DONE; redux.sync.{mods}.f32 %f1, %f0, {mask}; st.f32 [%rd9], %f1; DONE:"""
    result = kernel(device, lines, rows.reshape(-1).view(np.float32), out=np.uint32).reshape(-1, 32)
    members = [lane for lane in range(32) if mask >> lane & 1]
    for row, got in zip(rows, result, strict=True):
        bits = row[members] & (0x7FFFFFFF if absolute else 0xFFFFFFFF)
        is_nan = (bits & 0x7FFFFFFF) > 0x7F800000
        keys = [int(v) if v < 2**31 else -(int(v) - 2**31) - 1 for v in bits[~is_nan]]
        if not keys or (nan and is_nan.any()):
            expected = 0x7FFFFFFF
        else:
            best = min(keys) if op == "min" else max(keys)
            expected = best if best >= 0 else 2**31 - best - 1
        assert set(got[members].tolist()) == {expected}, (hex(expected), [hex(v) for v in got[members]])


@pytest.mark.parametrize("mods", ["", ".NaN", ".abs", ".ftz.NaN.abs"])
@pytest.mark.parametrize("op", ["min", "max"])
def test_extremes_of_three_floats_equal_those_of_two_pairs(device: Device, op: str, mods: str) -> None:
    a, b, c = floats(0), floats(1), floats(2)
    loads = "ld.f32 %f1, [%rd10]; ld.f32 %f2, [%rd11]; ld.f32 %f3, [%rd12];\n"
    got = kernel(device, f"{loads}{op}{mods}.f32 %f0, %f1, %f2, %f3; st.f32 [%rd9], %f0;", a, b, c, out=np.uint32)
    absolute = "".join(f"abs.f32 %f{n}, %f{n}; " for n in (1, 2, 3)) if ".abs" in mods else ""
    two = f"{op}{mods.replace('.abs', '')}.f32"
    pairs = f"{loads}{absolute}{two} %f0, %f1, %f2; {two} %f0, %f0, %f3; st.f32 [%rd9], %f0;"
    assert np.array_equal(got, kernel(device, pairs, a, b, c, out=np.uint32))


FORMATS = {"e4m3": (4, 3, 0x7E), "e5m2": (5, 2, 0x7B), "e2m1": (2, 1, 0x7), "e2m3": (2, 3, 0x1F), "e3m2": (3, 2, 0x1F)}


def values_of(name: str) -> list[float]:
    """The values of the codes 0 to the largest, without sign."""
    exponent_bits, mantissa_bits, largest = FORMATS[name]
    bias = 2 ** (exponent_bits - 1) - 1
    found = []
    for code in range(largest + 1):
        exponent, mantissa = code >> mantissa_bits, code & (2**mantissa_bits - 1)
        unit = 2.0 ** (max(exponent, 1) - bias - mantissa_bits)
        found.append((mantissa + (2**mantissa_bits if exponent else 0)) * unit)
    return found


def encode(value: float, name: str) -> int:
    """Round to nearest even with saturation; NaN is the largest number, or in 8 bits NaN."""
    exponent_bits, mantissa_bits, largest = FORMATS[name]
    if np.isnan(value):
        return 0x7F if exponent_bits + mantissa_bits == 7 else largest
    table = values_of(name)
    sign = int(np.signbit(value)) << (exponent_bits + mantissa_bits)
    size = abs(float(value))
    if size >= table[-1]:
        return sign | largest
    above = next(code for code, known in enumerate(table) if known >= size)
    if above == 0 or table[above] == size:
        return sign | above
    low, high = size - table[above - 1], table[above] - size
    return sign | (above - 1 if low < high or (low == high and above % 2 == 1) else above)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("source", ["f32", "f16x2", "bf16x2"])
@pytest.mark.parametrize("name", FORMATS)
def test_conversion_to_a_small_format(device: Device, name: str, source: str, relu: bool) -> None:
    if source != "bf16x2" and name in ("e4m3", "e5m2"):
        pytest.skip("an instruction of 8.9")
    high, low = floats(0), floats(1)
    if source == "f16x2":
        with np.errstate(all="ignore"):
            high, low = high.astype(np.float16), low.astype(np.float16)
        arrays = [low.view(np.uint16).astype(np.uint32) | high.view(np.uint16).astype(np.uint32) << 16]
    elif source == "bf16x2":
        arrays = [low.view(np.uint32) >> 16 | high.view(np.uint32) & 0xFFFF0000]
        high, low = (arrays[0] & 0xFFFF0000).view(np.float32), (arrays[0] << 16).view(np.float32)
    else:
        arrays = [high, low]
    to = "%b0" if name == "e2m1" else "%h0"
    given = "%f0, %f1" if source == "f32" else "%r1"
    loads = "ld.f32 %f0, [%rd10]; ld.f32 %f1, [%rd11];" if source == "f32" else "ld.b32 %r1, [%rd10];"
    store = "mov.b16 %h0, {%b0, 0};" if name == "e2m1" else ""
    mods = f"rn.satfinite{'.relu' if relu else ''}.{name}x2.{source}"
    got = kernel(device, f"{loads} cvt.{mods} {to}, {given}; {store} st.b16 [%rd9], %h0;", *arrays, out=np.uint16)
    place = 4 if name == "e2m1" else 8
    for n in range(N):
        codes = []
        for value in (float(low[n]), float(high[n])):
            if relu and (value < 0 or (value == 0 and np.signbit(value))):
                value = 0.0
            codes.append(encode(value, name))
        assert got[n] == codes[0] | codes[1] << place, (n, float(low[n]), float(high[n]))


@pytest.mark.parametrize("name", ["e2m1", "e2m3", "e3m2"])
def test_conversion_from_a_small_format(device: Device, name: str) -> None:
    bits = sum(FORMATS[name][:2]) + 1
    place = 4 if name == "e2m1" else 8
    codes = np.arange(N, dtype=np.uint16)
    low, high = codes % 2**bits, codes // 7 % 2**bits
    packed = (low | high << place).astype(np.uint16)
    load = "ld.b16 %h0, [%rd10];" + ("mov.b16 {%b0, %b1}, %h0;" if name == "e2m1" else "")
    source = "%b0" if name == "e2m1" else "%h0"
    got = kernel(device, f"{load} cvt.rn.f16x2.{name}x2 %r1, {source}; st.b32 [%rd9], %r1;", packed, out=np.uint32)
    table = values_of(name)
    signed = np.array([-table[c - 2 ** (bits - 1)] if c >= 2 ** (bits - 1) else table[c] for c in range(2**bits)])
    expected = signed[low].astype(np.float16).view(np.uint16).astype(np.uint32)
    expected |= signed[high].astype(np.float16).view(np.uint16).astype(np.uint32) << 16
    assert np.array_equal(got, expected)


@pytest.mark.parametrize("mods", ["rz", "rp", "rz.satfinite", "rp.satfinite"])
def test_conversion_to_exponents(device: Device, mods: str) -> None:
    high, low = floats(0), floats(1)
    lines = f"ld.f32 %f0, [%rd10]; ld.f32 %f1, [%rd11]; cvt.{mods}.ue8m0x2.f32 %h0, %f0, %f1; st.b16 [%rd9], %h0;"
    got = kernel(device, lines, high, low, out=np.uint16)

    def one(value: np.float32) -> int:
        if np.isnan(value):
            return 0xFF
        size = abs(float(value))
        if np.isinf(size):
            return 0xFE if "satfinite" in mods else 0xFF
        codes = 2.0 ** (np.arange(255) - 127.0)  # the value of each code
        if "rz" in mods:
            return max(int(np.searchsorted(codes, size, "right")) - 1, 0)
        code = int(np.searchsorted(codes, size, "left"))
        return min(code, 0xFE) if "satfinite" in mods else code

    assert got.tolist() == [one(a) | one(b) << 8 for a, b in zip(low, high, strict=True)]


def test_conversion_from_exponents(device: Device) -> None:
    packed = np.arange(N, dtype=np.uint16) * 65
    got = kernel(
        device, "ld.b16 %h0, [%rd10]; cvt.rn.bf16x2.ue8m0x2 %r1, %h0; st.b32 [%rd9], %r1;", packed, out=np.uint32
    )
    table = [0x0040, *(code << 7 for code in range(1, 255)), 0x7FFF]
    assert got.tolist() == [table[p & 0xFF] | table[p >> 8] << 16 for p in packed.tolist()]


@pytest.mark.parametrize("kind", ["v8.b32", "v8.f32", "v4.b64"])
@pytest.mark.parametrize("hints", ["", ".L2::evict_last"])
def test_accesses_of_256_bits(device: Device, kind: str, hints: str) -> None:
    prefix = {"v8.b32": "%r", "v8.f32": "%f", "v4.b64": "%rd"}[kind]
    registers = ", ".join(f"{prefix}{20 + n if kind == 'v4.b64' else 1 + n}" for n in range(8 if "v8" in kind else 4))
    given = np.arange(N * 4, dtype=np.uint64).reshape(N, 4) * 0x9E3779B97F4A7C15
    data = given.view(np.dtype((np.void, 32)))[:, 0]
    lines = f"ld.global{hints}.{kind} {{{registers}}}, [%rd10]; st.global{hints}.{kind} [%rd9], {{{registers}}};"
    assert kernel(device, lines, data, out=np.dtype((np.void, 32)), target="sm_100").tobytes() == given.tobytes()


def test_bulk_store_zeroes_shared_memory(device: Device) -> None:
    lines = """
      .shared .align 16 .b8 room[4096];
      mov.u32 %r1, room; shl.b32 %r2, %t0, 2; add.u32 %r3, %r1, %r2; mov.u32 %r4, 7; st.shared.u32 [%r3], %r4;
      bar.sync 0; setp.ne.u32 %p0, %t0, 0; @%p0 bra NEXT;
      mov.u64 %rd2, 256; st.bulk.weak.shared::cta [%r1], %rd2, 0;
      NEXT: bar.sync 0; ld.shared.u32 %r5, [%r3]; st.u32 [%rd9], %r5;"""
    got = kernel(device, lines, out=np.uint32, threads=128, target="sm_100")
    assert got.tolist() == [0] * 64 + [7] * 64


REFUSED = [
    ("sm_100", "cvt.rn.satfinite.e2m3x2.f32 %h0, %f0, %f1;", "needs .target sm_100a"),
    ("sm_100", "redux.sync.min.f32 %f0, %f1, -1;", "needs .target sm_100a"),
    ("sm_90", "max.f32 %f0, %f1, %f2, %f3;", "three operands need .target sm_100"),
    ("sm_100a", "wgmma.fence.sync.aligned;", "needs .target sm_90a"),
    ("sm_100a", "ld.global.L2::evict_last.b32 %r1, [%rd9];", "'.v8.b32' or '.v4.b64'"),
    ("sm_100a", "ld.shared.v4.b64 {%rd1, %rd2, %rd3, %rd4}, [%r1];", "in global memory"),
    ("sm_100", "cvt.rs.f16x2.f32 %r0, %f1, %f2, %r1;", "needs .target sm_100a"),
    ("sm_100a", "cvt.rn.satfinite.pzo.f16x2.f32 %r0, %f0, %f1;", "needs .version 9.4"),
]  # fmt: skip


@pytest.mark.parametrize(("target", "line", "words"), REFUSED)
def test_form_that_ptxas_refuses_is_an_error(device: Device, target: str, line: str, words: str) -> None:
    with pytest.raises(DriverError) as error:
        kernel(device, line, out=np.uint32, target=target)
    assert error.value.code == 218 and words in error.value.log, error.value.log


# Destination: exponent bits, mantissa bits, bits of an element, code of the largest number, whether there are infinities and NaNs.
STOCHASTIC = {
    "f16x2": (5, 10, 16, 0x7BFF, True), "bf16x2": (8, 7, 16, 0x7F7F, True), "e4m3x4": (4, 3, 8, 0x7E, False),
    "e5m2x4": (5, 2, 8, 0x7B, False), "e2m1x4": (2, 1, 4, 0x7, False), "e2m3x4": (2, 3, 8, 0x1F, False),
    "e3m2x4": (3, 2, 8, 0x1F, False),
}  # fmt: skip


@pytest.mark.parametrize("mods", ["satfinite", "satfinite.relu", ""])
@pytest.mark.parametrize("name", STOCHASTIC)
def test_stochastic_rounding_adds_random_bits_and_truncates(device: Device, name: str, mods: str) -> None:
    exponent_bits, mantissa_bits, place, largest, ieee = STOCHASTIC[name]
    if not mods and not ieee:
        pytest.skip("formats of 8 bits and fewer always saturate")
    count = 2 if ieee else 4
    values = [floats(n) for n in range(count)]
    random = np.random.default_rng(3).integers(0, 2**32, N, np.uint32)
    random[:64], random[64:128] = 0, 0xFFFFFFFF
    loads = "".join(f"ld.f32 %f{n}, [%rd{10 + n}];" for n in range(count)) + f"ld.b32 %r1, [%rd{10 + count}];"
    given = "%f0, %f1" if count == 2 else "{%f0, %f1, %f2, %f3}"
    to = "%h0" if name == "e2m1x4" else "%r2"
    store = "cvt.u32.u16 %r2, %h0;" if name == "e2m1x4" else ""
    opcode = ".".join(filter(None, ["cvt.rs", mods, name, "f32"]))
    lines = f"{loads} {opcode} {to}, {given}, %r1; {store} st.b32 [%rd9], %r2;"
    got = kernel(device, lines, *values, random, out=np.uint32)
    bias = 2 ** (exponent_bits - 1) - 1

    def number(code: int) -> float:
        exponent, mantissa = code >> mantissa_bits, code & (2**mantissa_bits - 1)
        return (mantissa + (2**mantissa_bits if exponent else 0)) * 2.0 ** (max(exponent, 1) - bias - mantissa_bits)

    table = np.array([number(code) for code in range(largest + 1)])
    width = exponent_bits + mantissa_bits
    infinity = (2**exponent_bits - 1) << mantissa_bits

    def expected(value: float, bits: int) -> int:
        if "relu" in mods and (value < 0 or (value == 0 and np.signbit(value))):
            value = 0.0
        if np.isnan(value):
            return 2**width - 1 if width >= 7 else largest
        sign, size = int(np.signbit(value)) << width, abs(float(value))
        below = int(np.searchsorted(table, size, "right")) - 1
        unit = (table[below + 1] if below < largest else 2 * table[below] - table[below - 1]) - table[below]
        fraction = 1.0 if np.isinf(size) else (size - table[below]) / unit
        up = np.isinf(size) or fraction + bits / 65536 >= 1
        code = below + bool(up)
        over = largest if "satfinite" in mods else infinity
        return sign | (over if code > largest or fraction >= 1 else code)

    for n in range(N):
        r = int(random[n])
        halves = [r >> 16, r & 0xFFFF]
        if name == "f16x2":
            halves = [h << 3 & 0xFFFF for h in halves]
        if name == "e2m1x4":
            halves = [(r >> 24) << 8 | r >> 8 & 0xFF, (r >> 16 & 0xFF) << 8 | r & 0xFF]
        code = 0
        for k in range(count):  # the first value is the highest
            code = code << place | expected(float(values[k][n]), halves[k * 2 // count])
        assert got[n] == code, (n, hex(got[n]), hex(code), [float(v[n]) for v in values], hex(r))


@pytest.mark.parametrize("mods", ["rn", "rn.relu", "rn.satfinite", "rn.satfinite.relu"])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("name", [*FORMATS, "s2f6"])
def test_conversion_of_a_small_format_to_bf16(device: Device, name: str, scaled: bool, mods: str) -> None:
    bits = 8 if name == "s2f6" else sum(FORMATS[name][:2]) + 1
    place = 4 if name == "e2m1" else 8
    numbers = np.arange(N, dtype=np.uint16)
    low, high = numbers % 2**bits, numbers * 7 // 3 % 2**bits
    packed = (low | high << place).astype(np.uint16)
    scales = (np.arange(N) * 61 % 65536).astype(np.uint16)
    scales[:8] = [0x0000, 0xFFFF, 0xFE00, 0x00FE, 0x0101, 0x7F7F, 0x8585, 0x0100]
    load = "ld.b16 %h0, [%rd10]; ld.b16 %h1, [%rd11];" + ("mov.b16 {%b0, %b1}, %h0;" if name == "e2m1" else "")
    source = ("%b0" if name == "e2m1" else "%h0") + (", %h1" if scaled else "")
    opcode = f"cvt.{mods}.{'scaled::n2::ue8m0.' if scaled else ''}bf16x2.{name}x2"
    lines = f"{load} {opcode} %r1, {source}; st.b32 [%rd9], %r1;"
    got = kernel(device, lines, packed, scales, out=np.uint32, version="9.2")

    def value(code: int) -> float:
        if name == "s2f6":
            return (code - 256 if code >= 128 else code) / 64
        largest = FORMATS[name][2]
        size, sign = code & 2 ** (bits - 1) - 1, -1.0 if code >> bits - 1 else 1.0
        if size > largest:
            return sign * np.inf if name == "e5m2" and size == 0x7C else np.nan
        return sign * values_of(name)[size]

    def expected(code: int, exponent: int) -> int:
        v = value(code)
        if scaled:
            v = np.nan if exponent == 255 else v * 2.0 ** (exponent - 127)
        if "relu" in mods and (v < 0 or (v == 0 and np.signbit(v))):
            v = 0.0
        if np.isnan(v):
            return 0x7FFF
        with np.errstate(over="ignore"):
            word = int(np.float32(v).view(np.uint32))  # exact: few bits, and none below those of f32
        rounded = word + 0x7FFF + (word >> 16 & 1) >> 16
        if "satfinite" in mods and rounded & 0x7FFF == 0x7F80:
            rounded -= 1
        return rounded

    for n in range(N):
        pair = expected(int(low[n]), int(scales[n]) & 255) | expected(int(high[n]), int(scales[n]) >> 8) << 16
        assert got[n] == pair, (n, hex(got[n]), hex(pair))


@pytest.mark.parametrize("mods", ["rn.satfinite", "rn.satfinite.relu"])
@pytest.mark.parametrize("source", ["f32", "bf16x2"])
def test_conversion_to_fixed_point(device: Device, source: str, mods: str) -> None:
    high, low = floats(0), floats(1)
    arrays = [high, low]
    load, given = "ld.f32 %f0, [%rd10]; ld.f32 %f1, [%rd11];", "%f0, %f1"
    if source == "bf16x2":
        arrays = [low.view(np.uint32) >> 16 | high.view(np.uint32) & 0xFFFF0000]
        high, low = (arrays[0] & 0xFFFF0000).view(np.float32), (arrays[0] << 16).view(np.float32)
        load, given = "ld.b32 %r1, [%rd10];", "%r1"
    got = kernel(device, f"{load} cvt.{mods}.s2f6x2.{source} %h0, {given}; st.b16 [%rd9], %h0;", *arrays, out=np.uint16)

    def one(value: np.float32) -> int:
        v = float(value)
        if np.isnan(v):
            return 0x7F
        if "relu" in mods:
            v = max(v, 0.0)
        return int(np.clip(np.rint(np.clip(v, -1e6, 1e6) * 64), -128, 127)) & 0xFF

    assert got.tolist() == [one(a) | one(b) << 8 for a, b in zip(low, high, strict=True)]


PACKED = [
    *(f"{op}{sat}.{t}" for op in ("add", "sub") for sat in ("", ".sat") for t in ("u8x4", "s8x4")),
    "add.sat.u16x2", "add.sat.s16x2", *(f"{op}.{t}" for op in ("min", "max") for t in ("u8x4", "s8x4")),
    "min.relu.s8x4", "max.relu.s8x4", "neg.s8x4",
]  # fmt: skip


@pytest.mark.parametrize("form", PACKED)
def test_packed_integers(device: Device, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUCORE_CPU_ARCH", "12.0")
    rng = np.random.default_rng(5)
    a, b = (rng.integers(0, 2**32, N, np.uint32) for _ in range(2))
    a[:4], b[:4] = [0x80808080, 0x7F7F7F7F, 0xFFFFFFFF, 0], [0x80808080, 0x7F7F7F7F, 0x01010101, 0]
    given = "%r2" if form.startswith("neg") else "%r2, %r3"
    lines = f"ld.b32 %r2, [%rd10]; ld.b32 %r3, [%rd11]; {form} %r1, {given}; st.b32 [%rd9], %r1;"
    got = kernel(device, lines, a, b, out=np.uint32, target="sm_120a", version="9.2")
    kind = np.dtype({"u8x4": "u1", "s8x4": "i1", "u16x2": "u2", "s16x2": "i2"}[form.split(".")[-1]])
    x, y = a.view(kind).astype(np.int64), b.view(kind).astype(np.int64)
    op = form.split(".")[0]
    r = {"add": x + y, "sub": x - y, "min": np.minimum(x, y), "max": np.maximum(x, y), "neg": -x}[op]
    if ".relu" in form:
        r = np.maximum(r, 0)
    if ".sat" in form:
        r = np.clip(r, np.iinfo(kind).min, np.iinfo(kind).max)
    assert np.array_equal(got, r.astype(kind).view(np.uint32))


@pytest.mark.parametrize("scope", ["gpu", "sys", "mmio"])
@pytest.mark.parametrize("kind", ["b8", "u16", "b32", "f32", "s64"])
def test_asynchronous_store_to_global_memory(device: Device, kind: str, scope: str) -> None:
    size = int(kind[1:]) // 8
    data = np.random.default_rng(2).integers(0, 2 ** (8 * size), N, np.uint64).astype(f"u{size}")
    register = {1: "%b0", 2: "%h0", 4: "%r1", 8: "%rd1"}[size] if kind != "f32" else "%f0"
    order = "mmio.release.sys" if scope == "mmio" else f"release.{scope}"
    lines = f"ld.{kind} {register}, [%rd10]; st.async.{order}.global.{kind} [%rd9], {register};"
    assert np.array_equal(kernel(device, lines, data, out=data.dtype, target="sm_100"), data)


@pytest.mark.parametrize(
    "form", ["add.u32", "min.s32", "max.u32", "inc.u32", "dec.u32", "and.b32", "xor.b32", "add.s64"]
)
def test_asynchronous_reduction_in_global_memory_equals_the_ordinary_one(device: Device, form: str) -> None:
    data = np.random.default_rng(2).integers(0, 2**32, N, np.uint64)
    wide = form.endswith("64")
    kind, register = ("u64", "%rd1") if wide else ("u32", "%r1")

    def result(opcode: str) -> np.ndarray:
        lines = f"ld.{kind} {register}, [%rd10]; st.{kind} [%rd9], 1000; {opcode}.{form} [%rd9], {register};"
        return kernel(device, lines, data, out=np.uint64, target="sm_100")

    ordinary = "red.relaxed.gpu.global"
    expected = result(ordinary) if form != "add.s64" else data + np.uint64(1000)
    assert np.array_equal(result("red.async.release.gpu.global"), expected)
    assert np.array_equal(result("red.async.mmio.release.sys.global"), expected)


def test_bulk_copy_with_a_mask_writes_the_chosen_bytes(device: Device) -> None:
    lines = """
      .shared .align 16 .b8 room[512];
      mov.u32 %r1, room; mad.lo.u32 %r2, %t0, 4, %r1; mov.u32 %r3, 0x04030201; st.shared.u32 [%r2], %r3;
      st.u32 [%rd9], 0x55555555; fence.proxy.async; bar.sync 0;
      setp.ne.u32 %p0, %t0, 0; @%p0 bra NEXT;
      mov.u32 %r4, 128; mov.b16 %h0, 0x8421;
      cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd9], [%r1], %r4, %h0;
      cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
      NEXT: bar.sync 0;"""
    got = kernel(device, lines, out=np.uint32, threads=64, target="sm_100").view(np.uint8).reshape(-1, 16)
    chosen = [0x8421 >> k & 1 for k in range(16)]
    assert got[:8].tolist() == [[1 + k % 4 if chosen[k] else 0x55 for k in range(16)]] * 8
    assert (got[8:] == 0x55).all()
