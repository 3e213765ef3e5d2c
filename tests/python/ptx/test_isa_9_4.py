# SPDX-License-Identifier: Apache-2.0
"""Instructions that came with PTX ISA 9.3 and 9.4. The driver of our GPU does not load such PTX: the expected values come from
references written here from the text of the manual, and ptxas 13.4 says which targets have them."""

from __future__ import annotations

import bisect
import functools
from fractions import Fraction

import numpy as np
import pytest
from ptxsuite.device import Device, DriverError
from ptxsuite.threads import N, kernel

pytestmark = pytest.mark.cpu_only

CAPABILITY = {"sm_80": "8.0", "sm_90": "9.0", "sm_90a": "9.0", "sm_100": "10.0", "sm_100a": "10.0", "sm_100f": "10.0",
              "sm_103a": "10.3", "sm_110a": "11.0", "sm_120a": "12.0", "sm_121a": "12.1"}  # fmt: skip


@pytest.fixture(scope="module")
def device() -> Device:
    return Device()


@pytest.fixture(autouse=True)
def _arch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUCORE_CPU_ARCH", "10.3")  # read at each load


def carryless(a: int, b: int) -> int:
    """The product of two polynomials over GF(2)."""
    result = 0
    for bit in range(64):
        if a >> bit & 1:
            result ^= b << bit
    return result


@pytest.mark.parametrize("half", ["lo", "hi"])
def test_carryless_multiply_add(device: Device, half: str) -> None:
    rng = np.random.default_rng(1)
    a, b, c = (rng.integers(0, 2**64, N, np.uint64) for _ in range(3))
    a[:4], b[:4] = [2**64 - 1, 2**64 - 1, 0, 2**63], [2**64 - 1, 1, 5, 2**63]
    lines = f"""ld.u64 %rd2, [%rd10]; ld.u64 %rd3, [%rd11]; ld.u64 %rd4, [%rd12];
      clmad.{half}.u64 %rd1, %rd2, %rd3, %rd4; st.u64 [%rd9], %rd1;"""
    got = kernel(device, lines, a, b, c, out=np.uint64, target="sm_80", version="9.3")
    for n in range(N):
        product = carryless(int(a[n]), int(b[n]))
        assert int(got[n]) == (product >> 64 if half == "hi" else product & (2**64 - 1)) ^ int(c[n]), n


def test_addition_of_unsigned_integers_saturates(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUCORE_CPU_ARCH", "12.0")
    rng = np.random.default_rng(2)
    a, b = (rng.integers(0, 2**32, N, np.uint32) for _ in range(2))
    lines = "ld.u32 %r1, [%rd10]; ld.u32 %r2, [%rd11]; add.sat.u32 %r1, %r1, %r2; st.u32 [%rd9], %r1;"
    got = kernel(device, lines, a, b, out=np.uint32, target="sm_120a", version="9.2")
    assert np.array_equal(got, np.minimum(a.astype(np.uint64) + b, 2**32 - 1))


# Format: exponent bits, mantissa bits, bits between elements.
QUADS = {"e4m3x4": (4, 3, 8), "e5m2x4": (5, 2, 8), "e3m2x4": (3, 2, 8), "e2m3x4": (2, 3, 8), "e2m1x4": (2, 1, 4),
         "e2m1p4x4": (2, 1, 8), "ue8m0x4": (8, 0, 8)}  # fmt: skip
Number = Fraction | str  # "nan", "inf", "-inf", "-0"


def number(name: str, word: int, k: int) -> Number:
    """Element k of a register."""
    exponent_bits, mantissa_bits, place = QUADS[name]
    code = word >> place * k & 0xFF
    if name == "ue8m0x4":
        return "nan" if code == 255 else Fraction(2) ** (code - 127)
    width = exponent_bits + mantissa_bits
    negative, size = code >> width & 1, code & 2**width - 1
    if (name == "e4m3x4" and size == 0x7F) or (name == "e5m2x4" and size > 0x7C):
        return "nan"
    if name == "e5m2x4" and size == 0x7C:
        return "-inf" if negative else "inf"
    if size == 0:
        return "-0" if negative else Fraction(0)
    exponent, mantissa = size >> mantissa_bits, size & 2**mantissa_bits - 1
    bias = 2 ** (exponent_bits - 1) - 1
    value = (mantissa + (2**mantissa_bits if exponent else 0)) * Fraction(2) ** (
        max(exponent, 1) - bias - mantissa_bits
    )
    return -value if negative else value


def is_negative(x: Number) -> bool:
    return x.startswith("-") if isinstance(x, str) else x < 0


def size_of(x: Number) -> Number:
    return abs(x) if isinstance(x, Fraction) else Fraction(0) if x == "-0" else x.lstrip("-")


def product(x: Number, y: Number) -> Number:
    sizes = size_of(x), size_of(y)
    if "nan" in sizes or ("inf" in sizes and 0 in sizes):
        return "nan"
    negative = is_negative(x) != is_negative(y)
    if "inf" in sizes:
        return "-inf" if negative else "inf"
    value = sizes[0] * sizes[1]
    return "-0" if negative and value == 0 else -value if negative else value


def negated(x: Number) -> Number:
    if isinstance(x, Fraction):
        return "-0" if x == 0 else -x
    return {"nan": "nan", "inf": "-inf", "-inf": "inf", "-0": Fraction(0)}[x]


def total(x: Number, y: Number) -> Number:
    if "nan" in (x, y) or {x, y} == {"inf", "-inf"}:
        return "nan"
    for infinity in ("inf", "-inf"):
        if infinity in (x, y):
            return infinity
    if x == y == "-0":
        return "-0"
    return (Fraction(0) if x == "-0" else x) + (Fraction(0) if y == "-0" else y)


@functools.cache
def codes_of(name: str) -> list[Fraction]:
    """The values of the codes without sign, and what the next code would be."""
    found = [number(name, code, 0) for code in range(0x7F if name == "e4m3x4" else 0x7C)]
    return [*found, 2 * found[-1] - found[-2]]


def encoded(x: Number, name: str, finite: bool) -> int:
    """Round to nearest even; NaN is 0x7f."""
    values = codes_of(name)
    over = len(values) - 1  # NaN of e4m3, infinity of e5m2
    if x == "nan":
        return 0x7F
    sign, size = is_negative(x) << 7, size_of(x)
    code = over
    if size != "inf" and size < values[-1]:
        below = bisect.bisect_right(values, size) - 1
        middle = (values[below] + values[below + 1]) / 2
        code = below + (size > middle or (size == middle and below % 2))
    if code == over and finite:
        code -= 1
    return code if code == 0x7F else sign | code


FORMS = [
    *(f"{op}.{mods}{d}.{a}" for op in ("add", "sub") for mods, d, a in [
        ("", "e4m3x4", "e4m3x4"), ("rn.satfinite.", "e4m3x4", "e5m2x4"), ("rn.", "e5m2x4", "e5m2x4"), ("", "e5m2x4", "e2m1x4"),
        ("satfinite.", "e4m3x4", "ue8m0x4"), ("", "e5m2x4", "ue8m0x4"), ("", "e4m3x4", "e2m1p4x4"), ("", "e4m3x4", "e3m2x4")]),
    *(f"{op}.{mods}{d}.{a}.{b}" for op in ("mul", "fma") for mods, d, a, b in [
        ("rn.", "e4m3x4", "e4m3x4", "e4m3x4"), ("rn.satfinite.", "e4m3x4", "e4m3x4", "e5m2x4"), ("", "e5m2x4", "e5m2x4", "e4m3x4"),
        ("satfinite.", "e5m2x4", "ue8m0x4", "e5m2x4"), ("rn.", "e4m3x4", "ue8m0x4", "e2m1p4x4"), ("rn.", "e4m3x4", "e3m2x4", "e2m1x4"),
        ("satfinite.", "e4m3x4", "ue8m0x4", "ue8m0x4"), ("", "e5m2x4", "e2m1x4", "e2m1x4"), ("", "e5m2x4", "e2m3x4", "e3m2x4")]),
]  # fmt: skip


@pytest.mark.parametrize("target", ["sm_100a", "sm_103a"])
@pytest.mark.parametrize("form", FORMS)
def test_arithmetic_of_four_small_floats(
    device: Device, form: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUCORE_CPU_ARCH", CAPABILITY[target])
    op, *words = form.split(".")
    types = [w for w in words if w in QUADS]
    sources = types[1:] + ([types[0]] if op != "mul" else [])
    rng = np.random.default_rng(3)
    arrays = [rng.integers(0, 2**32, N, np.uint32) for _ in sources]
    for array, name in zip(arrays, sources, strict=True):
        if name == "ue8m0x4":  # most scales near one: others leave the range of the result
            array[N // 4 :] = rng.integers(120, 136, (N - N // 4, 4)).astype(np.uint8).view(np.uint32)[:, 0]
    registers = [f"%{'h' if name == 'e2m1x4' else 'r'}{n + 1}" for n, name in enumerate(sources)]
    loads = "".join(f"ld.b32 %r{n + 1}, [%rd{10 + n}]; cvt.u16.u32 %h{n + 1}, %r{n + 1};" for n in range(len(sources)))
    lines = f"{loads} {form} %r0, {', '.join(registers)}; st.b32 [%rd9], %r0;"
    got = kernel(device, lines, *arrays, out=np.uint32, target=target, version="9.4")
    for n in range(0, N, 4):
        expected = 0
        for k in range(4):
            x = [number(name, int(array[n]), k) for name, array in zip(sources, arrays, strict=True)]
            value = x[0] if op in ("add", "sub") else product(x[0], x[1])
            if op != "mul":
                value = total(value, negated(x[-1]) if op == "sub" else x[-1])
            expected |= encoded(value, types[0], "satfinite" in words) << 8 * k
        assert got[n] == expected, (n, hex(got[n]), hex(expected), [hex(a[n]) for a in arrays])


@pytest.mark.parametrize("source", ["f32", "bf16x2"])
@pytest.mark.parametrize("mods", ["rn.satfinite", "rn.satfinite.relu"])
def test_scale_divides_before_the_conversion_to_fixed_point(device: Device, source: str, mods: str) -> None:
    rng = np.random.default_rng(4)
    high, low = ((rng.standard_normal(N) * 2.0 ** rng.integers(-8, 8, N)).astype(np.float32) for _ in range(2))
    high[:4], low[:4] = [np.nan, np.inf, 1e38, -0.0], [-np.inf, 1e-40, -1e38, 1.0]
    scales = rng.integers(0, 2**16, N).astype(np.uint16)
    scales[4 : N // 2] = rng.integers(118, 136, (N // 2 - 4, 2)).astype(np.uint8).view(np.uint16)[:, 0]
    scales[-4:] = [0x0000, 0xFFFF, 0xFE00, 0x00FE]
    arrays, load, given = [high, low], "ld.f32 %f0, [%rd10]; ld.f32 %f1, [%rd11]; ld.b16 %h1, [%rd12];", "%f0, %f1"
    if source == "bf16x2":
        arrays = [low.view(np.uint32) >> 16 | high.view(np.uint32) & 0xFFFF0000]
        high, low = (arrays[0] & 0xFFFF0000).view(np.float32), (arrays[0] << 16).view(np.float32)
        load, given = "ld.b32 %r1, [%rd10]; ld.b16 %h1, [%rd11];", "%r1"
    lines = f"{load} cvt.{mods}.scaled::n2::ue8m0.s2f6x2.{source} %h0, {given}, %h1; st.b16 [%rd9], %h0;"
    got = kernel(device, lines, *arrays, scales, out=np.uint16, target="sm_103a")

    def one(value: np.float32, scale: int) -> int:
        if np.isnan(value) or scale == 255:
            return 0x7F
        v = float(value) / 2.0 ** (scale - 127)
        if "relu" in mods:
            v = max(v, 0.0)
        return int(np.clip(np.rint(np.clip(v, -1e6, 1e6) * 64), -128, 127)) & 0xFF

    for n in range(N):
        assert got[n] == one(low[n], int(scales[n]) & 255) | one(high[n], int(scales[n]) >> 8) << 8, n


@pytest.mark.parametrize("layout", ["v0", "v1"])
def test_conditional_phase_of_a_barrier_is_the_primary_one(device: Device, layout: str) -> None:
    """Only operations of an NVLink fabric make reports."""
    lines = f"""mbarrier.init.layout::{layout}.shared::cta.b64 [bar], 1;
      mbarrier.test_wait.parity.phase_type::conditional.shared::cta.b64 %p0, [bar], 0;
      selp.u32 %r1, 1, 0, %p0;
      mbarrier.arrive.shared::cta.b64 %rd2, [bar];
      mbarrier.try_wait.parity.phase_type::conditional.relaxed.cluster.shared::cta.b64 %p0, [bar], 0, 1000;
      selp.u32 %r2, 2, 0, %p0; or.b32 %r1, %r1, %r2;
      mov.b16 %h1, 0x0505; mov.b16 {{%b1, %b2}}, %h1; setp.eq.u32 %p1, %r0, %r0;
      mbarrier.test_wait.phase_type::primary.shared::cta.b64 %p2|%p1, %b1, [bar], %rd2;
      selp.u32 %r2, 4, 0, %p2; or.b32 %r1, %r1, %r2; selp.u32 %r2, 8, 0, %p1; or.b32 %r1, %r1, %r2;
      mov.b16 %h1, {{%b1, %b2}}; cvt.u32.u16 %r2, %h1; shl.b32 %r2, %r2, 16; or.b32 %r1, %r1, %r2;
      mbarrier.try_wait.parity.phase_type::primary.acquire.cta.shared::cta.b64 %p2, %b2, [bar], 0, 100;
      selp.u32 %r2, 16, 0, %p2; or.b32 %r1, %r1, %r2; st.u32 [%rd9], %r1;"""
    got = kernel(
        device,
        lines,
        out=np.uint32,
        threads=1,
        target="sm_90",
        version="9.3",
        declarations=".shared .align 8 .b64 bar;",
    )
    assert got[0] == 0x05000000 | 2 | 4 | 16


@pytest.mark.parametrize("count", [1, 2, 4])
def test_matrices_of_signed_4_bit_integers(device: Device, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUCORE_CPU_ARCH", "9.0")
    rows = np.random.default_rng(6).integers(0, 256, (32, 8)).astype(np.uint8)
    registers = ", ".join(f"%r{n + 2}" for n in range(count))
    stores = "".join(f"st.u32 [%rd9+{128 * n}], %r{n + 2};" for n in range(count))
    lines = f"""mov.u32 %r1, tile; mad.lo.u32 %r1, %r0, 8, %r1; ld.u64 %rd2, [%rd10]; st.shared.u64 [%r1], %rd2; bar.sync 0;
      setp.ge.u32 %p0, %r0, 32; @%p0 bra DONE;
      ldmatrix.sync.aligned.m8n16.x{count}.shared.s8.s4 {{{registers}}}, [%r1]; {stores} DONE:"""
    got = kernel(
        device, lines, np.tile(rows.view(np.uint64)[:, 0], 4), out=np.uint32, threads=128, target="sm_90a", version="9.4",
        declarations=".shared .align 16 .b8 tile[1024];",
    )  # fmt: skip
    nibbles = np.stack([rows & 15, rows >> 4], axis=2).reshape(32, 16).astype(np.int8)
    elements = np.where(nibbles > 7, nibbles - 16, nibbles).astype(np.int8)
    for n in range(count):
        expected = elements[8 * n : 8 * n + 8].reshape(32, 4).copy().view(np.uint32)[:, 0]
        assert np.array_equal(got[32 * n : 32 * n + 32], expected)


def test_read_only_loads(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUCORE_CPU_ARCH", "9.0")
    values = np.arange(N, dtype=np.uint64) * 0x1234567890ABCDEF
    lines = """ld.proxy::readonly.global.v2.b32 {%r1, %r2}, [%rd10]; ld.proxy::readonly.nc.global.u8 %r3, [%rd10]; ld.proxy::readonly.u64 %rd3, [%rd10];
      mov.b64 %rd2, {%r1, %r2}; xor.b64 %rd2, %rd2, %rd3; cvt.u64.u32 %rd3, %r3; or.b64 %rd2, %rd2, %rd3; st.u64 [%rd9], %rd2;"""
    got = kernel(device, lines, values, out=np.uint64, target="sm_90", version="9.4")
    assert np.array_equal(got, values & 0xFF)


def test_memory_of_a_block_from_the_driver_has_no_bytes(device: Device) -> None:
    """%perctamemorysize is 0 where a driver gives no such memory."""
    text = b""".version 9.4
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out) .minperctamemory 2048 .maxntid 32 {
  .reg .b64 %rd<4>; .reg .b32 %r<4>;
  ld.param.u64 %rd1, [out]; mov.u32 %r1, %perctamemorysize; mov.u64 %rd2, %perctamemoryoffset; cvt.u32.u64 %r2, %rd2;
  st.global.v2.u32 [%rd1], {%r1, %r2}; ret;
}
"""
    module = device.load(text)
    memory = device.memory(np.full(2, 7, np.uint32))
    device.launch(device.function(module, "k"), 1, 1, [memory.address])
    device.sync()
    assert memory.read(np.dtype(np.uint32), 2).tolist() == [0, 0]
    memory.free()
    device.unload(module)
    with pytest.raises(DriverError) as error:
        device.unload(device.load(text.replace(b".minperctamemory 2048", b"")))
    assert "%perctamemorysize needs the directive .minperctamemory" in error.value.log


@pytest.mark.parametrize("order", ["", ".weak", ".relaxed.gpu", ".relaxed.sys", ".relaxed.cluster", ".relaxed.cta"])
def test_bulk_copies_with_an_order(device: Device, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUCORE_CPU_ARCH", "10.0")
    typed = ".b128" if order.startswith(".relaxed") else ""
    reduced = order if order.startswith(".relaxed") else ""
    scope = order if order in ("", ".weak", ".relaxed.cluster", ".relaxed.cta") else ".relaxed.cluster"
    near = ".b128" if scope.startswith(".relaxed") else ""
    data = np.arange(16, dtype=np.uint32)
    lines = f"""mbarrier.init.shared::cta.b64 [bar], 1; mbarrier.arrive.expect_tx.shared::cta.b64 %rd2, [bar], 128;
      cp.async.bulk{order}.shared::cta.global.mbarrier::complete_tx::bytes{typed} [tile], [%rd10], 64, [bar];
      cp.async.bulk{scope}.shared::cluster.shared::cta.mbarrier::complete_tx::bytes{near} [tile+64], [tile], 64, [bar];
      WAIT: mbarrier.try_wait.shared::cta.b64 %p0, [bar], %rd2; @!%p0 bra WAIT;
      fence.proxy.async.shared::cta;
      cp.async.bulk{order}.global.shared::cta.bulk_group{typed} [%rd9], [tile+64], 64;
      cp.reduce.async.bulk{reduced}.global.shared::cta.bulk_group.add.u32 [%rd9], [tile], 32;
      mov.u16 %h1, 0x000f; cp.async.bulk{order}.global.shared::cta.bulk_group.cp_mask{typed} [%rd9+32], [tile], 16, %h1;
      cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""
    got = run_once(device, lines, data)
    expected = data.copy()
    expected[:8] *= 2
    expected[8] = 0
    assert np.array_equal(got, expected)


def run_once(device: Device, lines: str, data: np.ndarray) -> np.ndarray:
    """One thread with %rd10 the data and %rd9 a result of the same size."""
    text = f""".version 9.3
.target sm_100
.address_size 64
.shared .align 128 .b8 tile[128]; .shared .align 8 .b64 bar;
.visible .entry k(.param .u64 out, .param .u64 in) {{
  .reg .b16 %h<4>; .reg .b64 %rd<16>; .reg .pred %p<4>;
  ld.param.u64 %rd9, [out]; ld.param.u64 %rd10, [in]; {lines} ret;
}}
"""
    module = device.load(text.encode())
    result, given = device.memory(np.zeros_like(data)), device.memory(data)
    device.launch(device.function(module, "k"), 1, 1, [result.address, given.address])
    device.sync()
    values = result.read(data.dtype, data.size)
    result.free()
    given.free()
    device.unload(module)
    return values


REFUSED = [
    ("sm_90a", "9.2", "clmad.lo.u64 %rd1, %rd2, %rd3, %rd4;", "needs .version 9.3"),
    ("sm_100a", "9.4", "mbarrier.test_wait.phase_type::conditional.shared.b64 %p1, [%r1], %rd1;", "needs .parity"),
    ("sm_100a", "9.4", "mbarrier.test_wait.phase_type::primary.shared.b64 %p1|%p2, %r2, [%r1], %rd1;", "of type .b8"),
    ("sm_100a", "9.4", "mbarrier.test_wait.phase_type::primary.shared.b64 %p1, %b2, %b3, [%r1], %rd1;", "expected p {, report}"),
    ("sm_100f", "9.4", "add.e4m3x4.e4m3x4 %r1, %r2, %r3;", "needs .target sm_100a"),
    ("sm_110a", "9.4", "add.e4m3x4.e4m3x4 %r1, %r2, %r3;", "needs .target sm_100a"),
    ("sm_120a", "9.4", "fma.rn.e4m3x4.e4m3x4.e4m3x4 %r1, %r2, %r3, %r4;", "needs .target sm_100a"),
    ("sm_90", "9.4", "ldmatrix.sync.aligned.m8n16.x1.shared.s8.s4 {%r1}, [%r2];", "needs .target sm_90a"),
    ("sm_100a", "9.4", "ld.proxy::readonly.shared.b32 %r1, [%r2];", "does not take '.shared'"),
    ("sm_100a", "9.4", "ld.relaxed.gpu.proxy::readonly.global.b32 %r1, [%rd2];", "does not take"),
    ("sm_100a", "9.4", "cp.async.bulk.relaxed.gpu.global.shared::cta.bulk_group [%rd1], [%r1], 16;", "takes a scope and '.b128'"),
    ("sm_100a", "9.4", "cp.async.bulk.weak.global.shared::cta.bulk_group.b128 [%rd1], [%r1], 16;", "takes neither"),
    ("sm_90", "9.4", "multimem.st.async.release.gpu.global.u32 [%rd1], %r1;", "needs .target sm_100"),
    ("sm_100a", "9.4", "multimem.red.async.release.gpu.global.min.u32 [%rd1], %r1;", "does not take"),
    ("sm_100a", "9.2", "add.sat.u32 %r1, %r2, %r3;", "needs .target sm_120"),
    ("sm_100a", "9.4", "cvt.rn.pzo.f16.f32 %h1, %f1;", "needs .target sm_107"),
    ("sm_100a", "9.4", "set.lt.u8x4 %r1, %r2, %r3;", "needs .target sm_107"),
    ("sm_100a", "9.4", "spcompress.b32 %r1, %r2;", "needs .target sm_107"),
]  # fmt: skip


@pytest.mark.parametrize(("target", "version", "line", "words"), REFUSED)
def test_form_that_ptxas_refuses_is_an_error(
    device: Device, target: str, version: str, line: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUCORE_CPU_ARCH", CAPABILITY[target])
    with pytest.raises(DriverError) as error:
        kernel(device, line, out=np.uint32, target=target, version=version)
    assert error.value.code == 218 and words in error.value.log, error.value.log
