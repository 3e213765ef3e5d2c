# SPDX-License-Identifier: Apache-2.0
"""tcgen05.mma in all its forms against products in NumPy. No GPU with tensor memory was asked: layouts come from the model in
ptxsuite/tensor_memory.py. Elements are such that every sum is exact."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from ptxsuite.device import DriverError
from ptxsuite.program import device
from ptxsuite.tensor_memory import (
    CODES,
    FLOATS,
    SPAN,
    Matrix,
    cells_of,
    commit,
    fault_report,
    kernel,
    per_chunk,
    place,
    run,
    value_of,
)

pytestmark = pytest.mark.cpu_only

RNG = np.random.default_rng(11)
DEPTH = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32, "mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}
A_AT, SCALE_A_AT, SCALE_B_AT, METADATA_AT = 256, 272, 288, 304  # columns of tensor memory; d is at 0
NIBBLES = (0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b0110, 0b1110)


@pytest.fixture(autouse=True)
def _arch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUCORE_CPU_ARCH", "10.0")  # read at each load


def codes_of(name: str, shape: tuple[int, int]) -> np.ndarray:
    """Codes of zero and of numbers from 1/4 to 8 in size, so that sums of products are exact in f32."""
    if name in ("u8", "s8"):
        return RNG.integers(0, 256, shape).astype(np.uint32)
    if name in ("f16", "bf16", "tf32"):
        values = (RNG.integers(-16, 17, shape) / 4).astype(np.float32)
        if name == "f16":
            return values.astype(np.float16).view(np.uint16).astype(np.uint32)
        bits = values.view(np.uint32)
        return bits >> np.uint32(16) if name == "bf16" else bits | RNG.integers(0, 2**13, shape).astype(np.uint32)
    bits = FLOATS["e2m1" if name == "fp4" else name][0]
    usable = [c for c in range(2**bits) if value_of(name, c) == 0 or 0.25 <= abs(value_of(name, c)) <= 8]
    return RNG.choice(np.array(usable, np.uint32), shape)


def values(name: str, codes: np.ndarray) -> np.ndarray:
    table = {int(code): value_of(name, int(code)) for code in np.unique(codes)}
    return np.vectorize(table.__getitem__, otypes=[np.float64])(codes)


@dataclass
class Case:
    kind: str
    rows: int
    columns: int
    a: str
    b: str
    d: str = "f32"
    ctas: int = 1
    ws: bool = False
    sparse: bool = False
    tensor_a: bool = False
    swizzle: tuple[str, str] = ("128B", "128B")
    mn_major: tuple[bool, bool] = (False, False)
    negate: tuple[bool, bool] = (False, False)
    add: bool = True
    scale_d: int = 0
    ashift: bool = False
    saturate: bool = False
    disabled: bool = False
    selector: int = 0
    scales: str = ""  #: words after .block_scale
    factors: int = 0
    ue8m0: bool = True
    ids: tuple[int, int] = (0, 0)
    zero_columns: int = 0
    collector: str = ""
    target: str = "sm_100a"
    long: bool = False  #: K = 96
    skip: int = 0  #: rows in shared memory start at this byte of 128 and continue elsewhere

    def check(self) -> None:
        rows, columns = self.rows, self.columns
        depth = 96 if self.long else DEPTH[self.kind] * (2 if self.sparse else 1)
        stored = depth // 2 if self.sparse else depth
        shift = self.zero_columns >> 56 & 63
        self.a_codes = codes_of(self.a, (rows, stored))
        b_codes = codes_of(self.b, (columns + shift, depth))
        image = self.shared(self.a_codes, b_codes)
        before = RNG.integers(0, 2**32, (self.ctas, 128, 512), np.uint32)
        initial = RNG.integers(-99, 100, (rows, columns)).astype(np.float64)
        if self.saturate:
            initial = RNG.choice(np.array([2**31 - 1, -(2**31)], np.float64), (rows, columns))
        self.write_d(before, initial)
        left = self.dense_a(before, self.a_codes, depth)
        right = values(self.b, b_codes)[shift : shift + columns]
        right[self.zeroed()] = 0
        if self.factors:
            left, right = self.scale(before, left, right, depth)
        left, right = (-m if negative else m for m, negative in zip((left, right), self.negate, strict=True))
        expected = left @ right.T + (initial * 2.0**-self.scale_d if self.add else 0)
        if self.saturate:
            expected = np.clip(expected, -(2.0**31), 2.0**31 - 1)
        words = RNG.integers(0, 2**32, 4 * self.ctas, np.uint32) if self.disabled else np.zeros(8, np.uint32)
        after = run(
            kernel(self.lines(words), 512, self.ctas, self.target),
            before,
            image,
            a=self.matrices[0].descriptor,
            b=self.matrices[1].descriptor,
            z=self.zero_columns,
            i=self.instruction(),
        )
        self.write_d(before, expected, words)
        wrong = np.argwhere(after != before)
        assert not len(wrong), (
            len(wrong),
            wrong[:5],
            [(hex(after[tuple(w)]), hex(before[tuple(w)])) for w in wrong[:5]],
        )

    def shared(self, a_codes: np.ndarray, b_codes: np.ndarray) -> np.ndarray:
        """Shared memory of the blocks: the rows of a and the columns of b are divided among them."""
        parts = []
        for cta in range(self.ctas):
            own_a = np.split(a_codes, self.ctas)[cta]
            rest = 128 * max(own_a.shape[0], 256) if self.skip else 0
            left = Matrix(self.a, own_a, self.swizzle[0], self.mn_major[0], skip=self.skip, rest=rest)
            start = -(-left.bytes // 1024) * 1024
            own_b = np.split(b_codes, self.ctas)[cta]
            right = Matrix(self.b, own_b, self.swizzle[1], self.mn_major[1], start, skip=self.skip, rest=rest)
            part = RNG.integers(0, 256, -(-(start + right.bytes) // 16) * 16).astype(np.uint8)
            left.write(part)
            right.write(part)
            self.matrices = (left, right)
            parts.append(part)
        return np.stack(parts)

    def write_d(self, cells: np.ndarray, matrix: np.ndarray, disabled: np.ndarray | None = None) -> None:
        if self.d == "f32":
            words = matrix.astype(np.float32).view(np.uint32)
        elif self.d == "f16":
            words = matrix.astype(np.float16).view(np.uint16).astype(np.uint32)
        else:
            words = (matrix.astype(np.int64) & 0xFFFFFFFF).astype(np.uint32)
        for m in range(self.rows):
            for n in range(self.columns):
                cta, lane, column = place(m, n, self.rows, self.columns, self.ctas, self.ws, self.sparse)
                if disabled is None or not int(disabled[4 * cta + lane // 32]) >> lane % 32 & 1:
                    cells[cta, lane, column] = words[m, n]

    def lane(self, m: int) -> tuple[int, list[int]]:
        """The block and the lanes of row m of a and of metadata: one copy in each part of the lanes that computes the row."""
        own = self.rows // self.ctas
        cta, first, _ = place(m, 0, self.rows, self.columns, self.ctas, self.ws, self.sparse)
        folded = own < 128 and (self.ws or (self.ctas == 2 and not self.sparse))
        return cta, [first + own * part for part in range(128 // own if folded else 1)]

    def dense_a(self, cells: np.ndarray, codes: np.ndarray, depth: int) -> np.ndarray:
        """The matrix that is multiplied: read from tensor memory, shifted, expanded by metadata."""
        if self.tensor_a:
            for m in range(self.rows):
                cta, lanes = self.lane(m)
                for lane in lanes:
                    cells[cta, lane, A_AT : A_AT + (12 if self.long else 8)] = cells_of(self.a, codes[m])
        known = values(self.a, codes)
        if self.ashift:
            own = self.rows // self.ctas
            known = np.concatenate([np.roll(part, 1, axis=0) for part in np.split(known, self.ctas)])
            for cta in range(self.ctas):
                known[cta * own] = values(self.a, codes[cta * own : cta * own + 1])
        if not self.sparse:
            return known
        made = np.zeros((self.rows, depth))
        words = self.kind in ("f16", "tf32")
        per = {"tf32": 1, "mxf4": 4, "mxf4nvf4": 4}.get(self.kind, 2)
        for m in range(self.rows):
            for group in range(known.shape[1] // per):
                nibble = int(RNG.choice([0b1110, 0b0100] if self.kind == "tf32" else NIBBLES))
                places = [nibble & 3, nibble >> 2]
                if self.kind == "tf32":
                    made[m, 2 * group + (nibble == 0b1110)] = known[m, group]
                elif per == 4:
                    for e in range(4):
                        made[m, 8 * group + 2 * places[e // 2] + e % 2] = known[m, 4 * group + e]
                else:
                    for e in range(2):
                        made[m, 4 * group + places[e]] = known[m, 2 * group + e]
                if words:  # 16 bits of this row, 16 of the row eight on; the second half of k is eight lanes on
                    row = m // 16 * 16 + m % 8 + 8 * (group // 4)
                    bit, column = 16 * (m // 8 % 2) + 4 * (group % 4), METADATA_AT + self.selector
                else:
                    row, bit, column = m, 4 * (group % 8), METADATA_AT + group // 8
                cta, lanes = self.lane(row)
                for lane in lanes:
                    word = int(cells[cta, lane, column]) & ~(15 << bit) | nibble << bit
                    cells[cta, lane, column] = word
        return made

    def scale(
        self, cells: np.ndarray, left: np.ndarray, right: np.ndarray, depth: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Multiplies both matrices by scale factors, which it writes to tensor memory."""
        usable = range(124, 131) if self.ue8m0 else [c for c in range(127) if 0.25 <= value_of("e4m3", c) <= 4]
        codes = [RNG.choice(np.array(usable), (size, self.factors)) for size in (self.rows, self.columns)]
        own = self.rows // self.ctas
        for matrix, (code, at, number) in enumerate(zip(codes, (SCALE_A_AT, SCALE_B_AT), self.ids, strict=True)):
            for r in range(code.shape[0]):
                blocks, row, copies = (
                    ([r // own], r % own, range(4)) if matrix == 0 else (range(self.ctas), r, range(4))
                )
                if matrix == 1 and self.ctas == 2 and own == 64:  # halves of n are in halves of the lanes
                    row, half = r % (self.columns // 2), r // (self.columns // 2)
                    copies = range(2 * half, 2 * half + 2)
                for cta in blocks:
                    for copy in copies:
                        for s in range(self.factors):
                            # The fifth byte and those after it are in a further set of columns.
                            size = own if matrix == 0 else self.columns // (2 if len(copies) == 2 else 1)
                            further = (number + s) // 4 * (4 if size <= 128 else 8)
                            cell, bit = (cta, 32 * copy + row % 32, at + further + row // 32), 8 * ((number + s) % 4)
                            cells[cell] = int(cells[cell]) & ~(255 << bit) | int(code[r, s]) << bit
        numbers = [2.0 ** (c - 127.0) if self.ue8m0 else values("e4m3", c) for c in codes]
        return tuple(
            m * np.repeat(s, depth // self.factors, axis=1) for m, s in zip((left, right), numbers, strict=True)
        )

    def zeroed(self) -> np.ndarray:
        """The columns of b that count as zero (.ws): runs of used columns and of zeros take turns."""
        mask = np.zeros(self.columns, bool)
        bits = self.zero_columns
        if not bits >> 39 & 1:
            return mask
        parts = 128 // self.rows
        width = self.columns // parts
        for part in range(parts):
            first = bits >> (32 + part) & 1
            runs = [first] * ((bits >> 40 & 255) + 1 if first else (bits >> 48 & 255) + 1)
            runs += [1 - first] * ((bits >> 48 & 255) + 1 if first else (bits >> 40 & 255) + 1)
            runs = (runs * 300)[bits >> (8 * part) & 255 :]
            mask[part * width : (part + 1) * width] = np.array(runs[:width], bool)
        return mask

    def instruction(self) -> int:
        mx = self.kind.startswith("mx")
        made = self.sparse << 2 | CODES[self.a] << 7 | CODES[self.b] << 10 | self.negate[0] << 13 | self.negate[1] << 14
        made |= self.mn_major[0] << 15 | self.mn_major[1] << 16 | (self.columns >> 3) << 17
        if mx:
            made |= self.ids[1] << 4 | self.ue8m0 << 23 | (self.rows >> 7) << 27 | self.ids[0] << 29
            return made | self.long << 31
        return (
            made
            | self.selector
            | self.saturate << 3
            | {"f16": 0, "f32": 1, "s32": 2}[self.d] << 4
            | (self.rows >> 4) << 24
        )

    def lines(self, disabled: np.ndarray) -> str:
        words = ".".join(
            [
                "mma",
                *(["ws"] if self.ws else []),
                *(["sp"] if self.sparse else []),
                f"cta_group::{self.ctas}",
                f"kind::{self.kind}",
            ]
        )
        words += (
            (f".block_scale{self.scales}" if self.factors else "") + (".ashift" if self.ashift else "") + self.collector
        )
        operands = ["[%d]", "[%r20]" if self.tensor_a else "%a", "%b", *(["[%r23]"] if self.sparse else []), "%i"]
        operands += ["[%r21]", "[%r22]"] if self.factors else []
        if self.disabled:
            operands.append("{" + ", ".join(str(int(w)) for w in disabled) + "}")
        operands.append("%p4" if self.add else "%p5")
        operands += [str(self.scale_d)] if self.scale_d else ["%z"] if self.zero_columns else []
        at = (("r20", A_AT), ("r21", SCALE_A_AT), ("r22", SCALE_B_AT), ("r23", METADATA_AT))
        adds = " ".join(f"add.u32 %{name}, %d, {column};" for name, column in at)
        if self.skip:  # leading dimensions that are addresses count from the start of shared memory
            adds += " cvt.u64.u32 %rd0, %base; shl.b64 %rd0, %rd0, 12; add.u64 %a, %a, %rd0; add.u64 %b, %b, %rd0;"
        return f"{adds} tcgen05.{words} {', '.join(operands)}; {commit(self.ctas)}"


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
