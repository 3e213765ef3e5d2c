# SPDX-License-Identifier: Apache-2.0
"""Generates random PTX programs with features that compilers rarely emit (irreducible control flow, predicates, odd register widths).

They have no model: the scalar path is the reference, or a GPU for recorded programs. A program is a list of lines; a line contains all
instructions that belong together (an index and its access), so that the reducer may remove any line without `keep` and the program
still has a defined result: registers are initialized, labels are kept, and loops end when their fuel is used up.
"""

from __future__ import annotations

import dataclasses
import random
import re
from dataclasses import dataclass, field

HEADER = ".version 8.3\n.target sm_90\n.address_size 64\n"
R, L, H, F, D, P = 6, 3, 3, 2, 1, 4  # registers of each kind for the program's values
OUTS = R + L + H + F + D + P
KEEP = "// keep"
ACC = {"add": 0, "xor": 4, "or": 8, "max": 12, "min": 16, "and": 20, "inc": 24}
SHAPES = [
    (32, 1, 1),
    (64, 1, 1),
    (48, 1, 1),
    (96, 1, 1),
    (128, 1, 1),
    (33, 1, 1),
    (7, 1, 1),
    (100, 1, 1),
    (8, 8, 1),
    (5, 7, 1),
    (4, 4, 4),
    (33, 3, 1),
    (16, 1, 1),
    (1, 1, 1),
]
CONSTANTS = (
    0,
    1,
    -1,
    2,
    3,
    5,
    7,
    8,
    15,
    16,
    31,
    32,
    33,
    63,
    64,
    100,
    127,
    128,
    255,
    256,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x10000,
    0x7FFFFFFF,
    -0x80000000,
    0x12345678,
    1640531527,
)


@dataclass
class PtxKernel:
    name: str
    seed: int
    block: tuple[int, int, int]
    grid: tuple[int, int, int]
    n: int
    q: int
    inputs: int
    sizes: tuple[int, int, int]
    lines: list[str] = field(default_factory=list)

    def with_lines(self, lines: list[str]) -> PtxKernel:
        return dataclasses.replace(self, lines=lines)

    def keeps(self, line: str) -> bool:
        return KEEP in line


class Generator:
    def __init__(self, seed: int, name: str) -> None:
        self.r = random.Random(seed)
        r = self.r
        block, grid = r.choice(SHAPES), r.choice([(1, 1, 1), (2, 1, 1), (3, 1, 1), (2, 2, 1)])
        self.threads = block[0] * block[1] * block[2]
        blocks = grid[0] * grid[1] * grid[2]
        n, q = r.choice([0, 3, 8, 40, 64]), r.choice([1, 4, 16, 37])
        self.k = PtxKernel(name, seed, block, grid, n, q, r.randrange(6), (OUTS * self.threads * blocks * 8, 0, 64))
        self.labels = 0
        self.out = self.k.lines
        self.floats = r.random() < 0.4
        self.mask = "%wm"
        self.reads_shared = True

    def put(self, line: str, keep: bool = False) -> None:
        self.out.append(line + (f" {KEEP}" if keep else ""))

    def label(self) -> str:
        self.labels += 1
        return f"$L{self.labels}_{self.k.name}"

    def one(self, kind: str) -> str:
        return f"%{kind}{self.r.randrange({'r': R, 'l': L, 'h': H, 'f': F, 'd': D, 'p': P}[kind])}"

    def const(self, bits: int, signed: bool = True) -> str:
        v = self.r.choice(CONSTANTS) if self.r.random() < 0.8 else self.r.getrandbits(bits)
        v &= (1 << bits) - 1
        return str(v - (1 << bits) if v >> (bits - 1) else v)

    def src(self, kind: str) -> str:
        """A register or a constant."""
        if kind in "rlh" and self.r.random() < 0.3:
            return self.const({"r": 32, "l": 64, "h": 16}[kind])
        return self.one(kind)

    def byte(self) -> str:
        """A position or a length: ptxas accepts constants up to 255."""
        return str(self.r.randrange(256)) if self.r.random() < 0.3 else self.one("r")

    # -- instructions --

    def alu(self, kind: str) -> str:
        r = self.r
        bits = {"r": 32, "l": 64, "h": 16}[kind]
        d, a, b, c = self.one(kind), self.one(kind), self.src(kind), self.src(kind)
        s = r.choice("us")
        t = f"{s}{bits}"
        x = r.randrange(34)
        if x < 4:
            return f"{r.choice(['add', 'sub', 'add'])}.{t} {d}, {a}, {b};"
        if x < 6:
            return f"mul.{r.choice(['lo', 'lo', 'hi'])}.{t} {d}, {a}, {b};"
        if x < 8:
            return f"mad.lo.{t} {d}, {a}, {b}, {c};"
        if x < 10:
            return f"{r.choice(['and', 'or', 'xor'])}.b{bits} {d}, {a}, {b};"
        if x == 10:
            return f"not.b{bits} {d}, {a};"
        if x == 11:
            return f"shl.b{bits} {d}, {a}, {self.src('r')};"
        if x == 12:
            return f"shr.{t} {d}, {a}, {self.src('r')};"
        if x == 13:
            return f"{r.choice(['min', 'max'])}.{t} {d}, {a}, {b};"
        if x == 14:
            return f"{r.choice(['abs', 'neg'])}.s{bits} {d}, {a};"
        if x == 15:
            return f"selp.b{bits} {d}, {a}, {b}, {self.one('p')};"
        if x == 16:
            return f"or.b{bits} %t{kind}0, {self.one(kind)}, 1; {r.choice(['div', 'rem'])}.u{bits} {d}, {a}, %t{kind}0;"
        if x == 17:
            low = f"and.b{bits} %t{kind}0, {self.one(kind)}, 127; add.s{bits} %t{kind}0, %t{kind}0, 1;"
            return f"{low} {r.choice(['div', 'rem'])}.s{bits} {d}, {a}, %t{kind}0;"
        if x == 18:
            return f"cnot.b{bits} {d}, {a};"
        if kind == "h":
            return f"add.{t} {d}, {a}, {b};"
        if x == 19:
            return f"{r.choice(['popc', 'clz'])}.b{bits} {self.one('r')}, {a};"
        if x == 20:
            return f"bfind{r.choice(['', '.shiftamt'])}.{t} {self.one('r')}, {a};"
        if x == 21:
            return f"brev.b{bits} {d}, {a};"
        if x == 22:
            return f"bfe.{t} {d}, {a}, {self.byte()}, {self.byte()};"
        if x == 23:
            return f"bfi.b{bits} {d}, {a}, {b}, {self.byte()}, {self.byte()};"
        if x == 24:
            return f"slct.{t}.s32 {d}, {a}, {b}, {self.one('r')};"
        if x == 25:
            carry = r.choice([("add.cc", "addc"), ("sub.cc", "subc"), ("mad.lo.cc", "madc.hi")])
            e = self.one(kind)
            if carry[0].startswith("mad"):
                return f"{carry[0]}.u{bits} %t{kind}1, {a}, {b}, {c}; {carry[1]}.u{bits} {e}, {a}, {b}, {c}; mov.b{bits} {d}, %t{kind}1;"
            return f"{carry[0]}.u{bits} %t{kind}1, {a}, {b}; {carry[1]}.u{bits} {e}, {c}, {self.one(kind)}; mov.b{bits} {d}, %t{kind}1;"
        if kind == "l":
            low = r.choice("us")
            if x < 29:
                return f"mul.wide.{low}32 {d}, {self.one('r')}, {self.src('r')};"
            return f"mad.wide.{low}32 {d}, {self.one('r')}, {self.src('r')}, {self.src('l')};"
        if x == 26:
            return f"prmt.b32{r.choice(['', '', '.f4e', '.b4e', '.rc8', '.ecl', '.ecr', '.rc16'])} {d}, {a}, {b}, {c};"
        if x == 27:
            return f"shf.{r.choice('lr')}.{r.choice(['wrap', 'clamp'])}.b32 {d}, {a}, {b}, {self.src('r')};"
        if x == 28:
            return f"lop3.b32 {d}, {a}, {b}, {c}, {r.randrange(256)};"
        if x == 29:
            return f"mul.wide.{r.choice('us')}16 {d}, {self.one('h')}, {self.src('h')};"
        if x == 30:
            return f"sad.{t} {d}, {a}, {b}, {c};"
        if x == 31:
            return f"mul24.{r.choice(['lo', 'hi'])}.{t} {d}, {a}, {b};"
        if x == 32:
            return f"set.{r.choice(['lt', 'le', 'gt', 'ge', 'eq', 'ne'])}.u32.{t} {d}, {a}, {b};"
        return f"dp4a.{r.choice(['u32.u32', 's32.s32', 'u32.s32', 's32.u32'])} {d}, {a}, {b}, {c};"

    def compare(self) -> str:
        r = self.r
        p = self.one("p")
        x = r.random()
        if x < 0.15 and self.floats:
            return f"setp.{r.choice(['lt', 'le', 'gt', 'ge', 'eq', 'ne', 'ltu', 'neu', 'num', 'nan'])}.f32 {p}, {self.one('f')}, {self.one('f')};"
        kind = r.choice("rrrlh")
        bits = {"r": 32, "l": 64, "h": 16}[kind]
        t = f"{r.choice('us')}{bits}"
        op = r.choice(["lt", "le", "gt", "ge", "eq", "ne"])
        a, b = self.one(kind), self.src(kind)
        if x < 0.3:
            return f"setp.{op}.{r.choice(['and', 'or', 'xor'])}.{t} {p}, {a}, {b}, {self.one('p')};"
        if x < 0.4:
            return f"setp.{op}.{t} {p}|%tp1, {a}, {b}; mov.pred {self.one('p')}, %tp1;"
        if x < 0.5:
            return f"{r.choice(['and', 'or', 'xor'])}.pred {p}, {self.one('p')}, {self.one('p')};"
        if x < 0.55:
            return f"not.pred {p}, {self.one('p')};"
        return f"setp.{op}.{t} {p}, {a}, {b};"

    def convert(self) -> str:
        r = self.r
        types = [f"{s}{b}" for s in "us" for b in (8, 16, 32, 64)]
        to, of = r.choice(types), r.choice(types)
        room = {8: "hrl", 16: "hrl", 32: "rl", 64: "l"}
        d = self.one(r.choice(room[int(to[1:])]))
        a = self.one(r.choice(room[int(of[1:])]))

        def bounds(t: str) -> tuple[int, int]:
            bits = int(t[1:])
            return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if t[0] == "s" else (0, (1 << bits) - 1)

        cuts = bounds(of)[0] < bounds(to)[0] or bounds(of)[1] > bounds(to)[1]  # otherwise .sat is not allowed for cvt
        return f"cvt{r.choice(['', '', '.sat']) if cuts else ''}.{to}.{of} {d}, {a};"

    def strided(self) -> str:
        """A multiple of the thread index that wraps within a few lanes."""
        r = self.r
        step = r.choice([1, 3, 4, 9, 16, 17, 64, 0x08000000, 0x18000000, 0x40000001, 2654435761, r.getrandbits(32)])
        base = r.choice(["%tno", "%gno", "%lno"])
        if r.random() < 0.7:
            return f"mul.lo.u32 {self.one('r')}, {base}, {step - (1 << 32) if step >> 31 else step};"
        if r.random() < 0.5:
            return f"cvt.u16.u32 %th0, {base}; mul.lo.u16 {self.one('h')}, %th0, {r.choice([1, 3, 9, 16, 255, 4096, 16384])};"
        return f"mad.wide.s32 {self.one('l')}, {base}, {r.choice([4, 8, -4, 65536, 1 << 30])}, {self.src('l')};"

    def float(self) -> str:
        r = self.r
        f = [self.one("f") for _ in range(4)]
        d = [self.one("d") for _ in range(4)]
        mode = r.choice(["rn", "rn", "rn", "rz", "rm", "rp"])
        ftz = r.choice(["", "", "", ".ftz"])
        x = r.randrange(12)
        if x < 3:
            return f"{r.choice(['add', 'sub', 'mul'])}.{mode}{ftz}{r.choice(['', '', '', '.sat'])}.f32 {f[0]}, {f[1]}, {f[2]};"
        if x == 3:
            return f"fma.{mode}{ftz}.f32 {f[0]}, {f[1]}, {f[2]}, {f[3]};"
        if x == 4:
            return f"div.rn{ftz}.f32 {f[0]}, {f[1]}, {f[2]};"
        if x == 5:
            return f"{r.choice(['min', 'max'])}{ftz}{r.choice(['', '.NaN'])}.f32 {f[0]}, {f[1]}, {f[2]};"
        if x == 6:
            return f"cvt.rn.f32.{r.choice(['s32', 'u32'])} {f[0]}, {self.one('r')};"
        if x == 7:
            return f"cvt.{r.choice(['rzi', 'rni', 'rmi'])}.{r.choice(['s32', 'u32'])}.f32 {self.one('r')}, {f[0]};"
        if x == 8:
            return f"{r.choice(['add', 'sub', 'mul', 'div'])}.rn.f64 {d[0]}, {d[1]}, {d[2]};"
        if x == 9:
            return f"cvt.rn.f64.{r.choice(['s64', 'u64'])} {d[0]}, {self.one('l')};"
        if x == 10:
            return f"cvt.f64.f32 {d[0]}, {f[0]};" if r.random() < 0.5 else f"cvt.rn.f32.f64 {f[0]}, {d[0]};"
        return f"selp.f32 {f[0]}, {f[1]}, {f[2]}, {self.one('p')};"

    def memory(self) -> str:
        r = self.r
        x = r.randrange(9)
        a = self.one("r")
        if x < 3:  # an element of an input
            base, kind, t, shift = r.choice(
                [
                    ("%a32", "r", "u32", 2),
                    ("%a32", "r", "s32", 2),
                    ("%a64", "l", "u64", 3),
                    ("%a8", "r", "s8", 0),
                    ("%a8", "h", "u8", 0),
                    ("%a16", "r", "s16", 1),
                    ("%a16", "h", "u16", 1),
                    ("%a32", "l", "s32", 2),
                ]
            )
            index = (
                f"and.b32 %tr0, {a}, 511;"
                if r.random() < 0.6
                else f"and.b32 %tr0, {a}, 511; add.s32 %tr0, %tr0, -100; max.s32 %tr0, %tr0, -60; add.s32 %tr0, %tr0, 60;"
            )
            if r.random() < 0.4:
                index = f"add.u32 %tr0, %gno, {r.randrange(9)};"
            return f"{index} mad.wide.{r.choice('us')}32 %tl0, %tr0, {1 << shift}, {base}; ld.global.{t} {self.one(kind)}, [%tl0];"
        if x == 3:
            return f"and.b32 %tr0, {a}, 255; mad.wide.u32 %tl0, %tr0, 8, %a32; ld.global.v2.u32 {{{self.one('r')}, %tr1}}, [%tl0]; xor.b32 {self.one('r')}, {self.one('r')}, %tr1;"
        if x < 6:  # this thread's 16 bytes of local memory
            bits, kinds = r.choice([(8, "hr"), (16, "hr"), (32, "r"), (64, "l")])
            size = bits // 8
            index = f"and.b32 %tr0, {a}, {16 - size}; cvt.u64.u32 %tl0, %tr0; add.s64 %tl0, %loc, %tl0;"
            if r.random() < 0.5:
                return f"{index} st.local.b{bits} [%tl0], {self.one(r.choice(kinds))};"
            return f"{index} ld.local.{r.choice('us')}{bits} {self.one(r.choice(kinds))}, [%tl0];"
        if x == 6:
            op = r.choice(list(ACC))
            if op == "inc":
                return "red.global.inc.u32 [%acc+24], 12;"
            return f"red.global.{op}.{'b32' if op in ('xor', 'or', 'and') else 'u32'} [%acc+{ACC[op]}], {a};"
        if not self.reads_shared:
            return self.alu("r")
        # shared memory that is only read between barriers: written by the prologue or the last exchange
        bits, kind = r.choice([(8, "r"), (8, "h"), (16, "r"), (32, "r"), (32, "r"), (64, "l")])
        size = bits // 8
        k = r.choice([0, 0, 4, 16, 64, 100, 4096])
        index = f"rem.u32 %tr0, {a}, {self.threads}; shl.b32 %tr0, %tr0, 3; add.u32 %tr0, %tr0, %sh; add.s32 %tr0, %tr0, {r.randrange(8 // size) * size - k};"
        return f"{index} ld.shared.{r.choice('us')}{bits} {self.one(kind)}, [%tr0+{k}];"

    def instruction(self, warp: bool = False) -> str:
        x = self.r.random()
        if x < 0.22:
            line = self.alu("r")
        elif x < 0.34:
            line = self.alu("l")
        elif x < 0.44:
            line = self.alu("h")
        elif x < 0.60:
            line = self.convert()
        elif x < 0.70:
            line = self.compare()
        elif x < 0.78:
            line = self.strided()
        elif x < 0.86 and self.floats:
            line = self.float()
        elif x < 0.96:
            line = self.memory()
        else:
            line = f"mov.b32 {self.one('r')}, {self.src('r')};"
        if self.r.random() < 0.2 and line.count(";") == 1:
            line = f"@{self.r.choice(['', '!'])}{self.one('p')} {line}"
        return line

    def some(self, least: int, most: int) -> None:
        for _ in range(self.r.randint(least, most)):
            self.put(self.instruction())

    # -- flow --

    def branch(self, depth: int) -> None:
        r = self.r
        other, end = self.label(), self.label()
        p = self.one("p")
        self.put(f"@{r.choice(['', '!'])}{p} bra {other};")
        self.body(depth - 1, 1, 3)
        if r.random() < 0.6:
            self.put(f"bra {end};")
            self.put(f"{other}:")
            self.body(depth - 1, 1, 2)
        else:
            self.put(f"{other}:")
        self.put(f"{end}:")

    def loop(self, depth: int) -> None:
        """A loop with a condition at the end and possibly another exit; its fuel limits it."""
        r = self.r
        top, end = self.label(), self.label()
        fuel = f"%u{self.fuel()}"
        self.put(f"mov.u32 {fuel}, {r.randint(2, 6)};", True)
        self.put(f"{top}:")
        self.body(depth - 1, 1, 3)
        if r.random() < 0.4:
            self.put(f"@{self.one('p')} bra {end};")
            self.body(depth - 1, 1, 2)
        self.put(f"sub.u32 {fuel}, {fuel}, 1; setp.eq.u32 %tp0, {fuel}, 0; @%tp0 bra {end};", True)
        self.put(f"@{r.choice(['', '!'])}{self.one('p')} bra {end};")
        self.put(f"bra {top};")
        self.put(f"{end}:")

    fuels = 0

    def fuel(self) -> int:
        self.fuels += 1
        return self.fuels

    def graph(self) -> None:
        """Blocks that branch anywhere: mostly irreducible."""
        r = self.r
        labels = [self.label() for _ in range(r.randint(3, 5))]
        end = self.label()
        fuel = f"%u{self.fuel()}"
        self.put(f"mov.u32 {fuel}, {r.randint(4, 14)};", True)
        for i, name in enumerate(labels):
            self.put(f"{name}:")
            self.put(f"sub.u32 {fuel}, {fuel}, 1; setp.eq.u32 %tp0, {fuel}, 0; @%tp0 bra {end};", True)
            self.some(1, 3)
            for _ in range(r.choice([0, 1, 1, 2])):
                target = r.choice([*labels, end])
                if r.random() < 0.15:
                    table = f"$T{self.labels}_{self.k.name}"
                    self.labels += 1
                    targets = [r.choice([*labels, end]) for _ in range(4)]
                    self.put(
                        f"{{ {table}: .branchtargets {', '.join(targets)}; and.b32 %tr0, {self.one('r')}, 3; brx.idx %tr0, {table}; }}"
                    )
                    break
                self.put(f"@{r.choice(['', '!'])}{self.one('p')} bra {target};")
            if i + 1 < len(labels) and r.random() < 0.3:
                self.put(f"bra {r.choice([*labels, end])};")
        self.put(f"{end}:")

    def body(self, depth: int, least: int, most: int) -> None:
        r = self.r
        for _ in range(r.randint(least, most)):
            x = r.random()
            if depth > 0 and x < 0.25:
                self.branch(depth)
            elif depth > 0 and x < 0.4:
                self.loop(depth)
            elif depth > 1 and x < 0.5:
                self.graph()
            else:
                self.some(1, 2)

    # -- where all threads are --

    def warp(self, mask: str, whole: bool) -> str:
        r = self.r
        x = r.randrange(9)
        d, a = self.one("r"), self.one("r")
        if x == 0:
            return f"vote.sync.{r.choice(['all', 'any', 'uni'])}.pred {self.one('p')}, {self.one('p')}, {mask};"
        if x == 1:
            return f"vote.sync.ballot.b32 {d}, {self.one('p')}, {mask};"
        if x == 2:
            op = r.choice(["add.u32", "min.u32", "max.s32", "and.b32", "or.b32", "xor.b32", "add.s32"])
            return f"redux.sync.{op} {d}, {a}, {mask};"
        if x == 3:
            return f"and.b32 %tr0, {a}, {r.choice([1, 3, 7])}; match.any.sync.b32 {d}, %tr0, {mask};"
        if x == 4:
            return f"match.all.sync.b32 {d}|{self.one('p')}, {a}, {mask};"
        if x == 5:
            return f"bar.warp.sync {mask};"
        if x == 6 and whole and self.threads % 32 == 0:
            return f"shfl.sync.{r.choice(['bfly', 'down', 'up'])}.b32 {d}|{self.one('p')}, {a}, {r.choice([1, 2, 4, 8, 16, 3])}, {r.choice(['0x1f', '0x181f', '0x101f', '0'])}, {mask};".replace(
                ", 0, %", ", 0x1f, %"
            )
        lane = f"and.b32 %tr0, {a}, 31; shr.u32 %tr1, {mask}, %tr0; and.b32 %tr1, %tr1, 1; setp.eq.u32 %tp0, %tr1, 0; selp.b32 %tr0, %lno, %tr0, %tp0;"
        return f"{lane} shfl.sync.idx.b32 {d}|{self.one('p')}, {self.one('r')}, %tr0, 0x1f, {mask};"

    def exchange(self) -> None:
        bits, kind = self.r.choice([(32, "r"), (64, "l"), (16, "h"), (8, "r")])
        k = self.r.choice([0, 0, 4, 32, 1024])
        self.put("bar.sync 0;", True)
        self.put(
            f"shl.b32 %tr0, %tno, 3; add.u32 %tr0, %tr0, %sh; sub.u32 %tr0, %tr0, {k}; st.shared.b{bits} [%tr0+{k}], {self.one(kind)};"
        )
        self.put("bar.sync 0;", True)

    def named_barrier(self) -> None:
        """The first warps of the block exchange values at a separate barrier."""
        warps = self.threads // 32
        if not warps:
            return self.exchange()
        count = 32 * self.r.randint(1, warps)
        end, number = self.label(), self.r.randint(1, 15)
        self.put("bar.sync 0;", True)
        self.put(f"setp.ge.u32 %tp0, %tno, {count}; @%tp0 bra {end};", True)
        self.reads_shared = False  # another thread may write
        self.some(0, 2)
        self.reads_shared = True
        self.put(f"shl.b32 %tr0, %tno, 3; add.u32 %tr0, %tr0, %sh; st.shared.u32 [%tr0], {self.one('r')};")
        self.put(f"bar.sync {number}, {count};", True)
        index = f"rem.u32 %tr0, {self.one('r')}, {count}; shl.b32 %tr0, %tr0, 3; add.u32 %tr0, %tr0, %sh;"
        self.put(f"{index} ld.shared.u32 {self.one('r')}, [%tr0];")
        self.put(f"{end}:", True)
        self.put("bar.sync 0;", True)
        return None

    def masked(self) -> None:
        """Warp operations with exact masks on both sides of a branch."""
        p, other, end = self.one("p"), self.label(), self.label()
        m = f"%m{self.fuel()}"
        self.put(f"mov.pred %tp2, {p}; vote.sync.ballot.b32 {m}, %tp2, {self.mask}; @!%tp2 bra {other};", True)
        for _ in range(self.r.randint(1, 3)):
            self.put(self.instruction() if self.r.random() < 0.5 else self.warp(m, False))
        self.put(f"bra {end};", True)
        self.put(f"{other}:")
        self.put(f"not.b32 {m}, {m}; and.b32 {m}, {m}, {self.mask};", True)
        for _ in range(self.r.randint(0, 2)):
            self.put(self.instruction() if self.r.random() < 0.5 else self.warp(m, False))
        self.put(f"{end}:")

    def uniform_loop(self) -> None:
        r = self.r
        top = self.label()
        fuel = f"%u{self.fuel()}"
        self.put(f"mov.u32 {fuel}, {r.randint(2, 4)};", True)
        self.put(f"{top}:")
        self.top(1, 3, False)
        self.put(f"sub.u32 {fuel}, {fuel}, 1; setp.ne.u32 %tp0, {fuel}, 0; @%tp0 bra {top};", True)

    def top(self, least: int, most: int, loops: bool) -> None:
        r = self.r
        for _ in range(r.randint(least, most)):
            x = r.random()
            if x < 0.3:
                self.body(2, 1, 2)
            elif x < 0.45:
                self.exchange()
            elif x < 0.49:
                self.named_barrier()
            elif x < 0.65:
                self.put(self.warp(self.mask, True))
            elif x < 0.72:
                self.masked()
            elif x < 0.82 and loops:
                self.uniform_loop()
            elif x < 0.88:
                self.put(
                    f"barrier.cta.red.{r.choice(['and', 'or'])}.pred {self.one('p')}, 0, {self.one('p')};"
                    if r.random() < 0.5
                    else f"bar.red.popc.u32 {self.one('r')}, 0, {self.one('p')};"
                )
            else:
                self.some(1, 4)

    def prologue(self) -> None:
        r = self.r
        for i in range(R):
            choice = r.randrange(6)
            line = [
                f"add.u32 %tr0, %gno, {i}; mad.wide.u32 %tl0, %tr0, 4, %a32; ld.global.u32 %r{i}, [%tl0];",
                f"mov.u32 %r{i}, {r.choice(['%tno', '%gno', '%lno', '%nn', '%qq'])};",
                f"mul.lo.u32 %r{i}, %gno, {r.choice([3, 9, 16, 1640531527, -1640531535, 0x18000000])};",
                f"mov.u32 %r{i}, {self.const(32)};",
                f"add.u32 %tr0, %gno, {i}; mad.wide.u32 %tl0, %tr0, 4, %a32; ld.global.u32 %r{i}, [%tl0];",
                f"sub.u32 %r{i}, %tno, {r.choice([1, 5, 16])};",
            ][choice]
            self.put(line, True)
        for i in range(L):
            line = (
                f"add.u32 %tr0, %gno, {i + 3}; mad.wide.u32 %tl0, %tr0, 8, %a64; ld.global.u64 %l{i}, [%tl0];"
                if r.random() < 0.6
                else f"mul.wide.u32 %l{i}, %gno, {r.choice([1, 8, 65537])};"
            )
            self.put(line, True)
        for i in range(H):
            line = (
                f"add.u32 %tr0, %gno, {i}; mad.wide.u32 %tl0, %tr0, 2, %a16; ld.global.u16 %h{i}, [%tl0];"
                if r.random() < 0.6
                else f"cvt.u16.u32 %h{i}, %tno;"
            )
            self.put(line, True)
        for i in range(F):
            self.put(f"add.u32 %tr0, %gno, {i}; mad.wide.u32 %tl0, %tr0, 4, %af; ld.global.f32 %f{i}, [%tl0];", True)
        for i in range(D):
            self.put(f"add.u32 %tr0, %gno, {i}; mad.wide.u32 %tl0, %tr0, 8, %ad; ld.global.f64 %d{i}, [%tl0];", True)
        for i in range(P):
            which = r.choice(
                [
                    f"setp.lt.u32 %p{i}, %tno, {r.choice([1, 5, 16, 31, 39])};",
                    f"setp.eq.u32 %p{i}, %lno, {r.choice([0, 7, 31])};",
                    f"and.b32 %tr0, %r{i}, {1 << r.randrange(3)}; setp.ne.u32 %p{i}, %tr0, 0;",
                ]
            )
            self.put(which, True)

    def program(self) -> PtxKernel:
        self.prologue()
        self.top(1, 4, True)
        return self.k


def kernel_of(seed: int, name: str = "k0") -> PtxKernel:
    return Generator(seed, name).program()


PARAMETERS = ("a32", "b32", "a64", "a8", "a16", "af", "ad", "out", "own", "acc")


def one_text(k: PtxKernel) -> str:
    threads = k.block[0] * k.block[1] * k.block[2]
    blocks = k.grid[0] * k.grid[1] * k.grid[2]
    total, rest = threads * blocks, threads % 32
    params = ", ".join(
        [*(f".param .u64 {k.name}_{p}" for p in PARAMETERS), f".param .u32 {k.name}_n", f".param .u32 {k.name}_q"]
    )
    body = "\n".join(k.lines)
    extra = sorted(set(re.findall(r"%[um]\d+", body)))
    lines = [
        f".visible .entry {k.name}({params})\n{{",
        f".reg .b32 %r<{R}>, %tr<4>, %tno, %lno, %gno, %sh, %wm, %nn, %qq, %bid;",
        f".reg .b64 %l<{L}>, %tl<4>, %loc, %out, %acc, %a32, %a64, %a8, %a16, %af, %ad;",
        f".reg .b16 %h<{H}>, %th<4>; .reg .f32 %f<{F}>; .reg .f64 %d<{D}>; .reg .pred %p<{P}>, %tp<4>;",
        *(f".reg .b32 {name};" for name in extra),
        f".shared .align 8 .b8 {k.name}_s[{threads * 8}];",
        f".local .align 8 .b8 {k.name}_l[16];",
        *(
            f"ld.param.u64 %{p}, [{k.name}_{p}]; cvta.to.global.u64 %{p}, %{p};"
            for p in PARAMETERS
            if p not in ("b32", "own")
        ),
        f"ld.param.u32 %nn, [{k.name}_n]; ld.param.u32 %qq, [{k.name}_q];",
        "mov.u32 %tno, %tid.x;",
    ]
    if k.block[1] * k.block[2] > 1:
        lines.append(
            "mov.u32 %tr0, %tid.z; mov.u32 %tr1, %ntid.y; mov.u32 %tr2, %tid.y; mad.lo.u32 %tr0, %tr0, %tr1, %tr2; mov.u32 %tr1, %ntid.x; mad.lo.u32 %tno, %tr0, %tr1, %tno;"
        )
    lines.append("mov.u32 %bid, %ctaid.x;")
    if k.grid[1] > 1:
        lines.append("mov.u32 %tr0, %ctaid.y; mov.u32 %tr1, %nctaid.x; mad.lo.u32 %bid, %tr0, %tr1, %bid;")
    lines += [
        f"mad.lo.u32 %gno, %bid, {threads}, %tno; and.b32 %lno, %tno, 31; mov.u32 %wm, -1;",
        *([f"setp.ge.u32 %tp0, %tno, {threads - rest}; selp.b32 %wm, {(1 << rest) - 1}, -1, %tp0;"] if rest else []),
        f"mov.u32 %sh, {k.name}_s; mov.u64 %loc, {k.name}_l; st.local.u64 [%loc], 81985529216486895; st.local.u64 [%loc+8], -2;",
        "shl.b32 %tr0, %tno, 3; add.u32 %tr0, %tr0, %sh; mul.wide.u32 %tl0, %tno, 1640531527; st.shared.u64 [%tr0], %tl0; bar.sync 0;",
        body,
    ]
    j = 0

    def store(code: str) -> None:
        nonlocal j
        lines.append(f"{code} mad.wide.u32 %tl1, %gno, 8, %out; st.global.u64 [%tl1+{j * total * 8}], %tl0;")
        j += 1

    for i in range(R):
        store(f"cvt.u64.u32 %tl0, %r{i};")
    for i in range(L):
        store(f"mov.b64 %tl0, %l{i};")
    for i in range(H):
        store(f"cvt.s64.s16 %tl0, %h{i};")
    for i in range(F):
        store(
            f"mov.b32 %tr0, %f{i}; testp.notanumber.f32 %tp0, %f{i}; selp.b32 %tr0, 2143289344, %tr0, %tp0; cvt.u64.u32 %tl0, %tr0;"
        )
    for i in range(D):
        store(f"mov.b64 %tl0, %d{i}; testp.notanumber.f64 %tp0, %d{i}; selp.b64 %tl0, 9221120237041090560, %tl0, %tp0;")
    for i in range(P):
        store(f"selp.u32 %tr0, 1, 0, %p{i}; cvt.u64.u32 %tl0, %tr0;")
    lines.append("ret;\n}")
    return "\n".join(lines) + "\n"


def text_of(kernels: list[PtxKernel]) -> str:
    return HEADER + "\n".join(one_text(k) for k in kernels)
