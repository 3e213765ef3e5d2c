# SPDX-License-Identifier: Apache-2.0
"""Executes a program according to the CUDA and PTX manuals with NumPy, all threads of the grid at once.

It shares no code with the CPU device. It also validates programs: it raises `Invalid` if a program has no defined result (use of an
undefined value, out-of-bounds index, data race, barrier or warp operation that only some of its threads execute), so that neither the
generator nor the reducer returns such a program.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
from typing import Any

import numpy as np

from .cuda import bytes_of
from .tree import BOOL, COMPARISONS, F32, F64, S32, Array, Expr, Function, Kernel, Stmt, Type, Var

Values = np.ndarray
NUMPY = {
    "u8": np.uint8, "s8": np.int8, "u16": np.uint16, "s16": np.int16, "u32": np.uint32, "s32": np.int32, "u64": np.uint64,
    "s64": np.int64, "f32": np.float32, "f64": np.float64, "bool": np.bool_,
}  # fmt: skip
CAPACITY = 2048  # elements of each input array
OUT_FILL = 0xA5A5A5A5A5A5A5A5
MOST_STEPS = 60000  # limit per program; more is an error of the generator or takes too long


class Invalid(Exception):
    """The program has no defined result."""


@functools.cache
def _libm() -> Any:
    lib = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")
    lib.fma.restype, lib.fma.argtypes = ctypes.c_double, [ctypes.c_double] * 3
    lib.fmaf.restype, lib.fmaf.argtypes = ctypes.c_float, [ctypes.c_float] * 3
    return lib


@functools.cache
def inputs(number: int) -> dict[str, Values]:
    """A set of input arrays: random values, small values, or many special values."""
    rng = np.random.default_rng(1000 + number)
    found: dict[str, Values] = {}
    for name, type in (("a32", "u32"), ("b32", "s32"), ("a64", "u64"), ("a8", "u8"), ("a16", "s16")):
        dtype = np.dtype(NUMPY[type])
        raw = rng.integers(0, 256, CAPACITY * dtype.itemsize, np.uint8).view(dtype)
        small = rng.integers(0, 100, CAPACITY).astype(dtype)
        info = np.iinfo(dtype)
        edges = np.array([0, 1, 2, 31, 32, info.max, info.min, info.max - 1, info.max // 2], dtype)
        pick = rng.integers(0, 10, CAPACITY)
        many = (3, 1, 8)[number % 3]
        found[name] = np.where(pick < many, small, np.where(pick == 9, rng.choice(edges, CAPACITY), raw)).astype(dtype)
    for name, type in (("af", "f32"), ("ad", "f64")):
        dtype = np.dtype(NUMPY[type])
        plain = (rng.normal(size=CAPACITY) * 10.0 ** rng.integers(-3, 4, CAPACITY)).astype(dtype)
        tiny = np.finfo(dtype).tiny
        edges = np.array(
            [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, tiny, tiny / 4, 2.0**31, -(2.0**63), 0.5, 1.5, 2.5], dtype
        )
        found[name] = np.where(rng.integers(0, 12, CAPACITY) == 0, rng.choice(edges, CAPACITY), plain).astype(dtype)
    return found


def memory_sizes(kernel: Kernel) -> tuple[int, int, int]:
    """Bytes of out, own and acc that a program writes."""
    own = sum(bytes_of(a, kernel) for a in kernel.arrays if a.space == "own")
    acc = sum(bytes_of(a, kernel) for a in kernel.arrays if a.space == "acc")
    return len(kernel.outs) * kernel.threads * kernel.blocks * 8, own, acc


def initial(size: int, what: str) -> Values:
    """The initial bytes of out, own and acc."""
    if what == "out":
        return np.full(size // 8, OUT_FILL, np.uint64).view(np.uint8)
    if what == "acc":
        return np.zeros(size, np.uint8)
    return (np.arange(size, dtype=np.uint32) * np.uint32(2654435761) >> np.uint32(13)).astype(np.uint8)


def _trunc_div(a: Values, b: Values) -> Values:
    q = np.abs(a) // np.abs(b)
    return np.where((a < 0) != (b < 0), -q, q)


class Frame:
    """Variables of a kernel or of one call, and the threads that have initialized each."""

    def __init__(self) -> None:
        self.values: dict[Var, Values] = {}
        self.known: dict[Var, Values] = {}
        self.returned: Values | None = None
        self.result: Values | None = None


class Loop:
    def __init__(self, size: int) -> None:
        self.broken = np.zeros(size, bool)
        self.skipped = np.zeros(size, bool)


class Model:
    def __init__(self, kernel: Kernel) -> None:
        self.k = kernel
        self.size = kernel.threads * kernel.blocks
        self.steps = 0
        g = np.arange(self.size, dtype=np.uint32)
        self.block, tid = g // kernel.threads, (g % kernel.threads).astype(np.uint32)
        self.tid = tid
        bx, by, _ = kernel.block
        gx = kernel.grid[0]
        self.special = {
            "gid": g, "tid": tid, "bid": self.block.astype(np.uint32), "lane": tid & np.uint32(31), "warp": tid >> np.uint32(5),
            "tx": (tid % bx).astype(np.uint32), "ty": (tid // bx % by).astype(np.uint32), "tz": (tid // (bx * by)).astype(np.uint32),
            "bx": (self.block % gx).astype(np.uint32), "by": (self.block // gx).astype(np.uint32),
        }  # fmt: skip
        for name, value in (("ntx", bx), ("ngx", gx)):
            self.special[name] = np.full(self.size, value, np.uint32)
        for name, value in (("n", kernel.n), ("q", kernel.q)):
            self.special[name] = np.full(self.size, value, np.int32)
        self.warps = (kernel.threads + 31) // 32
        self.seat = self.block * (self.warps * 32) + tid  # in an array of whole warps
        rest = kernel.threads % 32
        self.wm = np.full(self.size, 0xFFFFFFFF, np.uint32)
        if rest:
            self.wm[tid >= kernel.threads - rest] = (1 << rest) - 1
        self.given = inputs(kernel.inputs)
        out, own, acc = memory_sizes(kernel)
        self.out = initial(out, "out").view(np.uint64).copy()
        self.raw = {"own": initial(own, "own").copy(), "acc": initial(acc, "acc").copy()}
        self.memory: dict[Array, Values] = {}
        self.writer: dict[Array, Values] = {}
        self.reader: dict[Array, Values] = {}
        place = {"own": 0, "acc": 0}
        for a in kernel.arrays:
            if a.space in ("shared", "sacc"):
                self.memory[a] = np.zeros((kernel.blocks, a.size), NUMPY[a.type.name])
                self.writer[a] = np.full((kernel.blocks, a.size), -2, np.int64)  # never written
                self.reader[a] = np.full((kernel.blocks, a.size), -1, np.int64)
            elif a.space in ("own", "acc"):
                view = self.raw[a.space][place[a.space] : place[a.space] + bytes_of(a, kernel)].view(NUMPY[a.type.name])
                self.memory[a] = view
                place[a.space] += bytes_of(a, kernel)
            elif a.space == "const":
                self.memory[a] = np.array(a.values, NUMPY[a.type.name])
        self.exited = np.zeros(self.size, bool)

    # -- expressions --

    def eval(self, e: Expr, f: Frame, m: Values) -> Values:
        t, op = e.type, e.op
        if op == "lit":
            return np.full(self.size, e.data, NUMPY[t.name])
        if op == "var":
            if e.data.name == "wm":
                return self.wm
            value = f.values.get(e.data)
            if value is None and not m.any():
                return np.zeros(self.size, NUMPY[t.name])
            if value is None or not np.all(f.known[e.data] | ~m):
                raise Invalid(f"{e.data.name} is used before it has a value")
            return value
        if op == "special":
            return self.special[e.data]
        if op in ("sel", "land", "lor"):
            return self.chosen(e, f, m)
        k = [self.eval(kid, f, m) for kid in e.kids]
        if op in COMPARISONS:
            a, b = k
            return {
                "lt": np.less,
                "le": np.less_equal,
                "gt": np.greater,
                "ge": np.greater_equal,
                "eq": np.equal,
                "ne": np.not_equal,
            }[op](a, b)
        if op == "cast":
            return self.cast(k[0], e.kids[0].type, t)
        if op in ("load", "vload", "gload"):
            return self.load(e, k, m)
        if op == "call":
            return self.call(e.data, k, m)
        if t.floating:
            return self.floating(e, k)
        return self.integer(e, k, m)

    def chosen(self, e: Expr, f: Frame, m: Values) -> Values:
        """Operands that are evaluated by some threads only."""
        first = self.eval(e.kids[0], f, m)
        if e.op == "sel":
            a = self.eval(e.kids[1], f, m & first)
            b = self.eval(e.kids[2], f, m & ~first)
            return np.where(first, a, b)
        second = self.eval(e.kids[1], f, m & first if e.op == "land" else m & ~first)
        return first & second if e.op == "land" else first | second

    def cast(self, a: Values, source: Type, target: Type) -> Values:
        if target is BOOL:
            return a != 0
        return a.astype(NUMPY[target.name])

    def integer(self, e: Expr, k: list[Values], m: Values) -> Values:
        t, op = e.type, e.op
        dtype = NUMPY[t.name]
        if op == "f2i":
            return self.to_integer(k[0], e.kids[0].type, t)
        if op == "bits":
            x = k[0]
            if x.dtype == np.float32:
                return np.where(np.isnan(x), np.uint32(0x7FC00000), x.view(np.uint32)).astype(np.uint64)
            return np.where(np.isnan(x), np.uint64(0x7FF8000000000000), x.view(np.uint64))
        if t is BOOL:
            if op == "not":
                return ~k[0]
            return {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[op](k[0], k[1])
        if op == "not":
            return ~k[0]
        if op == "neg":
            return (np.zeros_like(k[0]) - k[0]).astype(dtype)
        if op == "abs":
            return np.abs(k[0])
        a = k[0]
        if op in ("add", "sub", "mul", "and", "or", "xor"):
            ufunc = {
                "add": np.add,
                "sub": np.subtract,
                "mul": np.multiply,
                "and": np.bitwise_and,
                "or": np.bitwise_or,
                "xor": np.bitwise_xor,
            }[op]
            return ufunc(a, k[1]).astype(dtype)
        if op in ("shl", "shr"):
            n = k[1].astype(dtype)
            if np.any((k[1].astype(np.uint64) >= t.bits) & m):
                raise Invalid("a shift by the width of the type or more")
            n = np.where(n.astype(np.uint64) < t.bits, n, 0).astype(dtype)
            return (np.left_shift if op == "shl" else np.right_shift)(a, n).astype(dtype)
        if op in ("div", "rem"):
            b = k[1]
            if np.any((b == 0) & m):
                raise Invalid("a division by zero")
            b = np.where(b == 0, 1, b).astype(dtype)
            if not t.signed:
                return a // b if op == "div" else a % b
            if t.bits >= 32 and np.any((a == t.lo) & (b == -1) & m):
                raise Invalid("a quotient that overflows")
            wide_a, wide_b = a.astype(np.int64), b.astype(np.int64)
            if np.any(wide_a == np.iinfo(np.int64).min):
                low = wide_a == np.iinfo(np.int64).min
                objects = [int(x) for x in wide_a]
                q = np.array(
                    [
                        0 if not bad else abs(x) // abs(int(y)) * (1 if y < 0 else -1)
                        for x, y, bad in zip(objects, wide_b, low, strict=True)
                    ],
                    object,
                )
                q = np.where(low, q, _trunc_div(np.where(low, 1, wide_a), wide_b).astype(object))
                q = np.array([((int(x) + 2**63) % 2**64) - 2**63 for x in q], np.int64)
            else:
                q = _trunc_div(wide_a, wide_b)
            return (q if op == "div" else wide_a - q * wide_b).astype(dtype)
        if op in ("min", "max"):
            return (np.minimum if op == "min" else np.maximum)(a, k[1])
        if op == "mulhi":
            if t.bits == 32:
                wide = np.int64 if t.signed else np.uint64
                return ((a.astype(wide) * k[1].astype(wide)) >> wide(32)).astype(dtype)
            products = [(int(x) * int(y)) >> 64 for x, y in zip(a, k[1], strict=True)]
            return np.array([p & (2**64 - 1) for p in products], np.uint64).view(dtype)
        return self.bitwise(e, k)

    def bitwise(self, e: Expr, k: list[Values]) -> Values:
        op, bits, dtype = e.op, e.kids[0].type.bits, NUMPY[e.type.name]
        a = k[0].astype(np.uint64) & np.uint64(2**bits - 1)
        u, one = np.uint64, np.uint64(1)
        if op == "popc":
            return sum(((a >> u(i)) & one for i in range(bits)), np.zeros(self.size, np.uint64)).astype(dtype)
        if op in ("clz", "ffs"):
            found = np.full(self.size, bits if op == "clz" else 0, np.int64)
            order = range(bits) if op == "clz" else range(bits - 1, -1, -1)
            for i in order:
                found = np.where((a >> u(i)) & one == one, bits - 1 - i if op == "clz" else i + 1, found)
            return found.astype(dtype)
        if op == "brev":
            r = np.zeros(self.size, np.uint64)
            for i in range(bits):
                r |= ((a >> u(i)) & one) << u(bits - 1 - i)
            return r.astype(dtype)
        b = k[1].astype(np.uint64) & np.uint64(2**32 - 1)
        if op == "perm":
            pool, s = a | b << u(32), k[2].astype(np.uint64) & u(0x7777)  # __byte_perm has no signs, prmt has
            r = np.zeros(self.size, np.uint64)
            for i in range(4):
                nibble = (s >> u(4 * i)) & u(15)
                byte = (pool >> (u(8) * (nibble & u(7)))) & u(255)
                byte = np.where(nibble & u(8) != 0, np.where(byte & u(128) != 0, u(255), u(0)), byte)
                r |= byte << u(8 * i)
            return r.astype(dtype)
        if op in ("fsl", "fsr", "fslc", "fsrc"):
            n = k[2].astype(np.uint64)
            n = np.minimum(n, u(32)) if op.endswith("c") else n & u(31)
            both = a | b << u(32)
            return ((both >> n) if op[2] == "r" else (both << n >> u(32))).astype(np.uint32).astype(dtype)
        x, y = k[0].astype(np.int64), k[1].astype(np.int64)
        if op in ("uhadd", "hadd", "urhadd", "rhadd"):
            return ((x + y + (1 if "rh" in op else 0)) >> 1).astype(dtype)
        if op in ("usad", "sad"):
            return (np.abs(x - y).astype(np.uint64) + k[2].astype(np.uint64)).astype(np.uint32).astype(dtype)
        if op == "umul24":
            return ((a & u(0xFFFFFF)) * (b & u(0xFFFFFF))).astype(np.uint32).astype(dtype)
        if op == "mul24":
            x, y = (x << 40) >> 40, (y << 40) >> 40
            return (x * y).astype(np.uint64).astype(np.uint32).view(np.int32).astype(dtype)
        raise ValueError(f"no such expression: {op}")

    def to_integer(self, x: Values, source: Type, t: Type) -> Values:
        """Saturates; NaN becomes 0, or only the highest bit if one of the types has 64 bits."""
        nan = np.isnan(x)
        y = np.trunc(np.where(nan, 0, x).astype(np.float64))
        low, high = y <= float(t.lo), y >= float(t.hi)
        safe = np.where(low | high, 0, y)
        r = safe.astype(NUMPY[t.name]) if t.signed or t.bits == 32 else safe.astype(np.uint64)
        r = np.where(low, t.lo, np.where(high, t.hi, r).astype(NUMPY[t.name])).astype(NUMPY[t.name])
        wide = source is F64 or t.bits == 64
        special = (t.lo if t.signed else 1 << (t.bits - 1)) if wide else 0
        return np.where(nan, np.array(special, NUMPY[t.name]), r)

    def floating(self, e: Expr, k: list[Values]) -> Values:
        op, dtype = e.op, NUMPY[e.type.name]
        a = k[0]
        if op in ("add", "sub", "mul", "div"):
            return {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[op](a, k[1])
        if op == "neg":
            return -a
        if op == "fma":
            fma = _libm().fmaf if e.type is F32 else _libm().fma
            return np.array([fma(float(x), float(y), float(z)) for x, y, z in zip(*k, strict=True)], dtype)
        if op in ("fmin", "fmax"):
            r = (np.fmin if op == "fmin" else np.fmax)(a, k[1])
            zero = (a == 0) & (k[1] == 0)
            sign = (np.signbit(a) | np.signbit(k[1])) if op == "fmin" else (np.signbit(a) & np.signbit(k[1]))
            return np.where(zero, np.where(sign, dtype(-0.0), dtype(0.0)), r).astype(dtype)
        return {"sqrt": np.sqrt, "fabs": np.abs, "floor": np.floor, "trunc": np.trunc, "rint": np.rint}[op](a)

    # -- memory --

    def indices(self, a: Array, index: Values, m: Values, count: int | None = None) -> Values:
        i = index.astype(np.int64)
        if np.any(((i < 0) | (i >= (count or a.size))) & m):
            raise Invalid(f"an index out of bounds of {a.name}")
        return np.where(m, i, 0)

    def flat(self, a: Array, i: Values) -> Values:
        """The position of element i of this thread."""
        gid = self.special["gid"].astype(np.int64)
        return gid + i * self.size if a.soa else gid * a.size + i

    def note_read(self, a: Array, i: Values, m: Values) -> None:
        b, t, at = self.block[m], self.tid[m].astype(np.int64), i[m]
        writer = self.writer[a][b, at]
        if np.any(writer == -2):
            raise Invalid(f"{a.name} is read where nothing was written")
        if np.any((writer != -1) & (writer != t)):
            raise Invalid(f"threads race for {a.name}")
        before = self.reader[a][b, at]
        self.reader[a][b, at] = t
        many = (self.reader[a][b, at] != t) | ((before != -1) & (before != t))
        self.reader[a][b[many], at[many]] = -3

    def note_write(self, a: Array, i: Values, m: Values) -> None:
        b, t, at = self.block[m], self.tid[m].astype(np.int64), i[m]
        reader, writer = self.reader[a][b, at], self.writer[a][b, at]
        if np.any((reader != -1) & (reader != t)) or np.any((writer >= 0) & (writer != t)):
            raise Invalid(f"threads race for {a.name}")
        self.writer[a][b, at] = t
        if np.any(self.writer[a][b, at] != t):
            raise Invalid(f"two threads write one element of {a.name}")

    def load(self, e: Expr, k: list[Values], m: Values) -> Values:
        if e.op == "gload":
            first, second = (self.one_load(a, k[1], m & (k[0] if a is e.data[0] else ~k[0])) for a in e.data)
            return np.where(k[0], first, second)
        if e.op == "vload":
            a, count, component = e.data
            i = self.indices(a, k[0], m, a.size // count)
            return self.given[a.name][i * count + component]
        return self.one_load(e.data, k[0], m)

    def one_load(self, a: Array, index: Values, m: Values) -> Values:
        i = self.indices(a, index, m)
        if a.space == "local":
            if a not in self.memory:
                raise Invalid(f"{a.name} is read before it is declared")
            return self.memory[a][np.arange(self.size), i]
        if a.space in ("shared", "sacc"):
            self.note_read(a, i, m)
            return self.memory[a][self.block, i]
        if a.space == "own":
            return self.memory[a][self.flat(a, i)]
        return self.given[a.name][i] if a.space == "in" else self.memory[a][i]

    def store(self, a: Array, index: Values, value: Values, m: Values) -> None:
        i = self.indices(a, index, m)
        if a.space == "local":
            if a not in self.memory:
                raise Invalid(f"{a.name} is written before it is declared")
            self.memory[a][np.arange(self.size)[m], i[m]] = value[m]
        elif a.space in ("shared", "sacc"):
            self.note_write(a, i, m)
            self.memory[a][self.block[m], i[m]] = value[m]
        elif a.space == "own":
            self.memory[a][self.flat(a, i)[m]] = value[m]
        else:
            raise Invalid(f"{a.name} cannot be written")

    def atomic(self, s: Stmt, f: Frame, m: Values) -> None:
        a, _ = s.data
        index, value = (self.eval(e, f, m) for e in s.exprs)
        i = self.indices(a, index, m)
        if a.space == "sacc" and np.any((self.writer[a][self.block, i] != -1) & m):
            raise Invalid(f"{a.name} is used without a barrier behind its first values")
        where: Any = (self.block[m], i[m]) if a.space == "sacc" else i[m]
        memory, v = self.memory[a], value[m]
        if a.op == "inc":
            flat = np.ravel_multi_index(where, memory.shape) if a.space == "sacc" else where
            counts = np.bincount(flat, minlength=memory.size).reshape(memory.shape).astype(np.int64)
            limit = int(s.exprs[1].data) + 1
            memory[...] = ((memory.astype(np.int64) + counts) % limit).astype(memory.dtype)
            return
        ufunc = {
            "add": np.add,
            "min": np.minimum,
            "max": np.maximum,
            "and": np.bitwise_and,
            "or": np.bitwise_or,
            "xor": np.bitwise_xor,
        }[a.op]
        ufunc.at(memory, where, v)

    # -- statements --

    def call(self, function: Function, arguments: list[Values], m: Values) -> Values:
        f = Frame()
        f.returned = np.zeros(self.size, bool)
        f.result = np.zeros(self.size, NUMPY[function.type.name])
        for p, value in zip(function.params, arguments, strict=True):
            f.values[p], f.known[p] = value, np.ones(self.size, bool)
        self.run(function.body, f, m, None)
        rest = m & ~f.returned
        return np.where(rest, self.eval(function.result, f, rest), f.result)

    def assign(self, var: Var, value: Values, f: Frame, m: Values) -> None:
        old = f.values.get(var)
        if old is None:
            f.values[var] = value if m.all() else np.where(m, value, np.zeros_like(value))
            f.known[var] = m.copy()
        else:
            f.values[var] = np.where(m, value, old)
            f.known[var] = f.known[var] | m

    def active(self, m: Values, f: Frame, loop: Loop | None) -> Values:
        gone = self.exited if f.returned is None else f.returned
        return m & ~gone if loop is None else m & ~gone & ~loop.broken & ~loop.skipped

    def run(self, stmts: list[Stmt], f: Frame, m: Values, loop: Loop | None) -> None:
        for s in stmts:
            now = self.active(m, f, loop)
            if not now.any():
                return
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise Invalid("too many steps")
            self.statement(s, f, now, loop)

    def statement(self, s: Stmt, f: Frame, m: Values, loop: Loop | None) -> None:
        op = s.op
        if op in ("decl", "set"):
            assert s.var
            if s.exprs:
                self.assign(s.var, self.eval(s.exprs[0], f, m), f, m)
            elif s.var in f.known:
                f.known[s.var] = f.known[s.var] & ~m
        elif op == "store":
            self.store(s.data, self.eval(s.exprs[0], f, m), self.eval(s.exprs[1], f, m), m)
        elif op == "array":
            a = s.data
            first = self.eval(s.exprs[0], f, m)
            dtype = NUMPY[a.type.name]
            if a not in self.memory:
                self.memory[a] = np.zeros((self.size, a.size), dtype)
            fresh = (first[:, None] + np.arange(a.size).astype(dtype)[None, :]).astype(dtype)
            self.memory[a] = np.where(m[:, None], fresh, self.memory[a])
        elif op == "if":
            c = self.eval(s.exprs[0], f, m)
            if (m & c).any():
                self.run(s.bodies[0], f, m & c, loop)
            if (m & ~c).any():
                self.run(s.bodies[1], f, m & ~c, loop)
        elif op in ("for", "while", "do"):
            self.loop(s, f, m)
        elif op == "switch":
            self.switch(s, f, m, loop)
        elif op == "break":
            assert loop
            loop.broken |= m
        elif op == "continue":
            assert loop
            loop.skipped |= m
        elif op == "return":
            if f.returned is None:
                self.exited |= m
            else:
                assert f.result is not None
                f.result = np.where(m, self.eval(s.exprs[0], f, m), f.result)
                f.returned |= m
        elif op == "sync":
            self.sync(s, f, m)
        elif op == "warp":
            self.warp(s, f, m)
        elif op == "atomic":
            self.atomic(s, f, m)
        else:
            raise ValueError(f"no such statement: {op}")

    def loop(self, s: Stmt, f: Frame, m: Values) -> None:
        state = Loop(self.size)
        assert s.var
        turn = 0
        while True:
            now = self.active(m, f, state)
            if not now.any():
                return
            if s.op == "for":
                i, ends = self.counted(s, turn, f, now)
                state.broken |= now & ends
                now = self.active(m, f, state)
                self.assign(s.var, i.astype(NUMPY[s.var.type.name]), f, now)
            elif s.op == "while" or turn:
                if turn >= s.data:
                    return
                self.assign(s.var, np.full(self.size, turn, np.int32), f, now)
                state.broken |= now & ~self.eval(s.exprs[0], f, now)
                now = self.active(m, f, state)
            if not now.any():
                return
            self.run(s.bodies[0], f, now, state)
            state.skipped[:] = False
            turn += 1

    def counted(self, s: Stmt, turn: int, f: Frame, m: Values) -> tuple[Values, Values]:
        """The index of an iteration, and whether the loop has ended. Bounds do not change: their variables are fixed."""
        if turn > CAPACITY:
            raise Invalid("an endless loop")
        bounds = [self.eval(e, f, m).astype(np.int64) for e in s.exprs]
        style = s.data[0]
        if style == "halve":
            i = bounds[0] >> min(turn, 63)
            return i, i <= bounds[1]
        if style == "double":
            i = np.full(self.size, 1 << min(turn, 40), np.int64)
        elif style == "step":
            i = bounds[1] + bounds[2] * turn
        else:
            i = np.full(self.size, turn, np.int64)
        ends = i >= bounds[0]
        return (bounds[0] - 1 - i if style == "down" else i), ends

    def switch(self, s: Stmt, f: Frame, m: Values, loop: Loop | None) -> None:
        value = self.eval(s.exprs[0], f, m)
        chosen = np.zeros(self.size, bool)
        for wanted, _ in s.data:
            if wanted is not None:
                chosen |= value == wanted
        through = np.zeros(self.size, bool)
        for (wanted, falls), body in zip(s.data, s.bodies, strict=True):
            here = m & (through | (~chosen if wanted is None else value == wanted))
            self.run(body, f, here, loop)
            through = here if falls else np.zeros(self.size, bool)

    def sync(self, s: Stmt, f: Frame, m: Values) -> None:
        p = self.eval(s.exprs[0], f, m) if s.var else None
        for b in range(self.k.blocks):
            own = slice(b * self.k.threads, (b + 1) * self.k.threads)
            here = m[own]
            if not here.any():
                continue
            if not np.all(here | self.exited[own]):
                raise Invalid("a barrier that part of the block reaches")
            if not here.all() and not self.k.exits:
                raise Invalid("a barrier behind the end of threads")
            for a in self.writer:
                self.writer[a][b] = np.where(self.writer[a][b] >= 0, -1, self.writer[a][b])
                self.reader[a][b] = -1
        if s.var and p is not None:
            seated = np.where(m, p, False).reshape(self.k.blocks, -1)
            among = m.reshape(self.k.blocks, -1)
            r = {"count": seated.sum(1), "or": seated.any(1), "and": (seated | ~among).all(1)}[s.data].astype(np.int32)
            self.assign(s.var, np.repeat(r, self.k.threads).astype(NUMPY[s.var.type.name]), f, m)

    # -- warps --

    def seats(self, values: Values, fill: Any = 0) -> Values:
        """By warp and lane."""
        r = np.full(self.k.blocks * self.warps * 32, fill, values.dtype)
        r[self.seat] = values
        return r.reshape(-1, 32)

    def warp(self, s: Stmt, f: Frame, m: Values) -> None:
        kind = s.data[0]
        masks = self.seats(self.eval(s.exprs[0], f, m))
        on = self.seats(m, False)
        exists = self.seats(np.ones(self.size, bool), False)
        lanes = np.arange(32, dtype=np.uint32)
        member = ((masks[:, :, None] >> lanes[None, None, :]) & np.uint32(1)).astype(bool)  # [warp, lane, other]
        member &= exists[:, None, :]
        if not np.all(member[:, lanes, lanes] | ~on):
            raise Invalid("a warp operation whose mask lacks its lane")
        met = on[:, None, :] & (masks[:, None, :] == masks[:, :, None])
        if np.any(on[:, :, None] & member & ~met):
            raise Invalid("a warp operation that lanes of its mask do not reach")
        if kind == "syncwarp":
            for a in self.writer:
                if a.op == "warp":  # of the others lanes of other warps may be readers and writers
                    self.settle(a, m)
            return
        assert s.var
        if kind == "split":
            c, a, b = (self.eval(e, f, m) for e in s.exprs[1:])
            value, kind = np.where(c, a, b), s.data[1]
            if kind in ("add", "min", "max", "and", "or", "xor"):
                s = Stmt("warp", s.exprs, [], s.var, ("reduce", kind))
                kind = "reduce"
        else:
            value = self.eval(s.exprs[1], f, m)
        v = self.seats(value)
        if kind == "shfl":
            got = self.shuffle(s, v, member, self.seats(self.eval(s.exprs[2], f, m).astype(np.int64)))
        elif kind in ("ballot", "any", "all"):
            yes = member & (v != 0)[:, None, :]
            bits = (yes.astype(np.uint32) << lanes).sum(2, dtype=np.uint32)
            got = {"ballot": bits, "any": yes.any(2), "all": (yes | ~member).all(2)}[kind]
        elif kind in ("match_any", "match_all"):
            same = member & (v[:, None, :] == v[:, :, None])
            if kind == "match_any":
                got = (same.astype(np.uint32) << lanes).sum(2, dtype=np.uint32)
            else:
                all_same = (same | ~member).all(2)
                got = np.where(all_same, masks + np.uint32(1), np.uint32(0)).astype(np.uint32)
        else:
            got = self.reduced(s.data[1], v, member)
        result = got.reshape(-1)[self.seat].astype(NUMPY[s.var.type.name])
        self.assign(s.var, result, f, m)

    def settle(self, a: Array, m: Values) -> None:
        """Orders earlier accesses of these threads, within each warp's part, before later ones."""
        for b in range(self.k.blocks):
            own = m[b * self.k.threads : (b + 1) * self.k.threads]
            for table, none in ((self.writer, -1), (self.reader, -1)):
                row = table[a][b]
                mine = (row >= 0) & own[np.where(row >= 0, row, 0)]
                if table is self.reader:
                    mine |= row == -3  # several lanes of one warp
                row[mine] = none

    def shuffle(self, s: Stmt, v: Values, member: Values, by: Values) -> Values:
        _, kind, width = s.data
        lane = np.arange(32, dtype=np.int64)[None, :]
        base = lane & (32 - width)
        if kind == "idx":
            source, inside = base | (by & (width - 1)), np.ones_like(by, bool)
        elif kind == "up":
            source = lane - by
            inside = source >= base
        elif kind == "down":
            source = lane + by
            inside = source <= base + width - 1
        else:
            source = lane ^ by
            inside = source <= base + width - 1
        source = np.where(inside, source, lane) & 31
        rows = np.arange(len(v))[:, None]
        takes = member[rows, lane, source]
        return np.where(takes, v[rows, source], v)

    def reduced(self, what: str, v: Values, member: Values) -> Values:
        info = np.iinfo(v.dtype)
        neutral = {"add": 0, "min": info.max, "max": info.min, "and": -1 if info.min else info.max, "or": 0, "xor": 0}[
            what
        ]
        ufunc = {
            "add": np.add,
            "min": np.minimum,
            "max": np.maximum,
            "and": np.bitwise_and,
            "or": np.bitwise_or,
            "xor": np.bitwise_xor,
        }[what]
        each = np.where(member, v[:, None, :], np.array(neutral, v.dtype))
        return ufunc.reduce(each, axis=2, dtype=v.dtype)

    def result(self) -> bytes:
        """Runs the program; returns out, own and acc concatenated."""
        with np.errstate(all="ignore"):
            frame = Frame()
            everyone = np.ones(self.size, bool)
            self.run(self.k.body, frame, everyone, None)
            rest = everyone & ~self.exited
            if rest.any():
                for j, e in enumerate(self.k.outs):
                    value = self.eval(e, frame, rest)
                    if e.type.floating:
                        value = self.integer(Expr("bits", e.type, [e]), [value], rest)
                    elif e.type.signed:
                        value = value.astype(np.int64).view(np.uint64)
                    gid = self.special["gid"].astype(np.int64)
                    where = gid * len(self.k.outs) + j if self.k.aos else gid + j * self.size
                    self.out[where[rest]] = value.astype(np.uint64)[rest]
        return self.out.tobytes() + self.raw["own"].tobytes() + self.raw["acc"].tobytes()


def expected(kernel: Kernel) -> bytes:
    return Model(kernel).result()


__all__ = ["CAPACITY", "S32", "Invalid", "Model", "expected", "initial", "inputs", "memory_sizes"]
