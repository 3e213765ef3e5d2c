# SPDX-License-Identifier: Apache-2.0
"""mma with .kind::f8f6f4, .kind::mxf8f6f4, .kind::mxf4 and .kind::mxf4nvf4, and the matrix loads and stores of bytes. No GPU that has
them was asked: the expected values come from the reference here, written from the text of the PTX manual."""

from __future__ import annotations

import numpy as np
import pytest
from ptxsuite.device import Device, DriverError
from ptxsuite.threads import kernel

pytestmark = pytest.mark.cpu_only

FORMATS = {"e4m3": (4, 3), "e5m2": (5, 2), "e3m2": (3, 2), "e2m3": (2, 3), "e2m1": (2, 1)}
LANES = np.arange(32)


@pytest.fixture(scope="module")
def device() -> Device:
    return Device()


@pytest.fixture(autouse=True)
def _arch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUCORE_CPU_ARCH", "12.0")


def value(code: int, name: str) -> float:
    """The number of a code: sign, exponent, mantissa. e4m3 has one NaN, e5m2 is IEEE, the others are finite."""
    exponent_bits, mantissa_bits = FORMATS[name]
    sign = -1.0 if code >> (exponent_bits + mantissa_bits) & 1 else 1.0
    exponent, mantissa = code >> mantissa_bits & (1 << exponent_bits) - 1, code & (1 << mantissa_bits) - 1
    if name == "e4m3" and exponent == 15 and mantissa == 7:
        return np.nan
    if name == "e5m2" and exponent == 31:
        return np.nan if mantissa else sign * np.inf
    bias = 2 ** (exponent_bits - 1) - 1
    if exponent == 0:
        return sign * mantissa * 2.0 ** (1 - bias - mantissa_bits)
    return sign * (1 + mantissa / 2**mantissa_bits) * 2.0 ** (exponent - bias)


def scale(byte: int, kind: str) -> float:
    if kind == "ue4m3":
        return value(byte & 0x7F, "e4m3")
    return np.nan if byte == 255 else 2.0 ** (byte - 127)


def fragment(matrix: np.ndarray, bits: int) -> np.ndarray:
    """The registers of each lane for a matrix of codes with 16 rows (a) or 8 rows (b, transposed): row g and, of a, row g + 8;
    four lanes share a row, with 32 bits each."""
    rows, columns = matrix.shape
    per = 32 // bits
    words = []
    for part in range(columns // (4 * per)):
        for half in range(rows // 8):
            row = matrix[LANES // 4 + 8 * half]
            at = (LANES % 4 * per + part * 4 * per)[:, None] + np.arange(per)
            codes = np.take_along_axis(row, at, axis=1).astype(np.uint64)
            words.append((codes << (np.arange(per, dtype=np.uint64) * np.uint64(bits))).sum(axis=1).astype(np.uint32))
    return np.stack(words, axis=1)


def accumulators(matrix: np.ndarray) -> np.ndarray:
    """c0, c1 of row g, c2, c3 of row g + 8."""
    return np.stack([matrix[LANES // 4 + 8 * (i // 2), LANES % 4 * 2 + i % 2] for i in range(4)], axis=1)


def codes(rng: np.random.Generator, shape: tuple[int, int], name: str) -> np.ndarray:
    """Codes of finite numbers whose products are summed exactly in f32."""
    found = [
        c for c in range(2 ** (sum(FORMATS[name]) + 1)) if 2**-4 <= abs(value(c, name)) <= 4 or value(c, name) == 0
    ]
    return rng.choice(found, shape)


def run(
    device: Device,
    opcode: str,
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
    tail: str,
    extra: list[np.ndarray],
    half: bool,
) -> np.ndarray:
    """One product by one warp. a and b: registers of each lane; extra: one register of each lane for each array."""
    na, nb, nc = a.shape[1], b.shape[1], c.shape[1]
    lane_words = np.concatenate([a, b, c, *(e[:, None] for e in extra)], axis=1).astype(np.uint32)
    data = np.ascontiguousarray(lane_words).view(np.dtype((np.void, 4 * lane_words.shape[1])))[:, 0]
    loads = "".join(f"ld.b32 %r{1 + n}, [%rd10+{4 * n}];\n" for n in range(lane_words.shape[1]))
    registers = [f"%r{1 + n}" for n in range(lane_words.shape[1])]
    ra, rb, rc = registers[:na], registers[na : na + nb], registers[na + nb : na + nb + nc]
    more = registers[na + nb + nc :]
    out = [f"%r{30 + n}" for n in range(nc)] if half else [f"%f{n}" for n in range(nc)]
    accumulator = rc
    if not half:
        loads += "".join(f"mov.b32 %f{8 + n}, {r};" for n, r in enumerate(rc))
        accumulator = [f"%f{8 + n}" for n in range(nc)]
    for n, register in enumerate(more):
        tail = tail.replace(f"${n}", register)
    line = f"{opcode} {{{', '.join(out)}}}, {{{', '.join(ra)}}}, {{{', '.join(rb)}}}, {{{', '.join(accumulator)}}}{tail};\n"
    stores = "".join(f"st.b32 [%rd9+{4 * n}], {r};" for n, r in enumerate(out))
    got = kernel(
        device,
        loads + line + stores,
        data,
        out=np.dtype((np.void, 4 * nc)),
        threads=32,
        target="sm_120a",
        version="9.1",
    )
    return np.frombuffer(got.tobytes(), np.float16 if half else np.float32).reshape(32, -1)


def in_bytes(matrix: np.ndarray, name: str) -> np.ndarray:
    """Elements of 4 bits are in the middle of a byte, those of 6 bits at its lower end. The other bits have no meaning."""
    noise = np.random.default_rng(1).integers(0, 256, matrix.shape)
    if name == "e2m1":
        return (matrix << 2 & 0x3C) | (noise & 0xC3)
    return matrix if name in ("e4m3", "e5m2") else matrix | (noise & 0xC0)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("b_type", FORMATS)
@pytest.mark.parametrize("a_type", FORMATS)
def test_product_of_small_formats(device: Device, a_type: str, b_type: str, half: bool) -> None:
    rng = np.random.default_rng(7)
    a, b = codes(rng, (16, 32), a_type), codes(rng, (8, 32), b_type)
    c = rng.integers(-8, 8, (16, 8)).astype(np.float16 if half else np.float32)
    numbers_a = np.array([[value(x, a_type) for x in row] for row in a])
    numbers_b = np.array([[value(x, b_type) for x in row] for row in b])
    expected = (numbers_a @ numbers_b.T + c).astype(c.dtype)
    words = accumulators(c)
    given = np.ascontiguousarray(words).view(np.uint32).reshape(32, -1)
    kind = "f16" if half else "f32"
    opcode = f"mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.{kind}.{a_type}.{b_type}.{kind}"
    got = run(device, opcode, fragment(in_bytes(a, a_type), 8), fragment(in_bytes(b, b_type), 8), given, "", [], half)
    assert np.array_equal(got, accumulators(expected))


SCALED = [
    ("mxf8f6f4", "", "ue8m0", 1), ("mxf8f6f4", ".scale_vec::1X", "ue8m0", 1), ("mxf4", "", "ue8m0", 2),
    ("mxf4", ".scale_vec::2X", "ue8m0", 2), ("mxf4nvf4", ".scale_vec::2X", "ue8m0", 2),
    ("mxf4nvf4", ".scale_vec::4X", "ue8m0", 4), ("mxf4nvf4", ".scale_vec::4X", "ue4m3", 4),
]  # fmt: skip


def sparse_columns(rng: np.random.Generator, k: int, pairs: bool) -> tuple[np.ndarray, np.ndarray]:
    """Which columns of a (16 rows) are stored, and the metadata of each lane: two indices of two bits for each four columns
    (of elements, or of pairs of them). Lanes 4 r and 4 r + 1 have rows r and r + 8, the next two lanes the upper half of k."""
    unit = 2 if pairs else 1
    stored = np.zeros((16, k // 2), np.int64)
    metadata = np.zeros(32, np.uint32)
    for row in range(16):
        for group in range(k // (4 * unit)):
            low, high = sorted(rng.choice(4, 2, replace=False))
            first = group * 2 * unit
            for n, index in enumerate((low, high)):
                for e in range(unit):
                    stored[row, first + n * unit + e] = group * 4 * unit + index * unit + e
            lane = row % 8 * 4 + group // 8 * 2 + row // 8
            metadata[lane] |= np.uint32((int(low) | int(high) << 2) << group % 8 * 4)
    return stored, metadata


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("selector", [0, 1])
@pytest.mark.parametrize(("kind", "words", "scale_type", "count"), SCALED)
def test_block_scaled_product(
    device: Device, kind: str, words: str, scale_type: str, count: int, selector: int, sparse: bool
) -> None:
    rng = np.random.default_rng(11 + selector)
    a_type, b_type = ("e3m2", "e2m1") if kind == "mxf8f6f4" else ("e2m1", "e2m1")
    bits = 8 if kind == "mxf8f6f4" else 4
    k = (32 if bits == 8 else 64) * (2 if sparse else 1)
    a, b = codes(rng, (16, k // 2 if sparse else k), a_type), codes(rng, (8, k), b_type)
    c = rng.integers(-8, 8, (16, 8)).astype(np.float32)
    # Every lane has four random scales; the selectors choose lanes and bytes.
    low, high = (124, 130) if scale_type == "ue8m0" else (0x30, 0x48)
    scales_a, scales_b = (rng.integers(low, high, (32, 4)).astype(np.uint8) for _ in range(2))
    byte_a, byte_b = {1: (3, 1), 2: (2, 0), 4: (0, 0)}[count] if selector else (0, 0)
    thread_a, thread_b = (1, 2) if selector else (0, 0)
    numbers_a = np.zeros((16, k))
    tail, extra = "", []
    if sparse:
        stored, metadata = sparse_columns(rng, k, bits == 4)
        for row in range(16):
            numbers_a[row, stored[row]] = [value(x, a_type) for x in a[row]]
        tail, extra = ", $0, 0", [metadata]
    else:
        numbers_a[:] = [[value(x, a_type) for x in row] for row in a]
    numbers_b = np.array([[value(x, b_type) for x in row] for row in b])
    for column in range(k):
        chunk = column * count // k
        for row in range(16):
            lane = row % 8 * 4 + thread_a * 2 + row // 8
            numbers_a[row, column] *= scale(int(scales_a[lane, byte_a + chunk]), scale_type)
        for row in range(8):
            numbers_b[row, column] *= scale(int(scales_b[row * 4 + thread_b, byte_b + chunk]), scale_type)
    expected = (numbers_a @ numbers_b.T + c).astype(np.float32)
    first = len(extra)
    extra += [scales_a.view(np.uint32)[:, 0], scales_b.view(np.uint32)[:, 0]]
    tail += f", ${first}, {{{byte_a}, {thread_a}}}, ${first + 1}, {{{byte_b}, {thread_b}}}"
    packed_a = in_bytes(a, a_type) if bits == 8 else a
    packed_b = in_bytes(b, b_type) if bits == 8 else b
    op = "mma.sp::ordered_metadata" if sparse else "mma"
    opcode = (
        f"{op}.sync.aligned.m16n8k{k}.row.col.kind::{kind}.block_scale{words}.f32.{a_type}.{b_type}.f32.{scale_type}"
    )
    given = np.ascontiguousarray(accumulators(c)).view(np.uint32)
    got = run(device, opcode, fragment(packed_a, bits), fragment(packed_b, bits), given, tail, extra, False)
    assert np.array_equal(got, accumulators(expected))


def test_special_values_of_factors_and_scales(device: Device) -> None:
    a, b = np.full((16, 32), 0x38), np.full((8, 32), 0x3C)  # 1.0 of e4m3, 1.0 of e5m2
    a[1, 5], b[2, 7], b[3, 9], b[4, 9] = 0x7F, 0x7C, 0x7D, 0xFC  # NaN; infinity, NaN, -infinity
    scales = np.full((32, 4), 127, np.uint8)
    scales[4 * 2] = 255  # the scale of row 2 is a NaN
    scales[4 * 3] = 0  # 2^-127
    word = scales.view(np.uint32)[:, 0]
    ones = np.full(32, 0x7F7F7F7F, np.uint32)
    opcode = "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e5m2.f32.ue8m0"
    zero = np.zeros((32, 4), np.uint32)
    got = run(device, opcode, fragment(a, 8), fragment(b, 8), zero, ", $0, {0, 0}, $1, {0, 0}", [word, ones], False)
    result = np.zeros((16, 8))
    for lane in range(32):
        for i in range(4):
            result[lane // 4 + 8 * (i // 2), lane % 4 * 2 + i % 2] = got[lane, i]
    assert result[0, 0] == 32 and result[0, 2] == np.inf and result[0, 4] == -np.inf and np.isnan(result[0, 3])
    assert np.isnan(result[1]).all() and np.isnan(result[2]).all() and result[3, 0] == 2.0**-122


@pytest.mark.parametrize(
    ("tail", "words"),
    [
        ("{0, 2}, %r6, {0, 0}", "0 or 1"),
        ("{1, 0}, %r6, {0, 0}", "0 or 2"),
        ("{0, 0}, %r6, {0, 4}", "0 to 3"),
        ("{0, 0}, %r6", "takes scale-a"),
    ],
)
def test_wrong_selector_is_an_error(device: Device, tail: str, words: str) -> None:
    line = (
        "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 "
        f"{{%f0, %f1, %f2, %f3}}, {{%r1, %r2, %r3, %r4}}, {{%r1, %r2}}, {{%f0, %f1, %f2, %f3}}, %r5, {tail};"
    )
    with pytest.raises(DriverError) as error:
        kernel(device, line, out=np.uint32, threads=32, target="sm_120a")
    assert words in error.value.log, error.value.log


REFUSED = [
    ("sm_120", "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32", "needs .target sm_120a"),
    ("sm_120f", "mma.sp::ordered_metadata.sync.aligned.m16n8k128.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0",
     "needs .target sm_120a"),
]  # fmt: skip


@pytest.mark.parametrize(("target", "opcode", "words"), REFUSED)
def test_target_that_ptxas_refuses_is_an_error(device: Device, target: str, opcode: str, words: str) -> None:
    operands = "{%f0, %f1, %f2, %f3}, {%r1, %r2, %r3, %r4}, {%r1, %r2}, {%f0, %f1, %f2, %f3}"
    with pytest.raises(DriverError) as error:
        kernel(device, f"{opcode} {operands};", out=np.uint32, threads=32, target=target)
    assert words in error.value.log, error.value.log


def matrix_load(device: Device, opcode: str, count: int, shared: np.ndarray, addresses: np.ndarray) -> np.ndarray:
    """Each lane's registers after a load from shared memory, which holds the 16-byte rows of `shared`."""
    rows = np.ascontiguousarray(shared).view(np.dtype((np.void, 16)))[:, 0]
    copies = "".join(f"ld.b64 %rd20, [%rd10+{8 * n}]; st.shared.b64 [%r2+{8 * n}], %rd20;\n" for n in range(2))
    registers = [f"%r{10 + n}" for n in range(count)]
    lines = f"""
      .shared .align 16 .b8 room[1024];
      mov.u32 %r1, room; mad.lo.u32 %r2, %t0, 16, %r1;
      {copies} bar.sync 0;
      ld.b32 %r3, [%rd11]; add.u32 %r3, %r3, %r1;
      {opcode} {{{", ".join(registers)}}}, [%r3];
      {"".join(f"st.b32 [%rd9+{4 * n}], {r};" for n, r in enumerate(registers))}"""
    got = kernel(
        device,
        lines,
        rows,
        addresses.astype(np.uint32),
        out=np.dtype((np.void, 4 * count)),
        threads=32,
        target="sm_120a",
    )
    return np.frombuffer(got.tobytes(), np.uint8).reshape(32, count, 4)


def packed_rows(elements: np.ndarray, bits: int) -> np.ndarray:
    """16 elements of 4, 6 or 8 bits in each row of 16 bytes; the rest is padding."""
    rows = np.random.default_rng(5).integers(0, 256, (len(elements), 16)).astype(np.uint8)
    for row, given in zip(rows, elements, strict=True):
        number = sum(int(x) << bits * n for n, x in enumerate(given))
        row[: 2 * bits] = np.frombuffer(number.to_bytes(2 * bits, "little"), np.uint8)
    return rows


@pytest.mark.parametrize("bits", [6, 4])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_load_of_8x16_matrices(device: Device, any_width: str, bits: int, count: int) -> None:
    elements = np.random.default_rng(3).integers(0, 2**bits, (32, 16))
    order = np.random.default_rng(4).permutation(32)
    source = "b6x16_p32" if bits == 6 else "b4x16_p64"
    opcode = f"ldmatrix.sync.aligned.m8n16.x{count}.shared.b8x16.{source}"
    got = matrix_load(device, opcode, count, packed_rows(elements, bits), order * 16)
    for lane in range(32):
        for n in range(count):
            row = elements[order[8 * n + lane // 4]]
            assert got[lane, n].tolist() == row[lane % 4 * 4 : lane % 4 * 4 + 4].tolist()


@pytest.mark.parametrize("bits", [8, 6, 4])
@pytest.mark.parametrize("count", [1, 2])
def test_load_of_16x16_matrices_transposed(device: Device, any_width: str, bits: int, count: int) -> None:
    elements = np.random.default_rng(3).integers(0, 2**bits, (32, 16))
    order = np.random.default_rng(4).permutation(32)
    kind = {8: "b8", 6: "b8x16.b6x16_p32", 4: "b8x16.b4x16_p64"}[bits]
    opcode = f"ldmatrix.sync.aligned.m16n16.x{count}.trans.shared::cta.{kind}"
    got = matrix_load(device, opcode, 2 * count, packed_rows(elements, bits), order * 16)
    for n in range(count):
        transposed = elements[order[16 * n : 16 * n + 16]].T
        for lane in range(32):
            for half in range(2):
                row = transposed[lane // 4 + 8 * half]
                assert got[lane, 2 * n + half].tolist() == row[lane % 4 * 4 : lane % 4 * 4 + 4].tolist()


@pytest.mark.parametrize("count", [1, 2, 4])
def test_store_of_16x8_matrices_transposed(device: Device, any_width: str, count: int) -> None:
    words = np.random.default_rng(6).integers(0, 2**32, (32, 4)).astype(np.uint32)
    data = words.view(np.dtype((np.void, 16)))[:, 0]
    lines = f"""
      .shared .align 16 .b8 room[512];
      mov.u32 %r1, room; mad.lo.u32 %r2, %t0, 16, %r1;
      mov.b64 %rd20, 0; st.shared.b64 [%r2], %rd20; st.shared.b64 [%r2+8], %rd20; bar.sync 0;
      {"".join(f"ld.b32 %r{10 + n}, [%rd10+{4 * n}];" for n in range(count))}
      stmatrix.sync.aligned.m16n8.x{count}.trans.shared.b8 [%r2], {{{", ".join(f"%r{10 + n}" for n in range(count))}}};
      bar.sync 0; ld.shared.b64 %rd20, [%r2]; ld.shared.b64 %rd21, [%r2+8]; st.b64 [%rd9], %rd20; st.b64 [%rd9+8], %rd21;"""
    got = kernel(device, lines, data, out=np.dtype((np.void, 16)), threads=32, target="sm_120a")
    memory = np.frombuffer(got.tobytes(), np.uint8).reshape(32, 16)
    expected = np.zeros((32, 16), np.uint8)
    for n in range(count):
        for lane in range(32):
            for e in range(
                4
            ):  # two neighbours of rows lane / 4 and lane / 4 + 8 of a 16x8 matrix, which is stored by columns
                row, column = lane // 4 + 8 * (e // 2), lane % 4 * 2 + e % 2
                expected[8 * n + column, row] = words[lane, n] >> (8 * e) & 255
    assert np.array_equal(memory, expected)
