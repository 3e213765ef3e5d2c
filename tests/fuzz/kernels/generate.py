# SPDX-License-Identifier: Apache-2.0
"""Generates random CUDA C++ programs with defined results: no undefined behaviour, no races, warp operations with exact masks."""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from . import idioms
from .model import CAPACITY
from .tree import (
    BOOL,
    COMPARISONS,
    F32,
    F64,
    INTEGERS,
    S8,
    S16,
    S32,
    S64,
    U8,
    U16,
    U32,
    U64,
    Array,
    Expr,
    Function,
    Kernel,
    Stmt,
    Type,
    Var,
    binary,
    cast,
    compare,
    full,
    literal,
    read,
    select,
    special,
)  # fmt: skip

SHAPES = [
    (32, 1, 1), (32, 1, 1), (48, 1, 1), (48, 1, 1), (64, 1, 1), (64, 1, 1), (96, 1, 1), (128, 1, 1), (256, 1, 1), (7, 1, 1), (31, 1, 1),
    (33, 1, 1), (40, 1, 1), (100, 1, 1), (8, 8, 1), (16, 4, 1), (5, 7, 1), (32, 4, 1), (33, 3, 1), (4, 4, 4), (3, 5, 7), (2, 2, 32),
    (64, 2, 1), (1, 1, 1), (4, 1, 1), (16, 1, 1), (20, 3, 1), (1, 40, 1), (200, 1, 1),
]  # fmt: skip
GRIDS = [(1, 1, 1), (2, 1, 1), (2, 1, 1), (3, 1, 1), (2, 2, 1), (5, 1, 1)]
INPUTS = {"a32": U32, "b32": S32, "a64": U64, "a8": U8, "a16": S16, "af": F32, "ad": F64}
WIDE = (U32, S32, U64, S64)
OPTIONS: list[tuple[str, ...]] = [
    (),
    (),
    (),
    (),
    (),
    ("-Ofc=max",),
    ("-Ofc=min",),
    ("-G",),
    ("-G", "-dopt=on"),
    ("-lineinfo",),
]
LITERALS = [
    0,
    1,
    2,
    3,
    5,
    7,
    8,
    16,
    31,
    32,
    33,
    100,
    127,
    128,
    255,
    256,
    65535,
    0x7FFFFFFF,
    0x80000000,
    0x18000000,
    2654435761,
    0xFFFFFFFF,
    -1,
    -2,
    -7,
    -128,
]


@dataclass
class Context:
    """The conditions at the position of the next statement."""

    vars: list[Var]
    guards: list[tuple[Expr, list[Var]]] = field(
        default_factory=list
    )  # variables that are initialized only under a condition
    arrays: list[Array] = field(default_factory=list)  # local ones, declared
    mask: Expr | None = None  # exactly the active lanes of this warp
    uniform: bool = False  # all threads of the block are active
    loop: bool = False  # break and continue are allowed
    function: Function | None = None
    functions: list[Function] = field(default_factory=list)
    depth: int = 0
    counters: list[Var] = field(default_factory=list)

    def inner(self, **changes: object) -> Context:
        new = dataclasses.replace(self, **changes)  # type: ignore[arg-type]
        new.vars, new.guards, new.arrays = list(new.vars), list(new.guards), list(new.arrays)
        new.counters = list(new.counters)
        new.depth += 1
        return new


class Generator:
    def __init__(self, seed: int, name: str) -> None:
        self.r = random.Random(seed)
        self.names = 0
        r = self.r
        block, grid = r.choice(SHAPES), r.choice(GRIDS)
        self.k = Kernel(
            name, seed, block, grid, n=r.choice([0, 3, 8, 20, 40, 64, 100, 1000]), q=r.choice([1, 4, 5, 16, 37, 64])
        )
        self.k.aos, self.k.restrict, self.k.inputs = r.random() < 0.4, r.random() < 0.5, r.randrange(6)
        self.ins = [Array(n, t, CAPACITY, "in") for n, t in INPUTS.items()]
        self.const: Array | None = None
        self.shared: list[Array] = []
        self.warp_shared: Array | None = None
        self.own: list[Array] = []
        self.acc: list[Array] = []
        self.sacc: list[Array] = []
        self.floats = r.random() < 0.35
        self.warps = r.random() < 0.6
        self.idioms = r.choice([0.0, 1.0, 4.0])  # weight of the statements of `idioms`
        self.budget = 0

    # -- small things --

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def chance(self, p: float) -> bool:
        return self.r.random() < p

    def special(self, name: str) -> Expr:
        return special(self.k, name)

    def value(self, t: Type) -> Expr:
        """A literal."""
        r = self.r
        if t.floating:
            return literal(
                t,
                r.choice([0.0, 1.0, -1.0, 0.5, 2.0, 3.25, -100.0, 1e6, r.uniform(-10, 10), 2.0**-20])
                if t is F64
                else r.choice([0.0, 1.0, -1.5, 0.25, 3.0, 1024.0, -7.0, 2.0**-12]),
            )
        v = r.choice(LITERALS) if self.chance(0.75) else r.getrandbits(t.bits)
        v &= (1 << t.bits) - 1
        return literal(t, v - (1 << t.bits) if t.signed and v > t.hi else v)

    def thread_value(self) -> Expr:
        names = ["tid"] * 5 + ["gid"] * 4 + ["lane"] * 3 + ["tx"] * 2 + ["bid", "warp", "n", "q", "ntx", "bx", "ngx"]
        if self.k.block[1] > 1:
            names += ["ty", "ty"]
        if self.k.block[2] > 1:
            names += ["tz"]
        return self.special(self.r.choice(names))

    def strided(self, t: Type) -> Expr:
        """A multiple of a thread's number, wrapped and converted."""
        r = self.r
        base = cast(r.choice([U32, U32, S32, U64, S64]), self.thread_value())
        e = base
        if self.chance(0.8):
            step = r.choice(
                [
                    1,
                    2,
                    3,
                    4,
                    7,
                    9,
                    16,
                    17,
                    64,
                    255,
                    0x18000000,
                    0x08000000,
                    2654435761,
                    0x40000001,
                    -1,
                    -3,
                    1 << 24,
                    1 << 31,
                    r.getrandbits(32),
                ]
            )
            step &= (1 << e.type.bits) - 1
            if e.type.signed and step > e.type.hi:
                step -= 1 << e.type.bits
            e = binary("mul", e, literal(e.type, step))
        if self.chance(0.5):
            e = binary(r.choice(["add", "sub", "sub"]), e, self.small(e.type))
        if self.chance(0.3):
            e = cast(r.choice([U8, S8, U16, S16, U32, S32]), e)
        return cast(t, e)

    def small(self, t: Type) -> Expr:
        v = self.r.choice([0, 1, 2, 3, 4, 5, 7, 8, 10, 15, 16, 31, 32, 64, 100])
        return literal(t, min(v, t.hi))

    # -- expressions --

    def expr(self, t: Type, c: Context, depth: int) -> Expr:
        if t is BOOL:
            return self.cond(c, depth)
        return self.floating(t, c, depth) if t.floating else self.integer(t, c, depth)

    def of_type(self, t: Type, c: Context) -> list[Var]:
        return [v for v in c.vars if v.type is t]

    def atom(self, t: Type, c: Context) -> Expr:
        r = self.r
        x = r.random()
        own = self.of_type(t, c)
        if x < 0.45 and own:
            return read(r.choice(own))
        if x < 0.55:
            return self.value(t)
        if t.floating:
            if x < 0.8 and t in (F32, F64):
                return self.load(t, c, 0)
            return cast(t, self.atom(r.choice([S32, U32, S16, S64]), c))
        if x < 0.72 and not c.function:
            return self.strided(t)
        if x < 0.80 and not c.function:
            return cast(t, self.thread_value())
        if x < 0.88 and c.counters:
            return cast(t, read(r.choice(c.counters)))
        others = [v for v in c.vars if not v.type.floating and v.type is not BOOL]
        if x < 0.95 and others:
            return cast(t, read(r.choice(others)))
        return self.load(t, c, 0)

    def integer(self, t: Type, c: Context, depth: int) -> Expr:
        r = self.r
        if depth <= 0:
            return self.atom(t, c)
        x = r.random()
        sub = depth - 1
        if x < 0.40:
            op = r.choice(
                ["add", "add", "add", "sub", "sub", "mul", "mul", "and", "or", "xor", "shl", "shr", "div", "rem"]
            )
            a = self.integer(t, c, sub)
            if op in ("shl", "shr"):
                n = (
                    literal(U32, r.randrange(t.bits))
                    if self.chance(0.6)
                    else binary("and", self.integer(U32, c, sub - 1), literal(U32, t.bits - 1))
                )
                return binary(op, a, n)
            if op in ("div", "rem"):
                return binary(op, a, self.divisor(t, c, sub))
            return binary(op, a, self.integer(t, c, sub))
        if x < 0.58:
            return cast(t, self.integer(r.choice(INTEGERS), c, sub))
        if x < 0.64:
            return select(self.cond(c, sub), self.integer(t, c, sub), self.integer(t, c, sub))
        if x < 0.76:
            return self.load(t, c, sub)
        if x < 0.88:
            return self.function_like(t, c, sub)
        if x < 0.91 and c.functions:
            f = r.choice(c.functions)
            return cast(t, self.call(f, c, sub)) if not f.type.floating else self.to_integer(t, self.call(f, c, sub))
        if x < 0.95:
            op = r.choice(["neg", "not"])
            return full(op, t, [self.integer(t, c, sub)])
        if x < 0.97 and self.floats:
            ft = r.choice([F32, F64])
            return self.to_integer(t, self.floating(ft, c, sub))
        return cast(t, self.cond(c, sub))

    def to_integer(self, t: Type, e: Expr) -> Expr:
        target = t if t.bits >= 32 else S32
        return cast(t, full("f2i", target, [e]))

    def divisor(self, t: Type, c: Context, depth: int) -> Expr:
        """Never zero, and never -1 of a signed type."""
        if self.chance(0.4):
            v = self.r.choice([2, 3, 5, 7, 8, 10, 16, 31, 32, 100])
            return literal(t, -v if t.signed and self.chance(0.2) else v)
        if t.signed:
            return binary(
                "add",
                binary("and", self.integer(t, c, depth - 1), literal(t, self.r.choice([15, 63, 127 & (t.hi >> 1)]))),
                literal(t, 1),
            )
        return binary("or", self.integer(t, c, depth - 1), literal(t, 1))

    def function_like(self, t: Type, c: Context, depth: int) -> Expr:
        r = self.r

        def e(u: Type) -> Expr:
            return self.integer(u, c, depth)

        which = r.randrange(12)
        if which < 3:
            return full(r.choice(["min", "max"]), t, [e(t), e(t)])
        if which == 3:
            u = r.choice(WIDE)
            return cast(t, full("mulhi", u, [e(u), e(u)]))
        if which == 4:
            u = r.choice([U32, U64])
            return cast(t, Expr(r.choice(["clz", "popc", "ffs"]), S32, [e(u)], lo=0, hi=64))
        if which == 5:
            u = r.choice([U32, U64])
            return cast(t, full("brev", u, [e(u)]))
        if which == 6:
            return cast(t, full("perm", U32, [e(U32), e(U32), self.value(U32) if self.chance(0.6) else e(U32)]))
        if which == 7:
            return cast(
                t,
                full(
                    r.choice(["fsl", "fsr", "fslc", "fsrc"]),
                    U32,
                    [e(U32), e(U32), self.small(U32) if self.chance(0.5) else e(U32)],
                ),
            )
        if which == 8:
            op, u = r.choice([("uhadd", U32), ("urhadd", U32), ("hadd", S32), ("rhadd", S32)])
            return cast(t, full(op, u, [e(u), e(u)]))
        if which == 9:
            op, u = r.choice([("usad", U32), ("sad", S32)])
            return cast(t, full(op, U32, [e(u), e(u), e(U32)]))
        if which == 10:
            op, u = r.choice([("umul24", U32), ("mul24", S32)])
            return cast(t, full(op, u, [e(u), e(u)]))
        a = binary("and", e(S32), literal(S32, r.choice([255, 65535])))
        b = binary("sub", a, self.small(S32))
        return cast(t, Expr("abs", S32, [b], lo=0, hi=max(abs(b.lo), abs(b.hi))))

    def floating(self, t: Type, c: Context, depth: int) -> Expr:
        r = self.r
        if depth <= 0:
            return self.atom(t, c)
        sub = depth - 1
        x = r.random()
        if x < 0.5:
            return Expr(
                r.choice(["add", "sub", "mul", "mul", "div"]), t, [self.floating(t, c, sub), self.floating(t, c, sub)]
            )
        if x < 0.6:
            return Expr("fma", t, [self.floating(t, c, sub) for _ in range(3)])
        if x < 0.7:
            return Expr(r.choice(["fmin", "fmax"]), t, [self.floating(t, c, sub), self.floating(t, c, sub)])
        if x < 0.8:
            e = self.floating(t, c, sub)
            op = r.choice(["fabs", "neg", "floor", "trunc", "rint", "sqrt"])
            return Expr(op, t, [Expr("fabs", t, [e]) if op == "sqrt" else e])
        if x < 0.88:
            return Expr("cast", t, [self.integer(r.choice(INTEGERS), c, sub)])
        if x < 0.92:
            return select(self.cond(c, sub), self.floating(t, c, sub), self.floating(t, c, sub))
        if x < 0.95:
            return cast(t, self.floating(F32 if t is F64 else F64, c, sub))
        return self.load(t, c, sub)

    def cond(self, c: Context, depth: int) -> Expr:
        r = self.r
        x = r.random()
        flags = [v for v in c.vars if v.type is BOOL]
        if x < 0.12 and flags:
            return read(r.choice(flags))
        if x < 0.40 and not c.function:
            e = (
                self.special(r.choice(["tid", "lane", "gid", "tx"]))
                if self.chance(0.5)
                else self.strided(r.choice(INTEGERS))
            )
            b = literal(e.type, min(e.type.hi, r.choice([0, 1, 3, 5, 10, 16, 20, 31, 32, 39, 45, 100])))
            return compare(r.choice(COMPARISONS), e, b)
        if x < 0.55 and depth > 0:
            t = r.choice(INTEGERS)
            return compare(
                "ne", binary("and", self.integer(t, c, depth - 1), literal(t, 1 << r.randrange(4))), literal(t, 0)
            )
        if x < 0.65 and depth > 0:
            return Expr(r.choice(["land", "lor"]), BOOL, [self.cond(c, depth - 1), self.cond(c, depth - 1)], lo=0, hi=1)
        if x < 0.70:
            return full("not", BOOL, [self.cond(c, depth - 1)]) if depth > 0 else literal(BOOL, 1)
        if x < 0.78 and self.floats:
            t = r.choice([F32, F64])
            return compare(r.choice(COMPARISONS), self.floating(t, c, depth - 1), self.floating(t, c, depth - 1))
        t = r.choice(INTEGERS)
        return compare(
            r.choice(COMPARISONS),
            self.integer(t, c, depth - 1),
            self.integer(t, c, depth - 1) if self.chance(0.5) else self.value(t),
        )

    def uniform_cond(self, c: Context) -> Expr:
        r = self.r
        a = self.special(r.choice(["bid", "bx", "n", "q", "ngx"]))
        return compare(r.choice(COMPARISONS), a, self.small(a.type))

    # -- memory --

    def index(self, size: int, c: Context, depth: int) -> Expr:
        """An expression from 0 to size - 1."""
        r = self.r
        x = r.random()
        if not c.function and x < 0.5:
            base = self.special(r.choice(["tid", "gid", "gid", "lane", "tx"]))
            if base.hi < size:
                e = cast(S32, base) if self.chance(0.6) else base
                if self.chance(0.5):  # with a negative offset on the way
                    e = cast(S32, e)
                    q = self.special("q")
                    off = q if self.chance(0.5) else literal(S32, r.choice([1, 2, 4, 5, 16, 100]))
                    e = binary("sub", e, off)
                    if self.chance(0.3):
                        e = binary(
                            "add",
                            binary("sub", cast(S32, base), binary("div", self.special("n"), literal(S32, 4))),
                            literal(S32, self.k.n // 4),
                        )
                    else:
                        e = binary("add", e, literal(S32, off.hi))
                room = size - 1 - e.hi
                if room > 0 and self.chance(0.7):
                    e = binary("add", e, literal(e.type, r.randrange(min(room, 8) + 1)))
                return e
        if size & (size - 1) == 0 and x < 0.85:
            t = r.choice([U32, U32, S32, U64, U8]) if size <= 256 else r.choice([U32, S32, U64])
            return binary("and", self.integer(t, c, depth - 1), literal(t, size - 1))
        if x < 0.95:
            most = 1 << (size.bit_length() - 1)
            e = binary("and", self.integer(S32, c, depth - 1), literal(S32, most - 1))
            return binary("add", e, literal(S32, size - most)) if self.chance(0.5) else e
        return binary("rem", self.integer(U32, c, depth - 1), literal(U32, size))

    def load(self, t: Type, c: Context, depth: int) -> Expr:
        """Something of this type from memory."""
        r = self.r
        spaces = [*self.ins]
        if not c.function:
            spaces += self.shared * 2 + self.own * 2 + c.arrays * 4
        if self.const:
            spaces += [self.const] * 3
        if c.function:
            spaces = [self.const] if self.const else []
            if not spaces:
                return self.value(t)
        same = [a for a in spaces if a.type is t]
        a = (
            r.choice(same)
            if same and self.chance(0.6)
            else r.choice([a for a in spaces if a.type.floating == t.floating] or spaces)
        )
        if not t.floating and a.type.floating:
            return self.value(t)
        if t.floating and not a.type.floating:
            return cast(t, Expr("load", a.type, [self.index(a.size, c, depth)], a, a.type.lo, a.type.hi))
        if a.space == "in" and self.chance(0.15) and a.type.name in ("u32", "s32", "f32", "u64", "f64", "u8", "u16"):
            count = r.choice([2, 4]) if a.type.bits < 64 else 2
            return cast(
                t, full("vload", a.type, [self.index(a.size // count, c, depth)], (a, count, r.randrange(count)))
            )
        if self.chance(0.08) and a.space in ("in", "shared", "local") and not c.function:
            others = [
                b for b in spaces if b.type is a.type and b is not a and b.space in ("in", "shared", "local", "const")
            ]
            if others:
                b = r.choice(others)
                return cast(
                    t,
                    full("gload", a.type, [self.cond(c, depth - 1), self.index(min(a.size, b.size), c, depth)], (a, b)),
                )
        return cast(t, full("load", a.type, [self.index(a.size, c, depth)], a))

    def call(self, f: Function, c: Context, depth: int) -> Expr:
        return full("call", f.type, [self.expr(p.type, c, depth - 1) for p in f.params], f)

    # -- statements --

    def declare(
        self, t: Type, e: Expr | None, c: Context, fixed: bool = False, visible: bool = True
    ) -> tuple[Var, Stmt]:
        v = Var(self.name("v"), t, e.lo if e else 0, e.hi if e else 0, fixed)
        if visible:
            c.vars.append(v)
        return v, Stmt("decl", [e] if e else [], [], v)

    def any_type(self) -> Type:
        if self.floats and self.chance(0.3):
            return self.r.choice([F32, F32, F64])
        return self.r.choice([U32, U32, U32, S32, S32, S32, U64, S64, S64, U8, S8, U16, S16])

    def depth(self) -> int:
        return self.r.choice([1, 1, 2, 2, 2, 3])

    def assignable(self, c: Context) -> list[Var]:
        return [v for v in c.vars if not v.fixed and v.type is not BOOL]

    def assign(self, c: Context) -> list[Stmt]:
        own = self.assignable(c)
        if not own:
            return self.new_variable(c)
        v = self.r.choice(own)
        e = self.expr(v.type, c, self.depth())
        if self.chance(0.5):
            e = binary(
                self.r.choice(["add", "sub", "mul"] if v.type.floating else ["add", "add", "sub", "xor", "mul"]),
                read(v),
                e,
            )
        return [Stmt("set", [e], [], v)]

    def new_variable(self, c: Context) -> list[Stmt]:
        t = BOOL if self.chance(0.15) else self.any_type()
        fixed = t is BOOL or self.chance(0.5)
        return [self.declare(t, self.expr(t, c, self.depth()), c, fixed)[1]]

    def store(self, c: Context) -> list[Stmt]:
        places = [*self.own, *c.arrays, *c.arrays]
        if not places or c.function:
            return self.assign(c)
        a = self.r.choice(places)
        return [Stmt("store", [self.index(a.size, c, 1), self.expr(a.type, c, self.depth())], [], None, a)]

    def local_array(self, c: Context) -> list[Stmt]:
        if c.function:
            return self.assign(c)
        t = self.r.choice([U32, S32, U64, U8, S16])
        a = Array(self.name("l"), t, self.r.choice([2, 4, 5, 8, 16]), "local")
        s = Stmt("array", [self.expr(t, c, 1)], [], None, a)
        c.arrays.append(a)
        return [s]

    def branch(self, c: Context) -> list[Stmt]:
        r = self.r
        if c.guards and self.chance(0.4):  # where a condition holds that a variable was assigned under
            guard, known = r.choice(c.guards)
            inner = c.inner(mask=None, uniform=False, vars=c.vars + known)
            body = self.uses(known, inner) + self.block(inner, r.randrange(2))
            return [Stmt("if", [guard], [body, self.block(c.inner(mask=None, uniform=False), r.randrange(2))])]
        if c.mask is not None and self.warps and self.chance(0.35):
            return self.masked_branch(c)
        if c.uniform and self.chance(0.25):
            cond = self.uniform_cond(c)
            return [Stmt("if", [cond], [self.block(c.inner(), r.randint(1, 3)), self.block(c.inner(), r.randrange(3))])]
        cond = self.cond(c, 2)
        inner = dict(mask=None, uniform=False)
        return [
            Stmt(
                "if",
                [cond],
                [self.block(c.inner(**inner), r.randint(1, 3)), self.block(c.inner(**inner), r.choice([0, 0, 1, 2]))],
            )
        ]

    def uses(self, known: list[Var], c: Context) -> list[Stmt]:
        out = []
        for v in known:
            targets = [w for w in self.assignable(c) if w not in known and w.type.floating == v.type.floating]
            if targets:
                w = self.r.choice(targets)
                out.append(Stmt("set", [binary(self.r.choice(["add", "sub"]), read(w), cast(w.type, read(v)))], [], w))
        return out

    def uniform_expr(self, t: Type) -> Expr:
        """Uniform for a block, and too expensive to be computed speculatively."""
        r = self.r
        e = cast(U32, self.special(r.choice(["bid", "bid", "n", "q"])))
        if self.chance(0.5):
            e = binary("add", e, literal(U32, r.randrange(10)))
        x = r.random()
        odd = binary("or", cast(U32, self.special(r.choice(["n", "q"]))), literal(U32, 1))
        if x < 0.4:
            e = binary(r.choice(["div", "rem"]), e, odd)
        elif x < 0.9:
            a = r.choice([a for a in self.ins if not a.type.floating])
            e = cast(U32, full("load", a.type, [e if e.hi < a.size else binary("and", e, literal(U32, 63))], a))
            e = binary("mul", e, odd)
        return cast(t, e)

    def guarded(self, c: Context) -> list[Stmt]:
        """Variables that are assigned and later used only under a condition."""
        r = self.r
        out: list[Stmt] = []
        cond = self.cond(c, 2)
        if not c.function and self.chance(0.7):
            which = self.special(r.choice(["tid", "tid", "tid", "lane", "tx"]))
            at = min(r.choice([0, 1, 5, 10, 20, 31, 39, 45, 63, which.hi]), which.hi)
            cond = compare(r.choice(["eq", "eq", "lt", "lt", "ge"]), which, literal(U32, at))
        flag, s = self.declare(BOOL, cond, c, True)
        out.append(s)
        bodies: list[list[Stmt]] = [[], []]
        for side in (0, 1):
            if side and self.chance(0.3):
                continue
            known = []
            inner = c.inner(mask=None, uniform=False)
            for _ in range(r.choice([1, 1, 2])):
                t = U32 if self.chance(0.4) else self.any_type()
                v, decl = self.declare(t, None, c, False, visible=False)
                out.append(decl)
                e = (
                    self.uniform_expr(t)
                    if not c.function and self.chance(0.3 if side else 0.7)
                    else self.expr(t, inner, 2)
                )
                bodies[side].append(Stmt("set", [e], [], v))
                known.append(v)
            guard = read(flag) if side == 0 else full("not", BOOL, [read(flag)])
            c.guards.append((guard, known))
        out.append(Stmt("if", [read(flag)], bodies))
        if self.chance(0.7):  # used soon, after a divergent statement
            v, first = self.result_of(U32, c)
            out += first
            if not c.function:
                a = r.choice([a for a in self.ins if a.type.bits == 32 and not a.type.floating])
                at = cast(S32, self.special(r.choice(["tid", "gid"])))
                out.append(Stmt("set", [cast(U32, full("load", a.type, [at], a))], [], v))
                odd = compare("ne", binary("and", read(v), literal(U32, 1)), literal(U32, 0))
                far = cast(U32, full("load", a.type, [binary("and", read(v), literal(U32, 255))], a))
                e = binary("add", binary("mul", read(v), literal(U32, 3)), far)
                if c.uniform and self.shared and self.chance(0.5):
                    out += self.exchange(c)
                else:
                    out.append(Stmt("if", [odd], [[Stmt("set", [e], [], v)], []]))
            sides: list[list[Stmt]] = [[], []]
            for guard, known in c.guards[-2:]:
                if guard.op == "not" and guard.kids[0].data is flag:
                    sides[1] = self.uses(known, c.inner(vars=c.vars + known))
                elif guard.data is flag:
                    sides[0] = self.uses(known, c.inner(vars=c.vars + known))
            out.append(Stmt("if", [read(flag)], sides))
        return out

    def masked_branch(self, c: Context) -> list[Stmt]:
        """A branch whose sides have exact lane masks."""
        assert c.mask
        flag, s = self.declare(BOOL, self.cond(c, 2), c, True)
        votes, decl = self.declare(U32, None, c, True, visible=False)
        votes.lo, votes.hi = 0, U32.hi
        vote = Stmt("warp", [c.mask, read(flag)], [], votes, ("ballot",))
        inside = c.inner(mask=read(votes), uniform=False)
        first = self.block(inside, self.r.randint(1, 3)) + self.warp(inside)
        rest = binary("and", c.mask, full("not", U32, [read(votes)]))
        other = c.inner(uniform=False)
        m, decl_m = self.declare(U32, rest, other, True, visible=False)
        other.mask = read(m)
        second = [decl_m, *self.block(other, self.r.randint(0, 2)), *(self.warp(other) if self.chance(0.6) else [])]
        if self.chance(0.4):  # the same operation on both sides, which compilers may merge after the branch
            *before, twin = self.warp(c.inner(mask=read(votes), uniform=False))
            first.append(twin)
            second.append(Stmt("warp", [read(m), *twin.exprs[1:]], [], twin.var, twin.data))
            return [s, decl, vote, *before, Stmt("if", [read(flag)], [first, second])]
        return [s, decl, vote, Stmt("if", [read(flag)], [first, second])]

    def chosen_mask(self, c: Context) -> list[Stmt]:
        """Each lane uses the mask of the lanes with the same choice, at one place in the code."""
        assert c.mask
        flag, s = self.declare(BOOL, self.cond(c, 2), c, True)
        votes, decl = self.declare(U32, None, c, True, visible=False)
        votes.lo, votes.hi = 0, U32.hi
        vote = Stmt("warp", [c.mask, read(flag)], [], votes, ("ballot",))
        m, decl_m = self.declare(
            U32,
            select(read(flag), read(votes), binary("and", c.mask, full("not", U32, [read(votes)]))),
            c,
            True,
            visible=False,
        )
        inner = c.inner(mask=read(m), uniform=False)
        if self.chance(0.6):
            v = Var(self.name("i"), S32, 0, 3, True)
            inner.counters.append(v)
            body = self.block(inner, self.r.randrange(2)) + self.warp(inner)
            return [
                s,
                decl,
                vote,
                decl_m,
                Stmt("for", [literal(S32, self.r.randint(2, 4))], [body], v, ("up", self.pragma())),
            ]
        return [s, decl, vote, decl_m, *self.warp(inner), *self.warp(inner)]

    def pragma(self) -> str:
        return self.r.choice(["", "", "", "#pragma unroll 1", "#pragma unroll"])

    def loop(self, c: Context) -> list[Stmt]:
        r = self.r
        x = r.random()
        if c.depth > 2:
            return self.assign(c)
        if c.mask is not None and self.warps and x < 0.2:
            return self.masked_loop(c)
        if x < 0.6:
            most = r.choice([2, 3, 4, 5, 7])
            uniform = self.chance(0.5)
            if uniform:
                count = literal(S32, most)
                if c.function:
                    pass
                elif self.chance(0.5):
                    count = binary(
                        "add", binary("and", self.special(r.choice(["n", "q"])), literal(S32, 3)), literal(S32, 1)
                    )
                elif self.chance(0.3):
                    count = binary("and", cast(S32, self.special("bid")), literal(S32, 3))
            else:
                e = self.integer(S32, c, 1)
                t, s = self.declare(S32, binary("and", e, literal(S32, r.choice([1, 3, 7]))), c, True)
                count = read(t)
            v = Var(self.name("i"), r.choice([S32, S32, S32, S32, U32]), 0, 7, True)
            style = r.choice(["up", "up", "ne"] + (["down"] if v.type is S32 else []))
            breaks = self.chance(0.3)
            keep = uniform and not breaks
            inner = c.inner(mask=c.mask if keep else None, uniform=c.uniform and keep, loop=True)
            inner.counters.append(v)
            body = self.block(inner, r.randint(1, 4), breaks)
            if v.type is U32:
                count = cast(U32, count)
            out = [Stmt("for", [count], [body], v, (style, self.pragma()))]
            return out if uniform else [s, *out]
        v = Var(self.name("i"), S32, 0, 7, True)
        inner = c.inner(mask=None, uniform=False, loop=True)
        if x < 0.8:
            inner.counters.append(v)
            cond = self.cond(inner, 2)
            return [Stmt("while", [cond], [self.block(inner, r.randint(1, 3), True)], v, r.choice([2, 4, 8]))]
        cond = self.cond(inner, 2)
        inner.loop = False  # continue would jump to the condition, past declarations that it may use
        return [Stmt("do", [cond], [self.block(inner, r.randint(1, 3))], v, r.choice([2, 4]))]

    def masked_loop(self, c: Context) -> list[Stmt]:
        """A loop that lanes leave one by one; the remaining lanes have an exact mask."""
        assert c.mask
        most = self.r.choice([3, 7])
        count, s = self.declare(S32, binary("and", self.integer(S32, c, 2), literal(S32, most)), c, True)
        m, decl = self.declare(U32, c.mask, c, False, visible=False)
        v = Var(self.name("i"), S32, 0, most, True)
        inner = c.inner(mask=read(m), uniform=False)
        inner.counters.append(v)
        stays = compare("lt", read(v), read(count))
        votes, decl_v = self.declare(U32, None, inner, True, visible=False)
        votes.lo, votes.hi = 0, U32.hi
        head = [
            decl_v, Stmt("warp", [read(m), stays], [], votes, ("ballot",)), Stmt("if", [full("not", BOOL, [stays])], [[Stmt("break")], []]),
            Stmt("set", [read(votes)], [], m),
        ]  # fmt: skip
        body = self.block(inner, self.r.randrange(3)) + self.warp(inner)
        return [
            s,
            decl,
            Stmt("for", [literal(S32, most + 1)], [head + body], v, ("up", self.r.choice(["", "#pragma unroll 1"]))),
        ]

    def switch(self, c: Context) -> list[Stmt]:
        r = self.r
        e = (
            binary("and", self.integer(S32, c, 2), literal(S32, 7))
            if self.chance(0.7)
            else self.integer(r.choice([S32, U8, S8]), c, 1)
        )
        values: list[int | None] = list(r.sample(range(8), r.randint(2, 5)))
        if self.chance(0.7):
            values.insert(r.randrange(len(values) + 1), None)
        inner = dict(mask=None, uniform=False, loop=False)
        bodies = [self.block(c.inner(**inner), r.randint(0, 2)) for _ in values]
        return [Stmt("switch", [e], bodies, None, [(v, self.chance(0.2)) for v in values])]

    def result_of(self, t: Type, c: Context) -> tuple[Var, list[Stmt]]:
        """A variable for a result: an existing one, or a new one."""
        own = [v for v in self.assignable(c) if v.type is t]
        if own and self.chance(0.7):
            return self.r.choice(own), []
        e = self.expr(t, c, 0)
        v, s = self.declare(t, e, c)
        return v, [s]

    def warp(self, c: Context) -> list[Stmt]:
        r = self.r
        mask = c.mask
        assert mask
        which = r.random()
        if which < 0.40:
            t = r.choice([U32, U32, S32, U64, S64] + ([F32, F64] if self.floats else []))
            v, first = self.result_of(t, c)
            kind, width = r.choice(["idx", "up", "down", "xor", "xor"]), r.choice([32, 32, 32, 16, 8, 4])
            if kind == "idx":
                by = (
                    literal(U32, r.randrange(32))
                    if self.chance(0.4)
                    else binary("and", self.integer(U32, c, 1), literal(U32, 31))
                )
            else:
                by = (
                    literal(U32, r.choice([1, 2, 4, 8, 16, 3, 7]))
                    if self.chance(0.7) or kind == "xor"
                    else binary("and", cast(U32, self.uniform_value()), literal(U32, 31))
                )
            # Used twice, so it must be a variable.
            src = read(r.choice(self.of_type(t, c))) if self.of_type(t, c) else None
            if src is None:
                w, decl = self.declare(t, self.expr(t, c, 1), c)
                first.append(decl)
                src = read(w)
            if by.op != "lit":
                w, decl = self.declare(U32, by, c, True)
                first.append(decl)
                by = read(w)
            return [*first, Stmt("warp", [mask, src, by], [], v, ("shfl", kind, width))]
        if which < 0.55:
            kind = r.choice(["ballot", "any", "all"])
            v, first = self.result_of(r.choice([U32, S32, U64]), c)
            return [*first, Stmt("warp", [mask, self.cond(c, 2)], [], v, (kind,))]
        if which < 0.64:
            t = r.choice([U32, U64])
            v, first = self.result_of(U32, c)
            e = (
                binary("and", self.integer(t, c, 2), literal(t, r.choice([1, 3, 7, 0])))
                if self.chance(0.7)
                else self.integer(t, c, 1)
            )
            return [*first, Stmt("warp", [mask, e], [], v, (r.choice(["match_any", "match_all"]),))]
        if which < 0.76:
            kind = r.choice(["add", "min", "max", "and", "or", "xor"])
            t = r.choice([U32, S32]) if kind in ("add", "min", "max") else U32
            v, first = self.result_of(t, c)
            return [*first, Stmt("warp", [mask, self.integer(t, c, 2)], [], v, ("reduce", kind))]
        if which < 0.93:
            kind = r.choice(["add", "or", "xor", "ballot", "any", "all"])
            v, first = self.result_of(U32, c)
            a, b = (self.expr(BOOL if kind in ("ballot", "any", "all") else U32, c, 1) for _ in range(2))
            return [*first, Stmt("warp", [mask, self.cond(c, 1), a, b], [], v, ("split", kind))]
        if self.warp_shared and c.uniform:
            return self.warp_exchange(c)
        return [Stmt("warp", [mask], [], None, ("syncwarp",))]

    def uniform_value(self) -> Expr:
        return self.special(self.r.choice(["n", "q", "bid"]))

    def warp_exchange(self, c: Context) -> list[Stmt]:
        """Shared memory between the lanes of a warp, ordered by __syncwarp alone."""
        a = self.warp_shared
        assert a and c.mask
        v, first = self.result_of(a.type, c)
        barrier = Stmt("warp", [c.mask], [], None, ("syncwarp",))
        lane = binary("and", self.integer(U32, c, 1), literal(U32, 31))
        most = literal(U32, self.k.threads - 1)
        other = full(
            "min", U32, [binary("add", binary("and", self.special("tid"), literal(U32, 0xFFFFFFE0)), lane), most]
        )
        return [
            *first,
            barrier,
            Stmt("store", [self.special("tid"), self.expr(a.type, c, 2)], [], None, a),
            barrier,
            Stmt("set", [Expr("load", a.type, [other], a, a.type.lo, a.type.hi)], [], v),
        ]

    def permuted(self, size: int) -> Expr:
        """A number from 0 to size - 1, different for each thread of the block."""
        tid, n = self.special("tid"), self.k.threads
        r = self.r
        x = r.random()
        if x < 0.3:
            return tid
        if x < 0.45:
            return binary("sub", literal(U32, n - 1), tid)
        if x < 0.65 and n & (n - 1) == 0 and n > 1:
            return binary("xor", tid, literal(U32, r.randrange(1, n)))
        if x < 0.85:
            q, room = self.special("q"), size - n
            e = binary("sub", cast(S32, tid), q)
            return binary("add", e, literal(S32, self.k.q + r.randrange(room + 1)))
        e = binary("sub", cast(S32, tid), binary("div", self.special("n"), literal(S32, 4)))
        return binary("add", e, literal(S32, self.k.n // 4))

    def exchange(self, c: Context) -> list[Stmt]:
        """Values pass through shared memory between two barriers."""
        a = self.r.choice(self.shared)
        sync = Stmt("sync")
        store = Stmt("store", [self.permuted(a.size), self.no_shared(a.type, c)], [], None, a)
        middle: list[Stmt] = []
        if self.chance(0.3):
            store = Stmt("if", [self.plain_cond(c)], [[store], []])
        out = [sync, store, *middle, Stmt("sync")]
        own = [v for v in self.assignable(c) if not v.type.floating and not a.type.floating]
        if own:
            v = self.r.choice(own)
            out.append(
                Stmt(
                    "set",
                    [binary("add", read(v), cast(v.type, full("load", a.type, [self.index(a.size, c, 1)], a)))],
                    [],
                    v,
                )
            )
        return out

    def no_shared(self, t: Type, c: Context) -> Expr:
        """An expression that reads no shared memory, for positions where another thread may write."""
        shared, self.shared = self.shared, []
        try:
            return self.expr(t, c, 2)
        finally:
            self.shared = shared

    def plain_cond(self, c: Context) -> Expr:
        shared, self.shared = self.shared, []
        try:
            return self.cond(c, 1)
        finally:
            self.shared = shared

    def block_vote(self, c: Context) -> list[Stmt]:
        v, first = self.result_of(self.r.choice([S32, U32]), c)
        return [*first, Stmt("sync", [self.cond(c, 1)], [], v, self.r.choice(["count", "and", "or"]))]

    def atomic(self, c: Context) -> list[Stmt]:
        places = self.acc + self.sacc
        if not places or c.function:
            return self.assign(c)
        a = self.r.choice(places)
        i = self.index(a.size, c, 1) if self.chance(0.6) else literal(U32, self.r.randrange(a.size))
        if a.op == "inc":
            return [Stmt("atomic", [i, literal(U32, 12)], [], None, (a, "plain"))]
        if a.type.floating:  # small integers: their sum is exact in any order
            value = cast(a.type, binary("and", self.integer(S32, c, 1), literal(S32, 15)))
        else:
            value = self.expr(a.type, c, 2)
        how = "cas" if a.type in (U32, U64) and self.chance(0.1) else "plain"
        return [Stmt("atomic", [i, value], [], None, (a, how))]

    def stencil(self, c: Context) -> list[Stmt]:
        """Reads of neighbours; the middle one only under a condition."""
        r = self.r
        a = r.choice([x for x in self.ins if not x.type.floating])
        t = r.choice([S64, U64, S32, U32])
        g = cast(S32, self.special("gid"))

        def at(k: int) -> Expr:
            return cast(t, full("load", a.type, [binary("add", g, literal(S32, k)) if k else g], a))

        out = []
        k = r.randrange(4)
        names = []
        for off in (k, k + 2):
            v, s = self.declare(t, at(off), c, True)
            out.append(s)
            names.append(v)
        j, s = self.declare(
            S32,
            binary(
                "sub",
                cast(S32, self.special(r.choice(["tid", "gid", "lane", "tx"]))),
                literal(S32, r.choice([1, 3, 5, 17])),
            ),
            c,
            True,
        )
        out.append(s)
        y, s = self.declare(t, self.value(t), c)
        out.append(s)
        cond = compare(r.choice(["ge", "lt", "gt"]), read(j), literal(S32, r.choice([0, 0, 1, 4])))
        e = binary("add", at(k + 1), binary("mul", cast(t, read(j)), literal(t, r.choice([1, 3, 7]))))
        out.append(Stmt("if", [cond], [[Stmt("set", [e], [], y)], []]))
        _z, s = self.declare(t, binary("add", binary("add", read(y), read(names[0])), read(names[1])), c)
        out.append(s)
        return out

    def exit(self, c: Context) -> list[Stmt]:
        """Some threads exit; the others continue with an exact mask and synchronize at barriers without them."""
        self.k.exits = True
        flag, s = self.declare(BOOL, self.cond(c, 2), c, True)
        out = [s]
        if c.mask is not None:
            votes, decl = self.declare(U32, None, c, True, visible=False)
            votes.lo, votes.hi = 0, U32.hi
            out += [decl, Stmt("warp", [c.mask, full("not", BOOL, [read(flag)])], [], votes, ("ballot",))]
            c.mask = read(votes)
        return [*out, Stmt("if", [read(flag)], [[*self.store(c.inner(mask=None, uniform=False)), Stmt("return")], []])]

    def leave(self, c: Context) -> list[Stmt]:
        """Threads exit early."""
        cond = self.cond(c, 2)
        first = self.store(c.inner(mask=None, uniform=False))
        return [Stmt("if", [cond], [[*first, Stmt("return")], []])]

    def block(self, c: Context, count: int, breaks: bool = False) -> list[Stmt]:
        out: list[Stmt] = []
        r = self.r
        outer = self.assignable(c)
        before = len(c.vars)
        for _ in range(count):
            self.budget -= 1
            if self.budget < 0:
                break
            choices: list[tuple[float, Callable[[Context], list[Stmt]]]] = [(5, self.assign), (3, self.new_variable)]
            if c.depth < 4:
                choices += [(3, self.branch), (1.6, self.loop), (0.6, self.switch)]
            if c.depth < 3:
                choices += [(1.2, self.guarded)]
            if not c.function:
                choices += [(1.5, self.store), (0.4, self.local_array), (1, self.atomic), (0.7, self.stencil)]
                if c.mask is not None and self.warps:
                    choices += [(2.5, self.warp), (0.6, self.chosen_mask)]
                if c.uniform and self.shared:
                    choices += [(1.5, self.exchange)]
                if c.uniform and not self.k.exits:
                    choices += [(0.3, self.block_vote)]
                if self.idioms and c.depth < 3:
                    shapes = idioms.ANYWHERE + (
                        idioms.ALL_THREADS if c.uniform and c.depth < 2 and not self.k.exits else ()
                    )
                    choices += [(w * self.idioms, functools.partial(shape, self)) for w, shape in shapes]
            weights = [w for w, _ in choices]
            out += r.choices([f for _, f in choices], weights)[0](c)
            if breaks and c.loop and self.chance(0.35):
                out.append(Stmt("if", [self.cond(c, 1)], [[Stmt(r.choice(["break", "continue"]))], []]))
        if c.depth:  # the result is visible outside
            out += self.shown(c.vars[before:], outer)
        return out

    def shown(self, inner: list[Var], outer: list[Var]) -> list[Stmt]:
        out = []
        for v in inner:
            targets = [w for w in outer if w.type.floating == v.type.floating]
            if targets and self.chance(0.8):
                w = self.r.choice(targets)
                op = self.r.choice(["add", "sub"]) if v.type.floating else self.r.choice(["add", "sub", "xor"])
                out.append(Stmt("set", [binary(op, read(w), cast(w.type, read(v)))], [], w))
        return out

    # -- the whole --

    def device_function(self) -> Function:
        r = self.r
        t = r.choice([U32, S32, S64, U8, S16] + ([F32] if self.floats else []))
        params = [Var(self.name("p"), self.any_type()) for _ in range(r.randint(1, 3))]
        f = Function(
            self.name(f"{self.k.name}_f"),
            t,
            params,
            [],
            literal(t, 0),
            r.choice(["", "__noinline__", "__noinline__", "__forceinline__"]),
        )
        c = Context(list(params), function=f)
        c.functions = list(self.k.functions)
        f.body = self.block(c, r.randint(0, 4))
        if self.chance(0.3):
            f.body.append(Stmt("if", [self.cond(c, 1)], [[Stmt("return", [self.expr(t, c, 1)])], []]))
        f.result = self.expr(t, c, 2)
        return f

    def program(self) -> Kernel:
        r, k = self.r, self.k
        n = k.threads
        if self.chance(0.4):
            t = r.choice([U32, S32, S16, U8])
            size = r.choice([8, 16, 64])
            self.const = Array(
                self.name(f"{k.name}_c"), t, size, "const", values=tuple(int(self.value(t).data) for _ in range(size))
            )
            k.arrays.append(self.const)
        for _ in range(r.choice([0, 0, 1, 2])):
            t = r.choice([U32, S32, U64, S8, U16])  # no floats: the bits of a NaN would be visible
            self.own.append(Array(self.name("g"), t, r.choice([1, 2, 3, 4, 6]), "own", soa=self.chance(0.4)))
        for _ in range(r.choice([0, 1, 1])):
            op = r.choice(["add", "add", "min", "max", "and", "or", "xor", "inc"])
            t = (
                U32
                if op == "inc"
                else r.choice([U32, U32, S32, U64] if op in ("add", "min", "max", "and", "or", "xor") else [U32])
            )
            if op == "add" and self.chance(0.3):
                t = F32
            if t is S32 and op in ("and", "or", "xor"):
                t = U32
            self.acc.append(Array(self.name("h"), t, r.choice([1, 4, 16]), "acc", op))
        for _ in range(r.choice([0, 1, 1, 2])):
            t = r.choice([U32, U32, S32, U64, S8, U16, S64] + ([F32] if self.floats else []))
            self.shared.append(Array(self.name("t"), t, n + r.choice([0, 0, 1, 5, 32]), "shared"))
        if self.chance(0.3):
            op = r.choice(["add", "max", "xor"])
            self.sacc.append(Array(self.name("w"), r.choice([U32, U32, U64]), r.choice([1, 8]), "sacc", op))
        if self.warps and self.chance(0.3):
            self.warp_shared = Array(self.name("x"), r.choice([U32, S32, U64]), n, "shared", "warp")
        k.arrays += self.own + self.acc + self.shared + self.sacc + ([self.warp_shared] if self.warp_shared else [])
        shared, self.shared = self.shared, []
        for _ in range(r.choice([0, 0, 1, 2])):
            self.budget = 8
            k.functions.append(self.device_function())
        wm = Var("wm", U32, 0, U32.hi, True)
        c = Context([], mask=read(wm) if self.warps else None, uniform=True, functions=list(k.functions))
        self.budget = r.choice([3, 5, 7, 10, 16])
        for _ in range(r.randint(1, 3)):
            k.body += self.new_variable(c)
        for a in shared:  # each element is initialized before the first barrier
            k.body.append(Stmt("store", [self.special("tid"), self.no_shared(a.type, c)], [], None, a))
            left = a.size - n
            if left:
                cond = compare("lt", self.special("tid"), literal(U32, left))
                at = binary("add", self.special("tid"), literal(U32, n))
                if left <= n:
                    k.body.append(Stmt("if", [cond], [[Stmt("store", [at, self.expr(a.type, c, 1)], [], None, a)], []]))
                else:
                    a.size = n
        for a in self.sacc:
            body = [Stmt("store", [literal(U32, j), literal(a.type, 0)], [], None, a) for j in range(a.size)]
            k.body.append(Stmt("if", [compare("eq", self.special("tid"), literal(U32, 0))], [body, []]))
        if self.warp_shared:
            k.body.append(
                Stmt("store", [self.special("tid"), literal(self.warp_shared.type, 1)], [], None, self.warp_shared)
            )
        if shared or self.sacc or self.warp_shared:
            k.body.append(Stmt("sync"))
        self.shared = shared
        if self.chance(0.12):
            k.body += self.block(c, 3) + self.exit(c)
        k.body += self.block(c, 30)
        if self.sacc:
            k.body.append(Stmt("sync"))
            for a in self.sacc:
                _v, s = self.declare(a.type, full("load", a.type, [self.index(a.size, Context([]), 0)], a), c, True)
                k.body.append(s)
            self.sacc = []
        if self.chance(0.2):
            c.mask, c.uniform = None, False
            k.body += self.leave(c)
            self.budget = 5
            k.body += self.block(c, 3)
        for guard, known in c.guards:  # makes conditionally assigned variables visible
            inner = c.inner(mask=None, uniform=False, vars=c.vars + known)
            k.body.append(Stmt("if", [guard], [self.uses(known, inner), []]))
        shown = [v for v in c.vars if not v.name.startswith("wm")]
        r.shuffle(shown)
        k.outs = [read(v) for v in shown[:7]] or [cast(U32, self.special("gid"))]
        return k


def kernel_of(seed: int, name: str = "k0") -> Kernel:
    return Generator(seed, name).program()


def options_of(seed: int) -> tuple[str, ...]:
    return random.Random(seed ^ 0x5EED).choice(OPTIONS)
