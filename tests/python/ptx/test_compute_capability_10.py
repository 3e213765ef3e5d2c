# SPDX-License-Identifier: Apache-2.0
"""Instructions of compute capability 10.0 and later. No such GPU was asked: the expected values come from references written here
from the text of the PTX manual and from the host code of the CUDA headers' documentation of the small formats."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest
from ptxsuite.device import Device, DriverError

pytestmark = pytest.mark.cpu_only

N = 1024
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


def kernel(
    device: Device, lines: str, *arrays: np.ndarray, out: np.dtype, threads: int = N, target: str = "sm_100a"
) -> np.ndarray:
    """Runs one thread per element: %rd10, %rd11, ... point to this thread's elements of the arrays, %rd9 to its result."""
    out = np.dtype(out)
    sizes = [out.itemsize, *(array.dtype.itemsize for array in arrays)]
    params = ", ".join(f".param .u64 p{n}" for n in range(len(sizes)))
    loads = "".join(
        f"ld.param.u64 %rd1, [p{n}]; mad.wide.u32 %rd{9 + n}, %r0, {size}, %rd1;\n" for n, size in enumerate(sizes)
    )
    text = f""".version 9.1
.target {target}
.address_size 64
.visible .entry k({params}) {{
  .reg .b8 %b<8>; .reg .b16 %h<8>; .reg .b32 %r<24>; .reg .f32 %f<24>; .reg .b64 %rd<40>; .reg .pred %p<4>;
  .reg .b32 %t<4>;
  mov.u32 %t0, %tid.x; mov.u32 %t1, %ctaid.x; mov.u32 %t2, %ntid.x; mad.lo.u32 %r0, %t1, %t2, %t0;
  {loads}
  {lines}
  ret;
}}
"""
    module = device.load(text.encode())
    function = ctypes.c_void_p()
    device.call("cuModuleGetFunction", ctypes.byref(function), module, b"k")
    addresses = []
    result = np.zeros(threads, out)
    for array in (result, *arrays):
        pointer = ctypes.c_uint64()
        device.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(array.nbytes))
        device.call("cuMemcpyHtoD_v2", pointer, array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(array.nbytes))
        addresses.append(pointer)
    values = (ctypes.c_void_p * len(addresses))(*(ctypes.addressof(a) for a in addresses))
    block = min(threads, 128)
    device.call("cuLaunchKernel", function, threads // block, 1, 1, block, 1, 1, 0, None, values, None)
    device.call("cuCtxSynchronize")
    device.call("cuMemcpyDtoH_v2", result.ctypes.data_as(ctypes.c_void_p), addresses[0], ctypes.c_size_t(result.nbytes))
    for pointer in addresses:
        device.call("cuMemFree_v2", pointer)
    device.call("cuModuleUnload", module)
    return result


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
    ("sm_100a", "tcgen05.wait::ld.sync.aligned;", "the CPU device does not support 'tcgen05'"),
]  # fmt: skip


@pytest.mark.parametrize(("target", "line", "words"), REFUSED)
def test_form_that_ptxas_refuses_is_an_error(device: Device, target: str, line: str, words: str) -> None:
    with pytest.raises(DriverError) as error:
        kernel(device, line, out=np.uint32, target=target)
    assert error.value.code == 218 and words in error.value.log, error.value.log
