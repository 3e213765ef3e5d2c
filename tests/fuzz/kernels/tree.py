# SPDX-License-Identifier: Apache-2.0
"""The syntax tree of a random program: generated, evaluated by the model, reduced and printed as CUDA C++.

Expressions and statements have two generic classes, so that the reducer can traverse any program without knowing its operations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Type(NamedTuple):
    name: str  # u8 ... f64, also the NumPy name's pattern
    c: str
    bits: int
    signed: bool
    floating: bool

    @property
    def lo(self) -> int:
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def hi(self) -> int:
        return (1 << (self.bits - 1 if self.signed else self.bits)) - 1

    @property
    def unsigned(self) -> Type:
        return TYPES["u" + self.name[1:]] if self.signed else self

    def __reduce__(self) -> tuple[Any, ...]:
        return (type_named, (self.name,))


TYPES = {
    t.name: t
    for t in (
        Type("u8", "unsigned char", 8, False, False),
        Type("s8", "signed char", 8, True, False),
        Type("u16", "unsigned short", 16, False, False),
        Type("s16", "short", 16, True, False),
        Type("u32", "unsigned", 32, False, False),
        Type("s32", "int", 32, True, False),
        Type("u64", "unsigned long long", 64, False, False),
        Type("s64", "long long", 64, True, False),
        Type("f32", "float", 32, True, True),
        Type("f64", "double", 64, True, True),
        Type("bool", "bool", 1, False, False),
    )
}


def type_named(name: str) -> Type:
    """Makes an unpickled type the object of this table."""
    return TYPES[name]


U8, S8, U16, S16, U32, S32, U64, S64, F32, F64, BOOL = TYPES.values()
INTEGERS = (U8, S8, U16, S16, U32, S32, U64, S64)
SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "rem": "%", "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "land": "&&", "lor": "||",
}  # fmt: skip
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


@dataclass(eq=False)
class Var:
    """A variable of a kernel or function. `lo` and `hi` bound its value if it is never reassigned."""

    name: str
    type: Type
    lo: int = 0
    hi: int = 0
    fixed: bool = False


@dataclass(eq=False)
class Array:
    """Memory. `space`: in (read only), const, local, shared, own (global, elements of this thread), acc and sacc (atomics alone)."""

    name: str
    type: Type
    size: int
    space: str
    op: str = ""  # of acc and sacc: the one atomic operation that may be used on it
    soa: bool = False  # of own: element j of thread g is at g + j * threads, else at g * size + j
    values: tuple[int, ...] = ()  # of const


@dataclass(eq=False)
class Function:
    name: str
    type: Type
    params: list[Var]
    body: list[Stmt]
    result: Expr
    inline: str = ""  # "", __noinline__ or __forceinline__


@dataclass(eq=False)
class Expr:
    op: str
    type: Type
    kids: list[Expr] = field(default_factory=list)
    data: Any = None
    lo: int = 0
    hi: int = 0


@dataclass(eq=False)
class Stmt:
    op: str
    exprs: list[Expr] = field(default_factory=list)
    bodies: list[list[Stmt]] = field(default_factory=list)
    var: Var | None = None
    data: Any = None


@dataclass(eq=False)
class Kernel:
    """One program with its launch."""

    name: str
    seed: int
    block: tuple[int, int, int] = (32, 1, 1)
    grid: tuple[int, int, int] = (1, 1, 1)
    functions: list[Function] = field(default_factory=list)
    arrays: list[Array] = field(default_factory=list)
    body: list[Stmt] = field(default_factory=list)
    outs: list[Expr] = field(default_factory=list)
    n: int = 0
    q: int = 0
    aos: bool = False  # results of a thread are contiguous
    restrict: bool = False
    inputs: int = 0  # which set of inputs
    exits: bool = False  # threads may exit before a barrier that others reach

    @property
    def threads(self) -> int:
        return math.prod(self.block)

    @property
    def blocks(self) -> int:
        return math.prod(self.grid)


def literal(type: Type, value: float) -> Expr:
    if type.floating:
        return Expr("lit", type, data=float(value))
    value = int(value)
    return Expr("lit", type, data=value, lo=value, hi=value)


def read(var: Var) -> Expr:
    if var.type.floating:
        return Expr("var", var.type, data=var)
    return Expr(
        "var", var.type, data=var, lo=var.lo if var.fixed else var.type.lo, hi=var.hi if var.fixed else var.type.hi
    )


def _corners(op: str, a: Expr, b: Expr) -> tuple[int, int] | None:
    """Bounds of the mathematical result, None: unknown."""
    if op == "add":
        return a.lo + b.lo, a.hi + b.hi
    if op == "sub":
        return a.lo - b.hi, a.hi - b.lo
    if op == "mul":
        products = [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
        return min(products), max(products)
    if op == "and" and min(a.lo, b.lo) >= 0:
        return 0, min(a.hi, b.hi)
    if op == "and" and max(a.lo, b.lo) >= 0:
        return 0, b.hi if b.lo >= 0 else a.hi
    if op in ("or", "xor") and min(a.lo, b.lo) >= 0:
        return (max(a.lo, b.lo) if op == "or" else 0), (1 << max(a.hi.bit_length(), b.hi.bit_length())) - 1
    if op == "div" and b.lo > 0:
        quotients = [int(abs(x) // y) * (1 if x >= 0 else -1) for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
        return min(*quotients, 0 if a.lo <= 0 <= a.hi else quotients[0]), max(
            *quotients, 0 if a.lo <= 0 <= a.hi else quotients[0]
        )
    if op == "rem" and b.lo > 0:
        return (0 if a.lo >= 0 else max(a.lo, 1 - b.hi)), (0 if a.hi <= 0 else min(a.hi, b.hi - 1))
    if op == "shr" and a.lo >= 0 and b.lo >= 0:
        return a.lo >> min(b.hi, 64), a.hi >> b.lo
    if op == "shl" and a.lo >= 0 and b.lo >= 0 and b.hi <= 64:
        return a.lo << b.lo, a.hi << b.hi
    return None


def binary(op: str, a: Expr, b: Expr) -> Expr:
    """An operation on two operands of one type (shifts: the second is any unsigned type). `data`: no signed overflow is possible."""
    if a.type.floating:
        return Expr(op, a.type, [a, b])
    bounds = _corners(op, a, b)
    plain = bounds is not None and a.type.lo <= bounds[0] and bounds[1] <= a.type.hi
    lo, hi = bounds if plain and bounds else (a.type.lo, a.type.hi)
    return Expr(op, a.type, [a, b], plain, lo, hi)


def compare(op: str, a: Expr, b: Expr) -> Expr:
    return Expr(op, BOOL, [a, b], lo=0, hi=1)


def cast(type: Type, a: Expr) -> Expr:
    """Conversions between integers, from integers to floats and between floats; never from floats to integers (see `f2i`)."""
    if type is a.type:
        return a
    if type.floating:
        return Expr("cast", type, [a])
    fits = type.lo <= a.lo and a.hi <= type.hi
    return Expr("cast", type, [a], lo=a.lo if fits else type.lo, hi=a.hi if fits else type.hi)


def full(op: str, type: Type, kids: list[Expr], data: Any = None) -> Expr:
    """An operation whose bounds are those of its type."""
    if type.floating:
        return Expr(op, type, kids, data)
    return Expr(op, type, kids, data, 0 if type is BOOL else type.lo, 1 if type is BOOL else type.hi)


def select(cond: Expr, a: Expr, b: Expr) -> Expr:
    return Expr("sel", a.type, [cond, a, b], lo=min(a.lo, b.lo), hi=max(a.hi, b.hi))


SPECIAL = {  # special values: how they are spelled in a kernel
    "tid": "tid", "lane": "lane", "warp": "(tid >> 5)", "gid": "gid", "bid": "bid",
    "tx": "threadIdx.x", "ty": "threadIdx.y", "tz": "threadIdx.z", "bx": "blockIdx.x", "by": "blockIdx.y",
    "ntx": "blockDim.x", "ngx": "gridDim.x", "n": "n", "q": "q",
}  # fmt: skip


def special(kernel: Kernel, name: str) -> Expr:
    """Unsigned, but for the parameters n and q, whose values the launch fixes."""
    bx, by, bz = kernel.block
    gx, gy, _ = kernel.grid
    most = {
        "tid": kernel.threads - 1, "lane": min(31, kernel.threads - 1), "warp": (kernel.threads - 1) // 32,
        "gid": kernel.threads * kernel.blocks - 1, "bid": kernel.blocks - 1,
        "tx": bx - 1, "ty": by - 1, "tz": bz - 1, "bx": gx - 1, "by": gy - 1,
    }  # fmt: skip
    exact = {"ntx": bx, "ngx": gx, "n": kernel.n, "q": kernel.q}
    if name in exact:
        return Expr("special", S32 if name in "nq" else U32, [], name, exact[name], exact[name])
    return Expr("special", U32, [], name, 0, most[name])


def walk(stmts: list[Stmt]) -> Iterator[Stmt]:
    for s in stmts:
        yield s
        for body in s.bodies:
            yield from walk(body)


def parts(e: Expr) -> Iterator[Expr]:
    yield e
    for kid in e.kids:
        yield from parts(kid)


def size_of(kernel: Kernel) -> int:
    """Number of nodes, which reduction minimizes."""
    total = len(kernel.arrays) + sum(len(f.params) for f in kernel.functions) + kernel.threads * kernel.blocks // 16
    for stmts in (kernel.body, *(f.body for f in kernel.functions)):
        for s in walk(stmts):
            total += 2 + sum(1 for e in s.exprs for _ in parts(e))
    return total + sum(1 for e in (*kernel.outs, *(f.result for f in kernel.functions)) for _ in parts(e))
