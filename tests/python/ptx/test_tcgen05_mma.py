# SPDX-License-Identifier: Apache-2.0
"""tcgen05.mma in all its forms against products in NumPy. No GPU with tensor memory was asked: layouts come from the model in
ptxsuite/tensor_memory.py. Elements are such that every sum is exact."""

from __future__ import annotations

import numpy as np
import pytest
from ptxsuite.device import DriverError
from ptxsuite.program import device
from ptxsuite.tensor_memory import SPAN, fault_report, kernel, per_chunk, run
from ptxsuite.tensor_products import RNG, Case

pytestmark = pytest.mark.cpu_only


@pytest.fixture(autouse=True)
def _arch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUCORE_CPU_ARCH", "10.0")  # read at each load


SMALL = ["e4m3", "e5m2", "e2m3", "e3m2", "e2m1"]


@pytest.mark.parametrize("rows", [64, 128])
@pytest.mark.parametrize(
    ("kind", "a", "b", "d"),
    [("f16", "f16", "f16", "f32"), ("f16", "f16", "f16", "f16"), ("f16", "bf16", "bf16", "f32"), ("f16", "f16", "bf16", "f32"),
     ("tf32", "tf32", "tf32", "f32"), ("i8", "s8", "u8", "s32"), ("i8", "u8", "s8", "s32")]
    + [("f8f6f4", a, b, "f32") for a in SMALL for b in SMALL] + [("f8f6f4", "e4m3", "e2m1", "f16")],
)  # fmt: skip
def test_product(kind: str, a: str, b: str, d: str, rows: int) -> None:
    Case(kind, rows, 48, a, b, d).check()
    Case(kind, rows, 16, a, b, d, add=False, tensor_a=True).check()


@pytest.mark.parametrize("columns", [8, 24, 128, 256])
def test_width_of_the_product(columns: int) -> None:
    Case("f16", 128, columns, "f16", "f16").check()


@pytest.mark.parametrize("mn_major", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("swizzle", SPAN)
@pytest.mark.parametrize(("kind", "name"), [("f16", "f16"), ("f8f6f4", "e5m2"), ("i8", "s8"), ("tf32", "tf32")])
def test_layout_of_shared_memory(kind: str, name: str, swizzle: str, mn_major: tuple[bool, bool]) -> None:
    if any(mn_major) and (swizzle == "128B.32B") != (name == "tf32"):
        pytest.skip("the manual has no such combination")
    d = "s32" if kind == "i8" else "f32"
    Case(kind, 128, 64, name, name, d, swizzle=(swizzle, swizzle), mn_major=mn_major).check()
    Case(
        kind, 64, 128, name, name, d, swizzle=("128B.32B" if name == "tf32" else "128B", swizzle), mn_major=mn_major
    ).check()


def test_modifiers() -> None:
    Case("f16", 128, 32, "f16", "f16", negate=(True, False)).check()
    Case("tf32", 64, 32, "tf32", "tf32", negate=(False, True)).check()
    Case("f8f6f4", 64, 32, "e4m3", "e4m3", negate=(True, True)).check()
    Case("f16", 128, 32, "f16", "f16", scale_d=3).check()
    Case("tf32", 128, 32, "tf32", "tf32", scale_d=1, disabled=True).check()
    Case("f16", 64, 32, "f16", "f16", disabled=True).check()
    Case("f16", 128, 32, "f16", "f16", tensor_a=True, ashift=True).check()
    Case("i8", 128, 32, "s8", "s8", "s32", saturate=True).check()
    Case("f16", 128, 32, "f16", "f16", collector=".collector::a::fill").check()
    Case("f16", 128, 32, "f16", "f16", collector=".collector::a::lastuse", target="sm_100f").check()


@pytest.mark.parametrize("tensor_a", [False, True])
@pytest.mark.parametrize("rows", [128, 256])
@pytest.mark.parametrize(
    ("kind", "name", "d"), [("f16", "f16", "f32"), ("f16", "f16", "f16"), ("tf32", "tf32", "f32"), ("f8f6f4", "e3m2", "f32"), ("i8", "s8", "s32")]
)  # fmt: skip
def test_product_of_a_pair_of_blocks(kind: str, name: str, d: str, rows: int, tensor_a: bool) -> None:
    Case(kind, rows, 64, name, name, d, ctas=2, tensor_a=tensor_a, disabled=kind == "f16").check()
    Case(kind, rows, 128, name, name, d, ctas=2, tensor_a=tensor_a, mn_major=(False, kind != "tf32")).check()


@pytest.mark.parametrize("tensor_a", [False, True])
@pytest.mark.parametrize("rows", [32, 64, 128])
@pytest.mark.parametrize(
    ("kind", "name", "d"), [("f16", "bf16", "f32"), ("tf32", "tf32", "f32"), ("f8f6f4", "e4m3", "f16"), ("i8", "u8", "s32")]
)  # fmt: skip
def test_weight_stationary_product(kind: str, name: str, d: str, rows: int, tensor_a: bool) -> None:
    Case(kind, rows, 64, name, name, d, ws=True, tensor_a=tensor_a, collector=".collector::b2::fill").check()
    if kind != "i8":
        used, zero, shift = 3, 2, 2
        mask = 1 << 39 | zero << 40 | used << 48 | shift << 56 | 0b0011 << 32 | 1 << 8 | 2 << 16 | 1 << 24
        Case(kind, rows, 128, name, name, d, ws=True, tensor_a=tensor_a, zero_columns=mask).check()


SPARSE = [
    ("f16", "f16", "f32"),
    ("f16", "bf16", "f32"),
    ("tf32", "tf32", "f32"),
    ("f8f6f4", "e4m3", "f32"),
    ("i8", "s8", "s32"),
]


@pytest.mark.parametrize("tensor_a", [False, True])
@pytest.mark.parametrize(
    ("ctas", "ws", "rows"),
    [(1, False, 64), (1, False, 128), (2, False, 128), (2, False, 256), (1, True, 32), (1, True, 64)],
)
@pytest.mark.parametrize(("kind", "name", "d"), SPARSE)
def test_sparse_product(kind: str, name: str, d: str, ctas: int, ws: bool, rows: int, tensor_a: bool) -> None:
    selector = 1 if kind in ("f16", "tf32") else 0
    Case(kind, rows, 64, name, name, d, ctas, ws, sparse=True, tensor_a=tensor_a, selector=selector).check()


SCALED = [
    ("mxf8f6f4", "e4m3", "e5m2", ".scale_vec::1X", 1, True, (1, 3)), ("mxf8f6f4", "e2m1", "e3m2", ".block32", 1, True, (2, 0)),
    ("mxf8f6f4", "e2m3", "e2m1", "", 1, True, (0, 1)), ("mxf4", "fp4", "fp4", "", 2, True, (0, 2)), ("mxf4", "fp4", "fp4", ".block32", 2, True, (2, 0)),
    ("mxf4nvf4", "fp4", "fp4", ".scale_vec::2X", 2, True, (0, 0)), ("mxf4nvf4", "fp4", "fp4", ".block16", 4, False, (0, 0)),
    ("mxf4nvf4", "fp4", "fp4", ".scale_vec::4X", 4, True, (0, 0)),
]  # fmt: skip


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("ctas", "rows"), [(1, 128), (2, 128), (2, 256)])
@pytest.mark.parametrize(
    ("kind", "a", "b", "scales", "factors", "ue8m0", "ids"), SCALED, ids=[s[0] + s[3] for s in SCALED]
)
def test_product_with_block_scaling(
    kind: str,
    a: str,
    b: str,
    scales: str,
    factors: int,
    ue8m0: bool,
    ids: tuple[int, int],
    ctas: int,
    rows: int,
    sparse: bool,
) -> None:
    if sparse and (ctas, rows) == (2, 128):
        pytest.skip("the manual has no such shape")
    common = {"ctas": ctas, "sparse": sparse, "scales": scales, "factors": factors, "ue8m0": ue8m0, "ids": ids}
    Case(kind, rows, 96, a, b, **common).check()
    Case(kind, rows, 128, a, b, **common, tensor_a=True, negate=(True, False), collector=".collector::a::use").check()


LONG = [
    ("mxf4", ".block32", 3, True, (0, 0)), ("mxf4", "", 3, True, (1, 3)), ("mxf4nvf4", ".block32", 3, True, (2, 1)),
    ("mxf4nvf4", ".block16", 6, False, (0, 2)), ("mxf4nvf4", ".block16", 6, True, (2, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "scales", "factors", "ue8m0", "ids"), LONG, ids=[s[0] + s[1] for s in LONG])
@pytest.mark.parametrize(("ctas", "rows"), [(1, 128), (2, 128), (2, 256)])
def test_product_with_96_elements_along_k(
    monkeypatch: pytest.MonkeyPatch, kind: str, scales: str, factors: int, ue8m0: bool, ids: tuple[int, int],
    ctas: int, rows: int,
) -> None:  # fmt: skip
    monkeypatch.setenv("CUCORE_CPU_ARCH", "10.3")
    common = {
        "ctas": ctas,
        "scales": scales,
        "factors": factors,
        "ue8m0": ue8m0,
        "ids": ids,
        "long": True,
        "target": "sm_103a",
    }
    Case(kind, rows, 96, "fp4", "fp4", **common).check()
    Case(kind, rows, 64, "fp4", "fp4", **common, swizzle=("none", "none")).check()
    Case(kind, rows, 256, "fp4", "fp4", **common, tensor_a=True, negate=(False, True)).check()


@pytest.mark.parametrize("skip", [48, 80, 96, 112])
def test_rows_of_48_bytes_continue_at_an_absolute_address(monkeypatch: pytest.MonkeyPatch, skip: int) -> None:
    monkeypatch.setenv("CUCORE_CPU_ARCH", "10.3")
    common = {"scales": ".block16", "factors": 6, "ue8m0": False, "long": True, "target": "sm_103a"}
    Case("mxf4nvf4", 128, 96, "fp4", "fp4", **common, skip=skip).check()


def test_96_elements_along_k_are_a_fault_before_sm_103a() -> None:
    case = Case("mxf4", 128, 64, "fp4", "fp4", factors=3, long=True)
    with pytest.raises(DriverError) as error:
        run(
            kernel(case.lines(np.zeros(4))),
            np.zeros((1, 128, 512), np.uint32),
            np.zeros((1, 8192), np.uint8),
            i=case.instruction(),
        )
    assert "K = 96 (bit 31), which only sm_103a has" in fault_report()
    assert error.value.code == 715


def test_absolute_leading_dimension_is_a_fault_with_other_lengths_of_k() -> None:
    case = Case("f16", 128, 64, "f16", "f16")
    with pytest.raises(DriverError):
        run(
            kernel(case.lines(np.zeros(4))),
            np.zeros((1, 128, 512), np.uint32),
            np.zeros((1, 65536), np.uint8),
            a=2 << 61 | 1 << 52,
            b=2 << 61,
            i=case.instruction(),
        )
    assert "which only K = 96 takes" in fault_report()


def test_sums_of_random_numbers_are_close() -> None:
    """Rounding: f32 at every step of a sum over k."""
    a, b = (RNG.standard_normal((128, 16)).astype(np.float16) for _ in range(2))
    case = Case("f16", 128, 128, "f16", "f16")
    image = case.shared(a.view(np.uint16).astype(np.uint32), b.view(np.uint16).astype(np.uint32))
    before = np.zeros((1, 128, 512), np.uint32)
    before[0, :, :128] = RNG.standard_normal((128, 128)).astype(np.float32).view(np.uint32)
    after = run(
        kernel(case.lines(np.zeros(4))), before, image,
        a=case.matrices[0].descriptor, b=case.matrices[1].descriptor, i=case.instruction(),
    )  # fmt: skip
    exact = a.astype(np.float64) @ b.astype(np.float64).T + before[0, :, :128].view(np.float32)
    assert np.abs(after[0, :, :128].view(np.float32) - exact).max() < 1e-5


def test_infinities_and_nans() -> None:
    """A zero of a sparse a multiplies nothing; NaNs are canonical."""
    case = Case("f16", 128, 16, "f16", "f16", add=False)
    a = np.zeros((128, 16), np.uint32)
    a[:, 0], a[1, 1], a[2, 1] = 0x3C00, 0x7C00, 0xFE01
    b = np.zeros((16, 16), np.uint32)
    b[:, :2], b[3, 1] = 0x3C00, 0xBC00
    image = case.shared(a, b)
    after = run(
        kernel(case.lines(np.zeros(4))), np.zeros((1, 128, 512), np.uint32), image,
        a=case.matrices[0].descriptor, b=case.matrices[1].descriptor, i=case.instruction(),
    )[0, :3, :16]  # fmt: skip
    assert set(after[0].tolist()) == {0x3F800000}
    assert after[1].tolist() == [0xFF800000 if n == 3 else 0x7F800000 for n in range(16)]
    assert set(after[2].tolist()) == {0x7FFFFFFF}


WRONG = [
    ({"rows": 96}, "the shape M = 96"), ({"columns": 264}, "N = 264"), ({"d": "s32"}, "type 2 for d"), ({"a": "tf32"}, "element type 2"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "words"), WRONG, ids=[w[1] for w in WRONG])
def test_wrong_instruction_descriptor_is_a_fault(change: dict[str, object], words: str) -> None:
    case = Case(**{"kind": "f16", "rows": 128, "columns": 64, "a": "f16", "b": "f16", **change})  # type: ignore[arg-type]
    with pytest.raises(DriverError) as error:
        run(
            kernel(case.lines(np.zeros(4))),
            np.zeros((1, 128, 512), np.uint32),
            np.zeros((1, 8192), np.uint8),
            i=case.instruction(),
        )
    assert words in fault_report()
    assert error.value.code == 715


REFUSED = [
    ("sm_100a", "tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, %p1, 16;", "from 0 to 15"),
    ("sm_110a", "tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, %p1, 3;", "scale d"),
    ("sm_100a", "tcgen05.mma.cta_group::1.kind::f8f6f4 [%r1], %rd1, %rd2, %r2, %p1, 2;", "scale d"),
    ("sm_103a", "tcgen05.mma.cta_group::1.kind::i8 [%r1], %rd1, %rd2, %r2, %p1;", "needs .target sm_100a or sm_110a"),
    ("sm_100f", "tcgen05.mma.cta_group::1.kind::i8 [%r1], %rd1, %rd2, %r2, %p1;", "needs .target sm_100a or sm_110a"),
    ("sm_100a", "tcgen05.mma.cta_group::2.kind::tf32 [%r1], [%r7], %rd2, %r2, {%r3,%r4,%r5,%r6}, %p1;", "expected 8 words"),
    ("sm_100a", "tcgen05.mma.cta_group::1.kind::tf32.ashift [%r1], %rd1, %rd2, %r2, %p1;", "'.ashift' is for a in tensor memory"),
    ("sm_100a", "tcgen05.mma.cta_group::1.kind::tf32.ashift.collector::a::use [%r1], [%r7], %rd2, %r2, %p1;", "'.ashift' is for"),
    ("sm_100a", "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::2X [%r1], %rd1, %rd2, %r2, [%r3], [%r4], %p1;", "does not have"),
    ("sm_100a", "tcgen05.mma.cta_group::1.kind::mxf4.block_scale.block16 [%r1], %rd1, %rd2, %r2, [%r3], [%r4], %p1;", "does not have"),
    ("sm_100a", "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale [%r1], %rd1, %rd2, %r2, [%r3], [%r4], %p1;", "needs '.block16'"),
    ("sm_100f", "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X [%r1], %rd1, %rd2, %r2, [%r3], [%r4], %p1;", "needs .target"),
    ("sm_100f", "tcgen05.mma.sp.cta_group::1.kind::mxf4.block_scale.block32 [%r1], [%r7], %rd2, [%r7], %r2, [%r3], [%r4], %p1;", "needs .target"),
    ("sm_100a", "tcgen05.mma.cta_group::1.kind::mxf8f6f4 [%r1], %rd1, %rd2, %r2, [%r3], [%r4], %p1;", "needs .block_scale"),
    ("sm_100a", "tcgen05.mma.cta_group::1.kind::f16.block_scale [%r1], %rd1, %rd2, %r2, [%r3], [%r4], %p1;", "does not take"),
    ("sm_100a", "tcgen05.mma.ws.cta_group::2.kind::f16 [%r1], %rd1, %rd2, %r2, %p1;", "does not take"),
    ("sm_100a", "tcgen05.mma.ws.cta_group::1.kind::f16.collector::a::use [%r1], %rd1, %rd2, %r2, %p1;", "does not take"),
    ("sm_100a", "tcgen05.mma.ws.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, {%r3,%r4,%r5,%r6}, %p1;", "expected the predicate"),
    ("sm_100a", "tcgen05.mma.sp.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, %p1;", "in brackets"),
]  # fmt: skip


@pytest.mark.parametrize(("target", "line", "words"), REFUSED, ids=[str(n) for n in range(len(REFUSED))])
def test_form_that_ptxas_refuses_is_an_error(
    monkeypatch: pytest.MonkeyPatch, target: str, line: str, words: str
) -> None:
    monkeypatch.setenv("CUCORE_CPU_ARCH", {"sm_103a": "10.3", "sm_110a": "11.0"}.get(target, "10.0"))
    head = f".version 9.1\n.target {target}\n.address_size 64\n.visible .entry k() {{ .reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p<2>;"
    with pytest.raises(DriverError) as error:
        device().load(f"{head} {line} ret; }}".encode())
    assert error.value.code == 218 and words in error.value.log, error.value.log


def test_elements_of_the_model_fill_chunks() -> None:
    assert {name: per_chunk(name) for name in ("f16", "tf32", "e2m1", "fp4")} == {
        "f16": 8,
        "tf32": 4,
        "e2m1": 16,
        "fp4": 32,
    }
