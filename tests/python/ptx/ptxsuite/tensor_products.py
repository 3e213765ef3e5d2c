# SPDX-License-Identifier: Apache-2.0
"""A product of tcgen05.mma: its operands in shared and tensor memory, and its result by NumPy. Elements are such that every sum is exact."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .tensor_memory import CODES, FLOATS, Matrix, cells_of, commit, kernel, place, run, value_of

RNG = np.random.default_rng(11)
DEPTH = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32, "mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}
A_AT, SCALE_A_AT, SCALE_B_AT, METADATA_AT = 256, 272, 288, 304  # columns of tensor memory; d is at 0
NIBBLES = (0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b0110, 0b1110)


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

    def data(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Tensor memory before and after, shared memory, and the masks of lanes that are not written."""
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
        after = before.copy()
        self.write_d(after, expected, words)
        return before, after, image, words

    def check(self) -> None:
        before, expected, image, words = self.data()
        after = run(
            kernel(self.lines(words), 512, self.ctas, self.target),
            before,
            image,
            a=self.matrices[0].descriptor,
            b=self.matrices[1].descriptor,
            z=self.zero_columns,
            i=self.instruction(),
        )
        wrong = np.argwhere(after != expected)
        assert not len(wrong), (
            len(wrong),
            wrong[:5],
            [(hex(after[tuple(w)]), hex(expected[tuple(w)])) for w in wrong[:5]],
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
