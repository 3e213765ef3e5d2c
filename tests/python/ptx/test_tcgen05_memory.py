# SPDX-License-Identifier: Apache-2.0
"""Tensor memory: allocation, loads, stores, copies from shared memory, shifts. No GPU with tensor memory was asked: the expected values
come from the model in ptxsuite/tensor_memory.py."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from ptxsuite.device import DriverError
from ptxsuite.program import device
from ptxsuite.tensor_memory import SPAN, SWIZZLES, Matrix, commit, fault_report, fragment, kernel, run

pytestmark = pytest.mark.cpu_only

RNG = np.random.default_rng(7)
COLUMNS = 256
NOTHING = np.zeros((1, 16), np.uint8)
SHAPES = {"32x32b": (1, 128), "16x64b": (1, 128), "16x128b": (2, 64), "16x256b": (4, 32), "16x32bx2": (1, 128)}


@pytest.fixture(autouse=True)
def _arch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUCORE_CPU_ARCH", "10.0")  # read at each load


def cells(columns: int = COLUMNS, ctas: int = 1) -> np.ndarray:
    return RNG.integers(0, 2**32, (ctas, 128, columns), np.uint32)


def counts(shape: str, packed: bool) -> list[int]:
    """The repetitions for which all columns fit the test's tensor memory."""
    most = SHAPES[shape][1]
    found = [n for n in (1, 2, 4, 8, 16, 32, 64, 128) if n <= most]
    columns = {"16x64b": 2, "16x128b": 4, "16x256b": 8}.get(shape, 2)
    return [n for n in found if n * columns * (2 if packed else 1) <= 512]


@pytest.mark.parametrize("packed", [False, True], ids=["words", "halves"])
@pytest.mark.parametrize("shape", SHAPES)
def test_load_and_store_of_every_shape(shape: str, packed: bool) -> None:
    """What one shape loads, 32x32b stores as rows of registers; the reverse for stores."""
    for times in counts(shape, packed):
        per = SHAPES[shape][0]
        registers = times * per
        names = ", ".join(f"%v{n}" for n in range(registers))
        split = times * (2 if packed else 1) + 3 if shape == "16x32bx2" else 0
        if shape == "16x32bx2" and split + times * (2 if packed else 1) > 256:
            continue
        extra, between = (f", {split}", f"{split}, ") if split else ("", "")
        declare = f".reg .b32 %v<{max(registers, 2)}>;"
        high = "" if shape == "32x32b" else "add.u32 %lane, %lane, 0x100000;"
        load = f"""{declare} {high}
          tcgen05.ld.sync.aligned.{shape}.x{times}{".pack::16b" if packed else ""}.b32 {{{names}}}, [%lane]{extra};
          tcgen05.wait::ld.sync.aligned; bar.sync 0;
          {high.replace("add", "sub")}
          tcgen05.st.sync.aligned.32x32b.x{registers}.b32 [%lane+256], {{{names}}}; tcgen05.wait::st.sync.aligned;"""
        store = f"""{declare}
          tcgen05.ld.sync.aligned.32x32b.x{registers}.b32 {{{names}}}, [%lane+256]; tcgen05.wait::ld.sync.aligned; {high}
          tcgen05.st.sync.aligned.{shape}.x{times}{".unpack::16b" if packed else ""}.b32 [%lane], {between}{{{names}}};
          tcgen05.wait::st.sync.aligned; {high.replace("add", "sub")}"""
        before = cells(512)
        first = 0 if shape == "32x32b" else 16
        each = 2 if packed else 1
        loaded, stored = before.copy(), before.copy()
        for thread in range(128):
            warp = thread // 32 * 32
            for register in range(registers):
                lane, column = fragment(shape, thread % 32, register, 0)
                column = column * each + (split if thread % 32 >= 16 else 0)
                lane += warp + first
                if packed:
                    low, high_half = before[0, lane, column] & 0xFFFF, before[0, lane, column + 1] & 0xFFFF
                    loaded[0, thread, 256 + register] = low | high_half << np.uint32(16)
                    stored[0, lane, column] = before[0, thread, 256 + register] & 0xFFFF
                    stored[0, lane, column + 1] = before[0, thread, 256 + register] >> np.uint32(16)
                else:
                    loaded[0, thread, 256 + register] = before[0, lane, column]
                    stored[0, lane, column] = before[0, thread, 256 + register]
        if max(fragment(shape, 31, registers - 1)[1] * each + split, 0) < 256:
            assert np.array_equal(run(kernel(load, 512, leader=False), before, NOTHING), loaded), (shape, times)
            assert np.array_equal(run(kernel(store, 512, leader=False), before, NOTHING), stored), (shape, times)


@pytest.mark.parametrize(
    ("op", "type_", "mods"),
    [("min", "u32", ""), ("max", "s32", ""), ("min", "f32", ""), ("max", "f32", ".NaN"), ("max", "f32", ".abs"), ("min", "f32", ".abs.NaN")],
)  # fmt: skip
@pytest.mark.parametrize("shape", ["32x32b", "16x32bx2"])
def test_load_with_a_reduction(monkeypatch: pytest.MonkeyPatch, shape: str, op: str, type_: str, mods: str) -> None:
    monkeypatch.setenv("CUCORE_CPU_ARCH", "10.3")
    split = ", 64" if shape == "16x32bx2" else ""
    names = ", ".join(f"%v{n}" for n in range(8))
    lines = f""".reg .b32 %v<8>; tcgen05.ld.red.sync.aligned.{shape}.x8.{op}{mods}.{type_} {{{names}}}, %r20, [%lane]{split};
      tcgen05.wait::ld.sync.aligned; tcgen05.st.sync.aligned.32x32b.x1.b32 [%lane+128], {{%r20}}; tcgen05.wait::st.sync.aligned;"""
    before = cells()
    if type_ == "f32":
        before[0, :, :128] = (RNG.standard_normal((128, 128)) * 4).astype(np.float32).view(np.uint32)
        before[0, 3, 2], before[0, 5, :], before[0, 7, 66], before[0, 9, :4] = (
            0x7FC00000,
            0xFFC00000,
            0x7F800001,
            0x80000000,
        )
    after = run(kernel(lines, COLUMNS, target="sm_103a", leader=False), before, NOTHING)
    for thread in range(128):
        lane = thread // 32 * 32 + (thread % 32 if shape == "32x32b" else thread % 16)
        column = 64 if shape == "16x32bx2" and thread % 32 >= 16 else 0
        row = before[0, lane, column : column + 8]
        if type_ == "f32":
            row = row & 0x7FFFFFFF if ".abs" in mods else row
            nan = (row & 0x7FFFFFFF) > 0x7F800000
            keys = [int(v) if v < 2**31 else -(int(v) - 2**31) - 1 for v in row[~nan]]
            if not keys or (".NaN" in mods and nan.any()):
                expected = 0x7FFFFFFF
            else:
                best = min(keys) if op == "min" else max(keys)
                expected = best if best >= 0 else 2**31 - best - 1
        else:
            values = row.view(np.int32) if type_ == "s32" else row
            expected = int(values.min() if op == "min" else values.max()) & 0xFFFFFFFF
        assert after[0, thread, 128] == expected, (thread, row)


# shape, rows, bytes in a row, multicast
COPIES = [
    ("128x256b", 128, 32, ""), ("4x256b", 4, 32, ""), ("128x128b", 128, 16, ""), ("64x128b", 64, 16, ".warpx2::02_13"),
    ("64x128b", 64, 16, ".warpx2::01_23"), ("32x128b", 32, 16, ".warpx4"),
]  # fmt: skip


def lanes_of(shape: str, multicast: str, row: int) -> list[int]:
    if shape == "4x256b":
        return [32 * row]
    if multicast == ".warpx4":
        return [row, row + 32, row + 64, row + 96]
    if multicast == ".warpx2::02_13":  # warps 0 and 2 get the same rows
        return [row, row + 64]
    if multicast == ".warpx2::01_23":
        return [row // 32 * 64 + row % 32, row // 32 * 64 + row % 32 + 32]
    return [row]


@pytest.mark.parametrize("ctas", [1, 2])
@pytest.mark.parametrize("swizzle", SWIZZLES)
@pytest.mark.parametrize(("shape", "rows", "size", "multicast"), COPIES, ids=[c[0] + c[3] for c in COPIES])
def test_copy_from_shared_memory(shape: str, rows: int, size: int, multicast: str, swizzle: str, ctas: int) -> None:
    codes = RNG.integers(0, 256, (ctas, max(rows, 8), size), np.uint8)
    matrices = [Matrix("u8", codes[cta], swizzle, start=1024) for cta in range(ctas)]
    image = RNG.integers(0, 256, (ctas, -(-(1024 + matrices[0].bytes) // 16) * 16), np.uint8)
    for matrix, part in zip(matrices, image, strict=True):
        matrix.write(part)
    before = cells(64, ctas)
    lines = f"add.u32 %r20, %d, 8; tcgen05.cp.cta_group::{ctas}.{shape}{multicast} [%r20], %a; {commit(ctas)}"
    after = run(kernel(lines, 64, ctas), before, image, a=matrices[0].descriptor)
    for cta in range(ctas):
        for row in range(rows):
            for lane in lanes_of(shape, multicast, row):
                before[cta, lane, 8 : 8 + size // 4] = codes[cta, row].view(np.uint32)
    assert np.array_equal(after, before)


@pytest.mark.parametrize(("name", "source"), [("e2m1", "b4x16_p64"), ("e3m2", "b6x16_p32")])
@pytest.mark.parametrize(("shape", "rows", "size", "multicast"), COPIES[1:4], ids=[c[0] for c in COPIES[1:4]])
def test_copy_that_expands_small_elements_to_bytes(
    shape: str, rows: int, size: int, multicast: str, name: str, source: str
) -> None:
    bits = 4 if name == "e2m1" else 6
    matrix = Matrix(name, RNG.integers(0, 2**bits, (max(rows, 8), size), np.uint8), "32B")
    image = np.zeros((1, -(-matrix.bytes // 16) * 16), np.uint8)
    matrix.write(image[0])
    before = cells(64)
    lines = f"tcgen05.cp.cta_group::1.{shape}{multicast}.b8x16.{source} [%d], %a; {commit()}"
    after = run(kernel(lines, 64), before, image, a=matrix.descriptor)
    for row in range(rows):
        for lane in lanes_of(shape, multicast, row):
            before[0, lane, : size // 4] = (
                (matrix.codes[row] << (2 if bits == 4 else 0)).astype(np.uint8).view(np.uint32)
            )
    assert np.array_equal(after, before)


@pytest.mark.parametrize("ctas", [1, 2])
def test_shift_moves_the_rows_of_a_warp_down_by_one(ctas: int) -> None:
    before = cells(64, ctas)
    lines = f"add.u32 %r20, %d, 0x400010; tcgen05.shift.cta_group::{ctas}.down [%r20]; {commit(ctas)}"
    after = run(kernel(lines, 64, ctas), before, np.zeros((ctas, 16), np.uint8))
    before[:, 65:96, 16:24] = before[:, 64:95, 16:24].copy()
    assert np.array_equal(after, before)


ALLOCATE = """.version 9.1
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 columns) {
  .reg .b32 %r<16>; .reg .b64 %rd<4>; .reg .pred %p<4>; .shared .align 4 .b8 words[16];
  ld.param.u64 %rd0, [out]; ld.param.u32 %r8, [columns]; mov.u32 %r0, %tid.x; mov.u32 %r7, words;
  LINES
  ret;
}
"""


def allocate(lines: str, columns: int = 32, threads: int = 64) -> np.ndarray:
    module = device().load(ALLOCATE.replace("LINES", lines).encode())
    out = np.zeros(16, np.uint32)
    memory = device().memory(out)
    try:
        device().launch(device().function(module, "k"), 1, threads, [memory.address, ctypes.c_uint32(columns)])
        device().sync()
        return memory.read(np.dtype(np.uint32), 16)
    finally:
        memory.free()
        device().unload(module)


def test_allocation_waits_until_another_warp_frees_columns() -> None:
    """Warp 0 takes everything and lets go of it after warp 1 has begun to wait; both get column 0."""
    got = allocate("""
      setp.lt.u32 %p0, %r0, 32; @!%p0 bra SECOND;
      tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r7], 512; bar.warp.sync -1;
      ld.shared.u32 %r1, [words]; st.u32 [%rd0], %r1; bar.sync 1, 64;
      nanosleep.u32 100000; mov.u32 %r2, 1; st.u32 [%rd0+8], %r2;
      tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 512; bra END;
      SECOND: bar.sync 1, 64; add.u32 %r7, %r7, 4;
      tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r7], 64; bar.warp.sync -1;
      ld.u32 %r3, [%rd0+8]; st.u32 [%rd0+12], %r3;
      ld.shared.u32 %r1, [words+4]; st.u32 [%rd0+4], %r1;
      tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 64;
      END: mov.u32 %r1, 0;""")  # fmt: skip
    assert got[:4].tolist() == [0, 0, 1, 1]


def test_allocations_do_not_overlap() -> None:
    take = "".join(
        f"""tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r7], {n}; bar.warp.sync -1; ld.shared.u32 %r{9 + k}, [words];
        st.u32 [%rd0+{4 * k}], %r{9 + k}; bar.warp.sync -1;"""
        for k, n in enumerate((32, 128, 64, 256))
    )
    free = "".join(
        f"tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r{9 + k}, {n};" for k, n in enumerate((32, 128, 64, 256))
    )
    got = allocate(take + free, threads=32)
    taken = [range(start, start + n) for start, n in zip(got[:4].tolist(), (32, 128, 64, 256), strict=True)]
    assert len(set().union(*taken)) == 480 and max(max(part) for part in taken) < 512


WRONG = [
    ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r7], %r8;", 48, "32, 64, 128, 256 or 512 columns, not 48"),
    ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r7], %r8;", 1024, "not 1024"),
    ("mov.u32 %r1, 32; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 32;", 0, "tcgen05.alloc did not return"),
    (
        "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r7], 32;",
        0, "after tcgen05.relinquish_alloc_permit",
    ),
    ("mov.u32 %r1, 0; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r2}, [%r1];", 0, "columns 0 to 0 of tensor memory are not allocated"),
    (
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r7], 32; mov.u32 %r1, 0x200000; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r1], {%r2};",
        0, "warp 0 at lane 32 of tensor memory: expected lane 0",
    ),
    ("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r7], 32;", 0, "needs a cluster with an even number of blocks"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "columns", "words"), WRONG, ids=[str(n) for n in range(len(WRONG))])
def test_wrong_use_is_a_fault(lines: str, columns: int, words: str) -> None:
    with pytest.raises(DriverError) as error:
        allocate(lines, columns, threads=32)
    assert words in fault_report()
    assert error.value.code in (700, 715)


REFUSED = [
    ("sm_100", "tcgen05.wait::ld.sync.aligned;", "needs .target sm_100a"),
    ("sm_120a", "tcgen05.wait::ld.sync.aligned;", "needs .target sm_100a"),
    ("sm_90a", "tcgen05.wait::ld.sync.aligned;", "needs .target sm_100"),
    ("sm_100f", "tcgen05.shift.cta_group::1.down [%r1];", "needs .target sm_100a"),
    ("sm_100a", "tcgen05.ld.sync.aligned.32x32b.x1.b32 %r3, [%r1];", "expected 1 registers in braces"),
    ("sm_100a", "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r3, _}, [%r1];", "expected a register"),
    ("sm_100a", "tcgen05.ld.sync.aligned.16x32bx2.x2.b32 {%r3, %r4}, [%r1];", "takes a constant"),
    ("sm_100a", "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r3, %r4}, [%r1], 3;", "only '.16x32bx2'"),
    ("sm_100a", "tcgen05.ld.sync.aligned.16x256b.x64.b32 {%r1, %r2}, [%r1];", "128 registers are the most"),
    ("sm_100a", "tcgen05.ld.red.sync.aligned.32x32b.x2.min.u32 {%r3, %r5}, %r6, [%r1];", "needs .target sm_101"),
    ("sm_103a", "tcgen05.ld.red.sync.aligned.32x32b.x2.min.abs.u32 {%r3, %r5}, %r6, [%r1];", "are for .f32"),
    ("sm_103a", "tcgen05.ld.red.sync.aligned.16x64b.x2.min.u32 {%r3, %r5}, %r6, [%r1];", "does not take '.16x64b'"),
    ("sm_100a", "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 48;", "256 or 512 columns, not 48"),
    ("sm_100a", "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 16;", "256 or 512 columns, not 16"),
    (
        "sm_100a",
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 32; tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;",
        "not both",
    ),
    ("sm_100a", "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cta.b64 [%r1];", "does not take '.shared::cta'"),
    ("sm_100a", "tcgen05.commit.cta_group::1.mbarrier::arrive::one.multicast::cluster.b64 [%rd1];", "belong together"),
    ("sm_100a", "tcgen05.cp.cta_group::1.128x256b.warpx4 [%r1], %rd1;", "other shapes none"),
    ("sm_100a", "tcgen05.cp.cta_group::1.64x128b [%r1], %rd1;", "'.64x128b' takes"),
    ("sm_100a", "tcgen05.cp.cta_group::1.128x128b.b8x16 [%r1], %rd1;", "goes with"),
]  # fmt: skip


@pytest.mark.parametrize(("target", "line", "words"), REFUSED, ids=[str(n) for n in range(len(REFUSED))])
def test_form_that_ptxas_refuses_is_an_error(
    monkeypatch: pytest.MonkeyPatch, target: str, line: str, words: str
) -> None:
    monkeypatch.setenv("CUCORE_CPU_ARCH", {"sm_103a": "10.3", "sm_120a": "12.0", "sm_90a": "9.0"}.get(target, "10.0"))
    with pytest.raises(DriverError) as error:
        device().load(
            f".version 9.1\n.target {target}\n.address_size 64\n.visible .entry k() {{ .reg .b32 %r<8>; .reg .b64 %rd<4>; {line} ret; }}".encode()
        )
    assert error.value.code == 218 and words in error.value.log, error.value.log


def test_every_swizzle_of_the_model_is_a_permutation() -> None:
    for swizzle, mn_major in ((s, m) for s in SPAN for m in (False, True)):
        matrix = Matrix("f16", np.zeros((64, 16), np.uint16), swizzle, mn_major)
        slow, fast = (16, 64) if mn_major else (64, 16)
        places = [matrix.offset(s, f) for s in range(slow) for f in range(0, fast, 8)]
        assert len(set(places)) == len(places)
