# SPDX-License-Identifier: Apache-2.0
"""Statements in the manner of hand-written kernels, which passes of the vectorizer look for: loops with a stride, reductions in shared
memory, tiles with a border, structures, pixels, tiled products and quotients that a condition guards. `docs/design/simt.md` names the
passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .model import CAPACITY
from .tree import (
    F32,
    S16,
    S32,
    S64,
    U8,
    U32,
    U64,
    Array,
    Expr,
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
)  # fmt: skip

if TYPE_CHECKING:
    from .generate import Context, Generator

Shape = Callable[["Generator", "Context"], list[Stmt]]
SYNC = Stmt("sync")


def number(value: int) -> Expr:
    return literal(S32, value)


def element(a: Array, index: Expr) -> Expr:
    return full("load", a.type, [index], a)


def place(g: Generator, size: int, fields: int = 1) -> Expr:
    """A signed index such that index * fields + fields <= size, mostly strided over the lanes."""
    r = g.r
    names = [n for n in ("tid", "gid", "gid", "lane", "tx") if (g.special(n).hi + 1) * fields <= size]
    e = cast(S32, g.special(r.choice(names or ["lane"])))
    x = r.random()
    if x < 0.25:  # rows of a matrix, shorter than a group
        columns = r.choice([2, 4, 8, 8, 5])
        stride = min(r.choice([columns, columns + 1, 12, 16, 20]), (size // fields - columns) // (e.hi // columns + 1))
        if stride > 0:
            return binary(
                "add",
                binary("mul", binary("div", e, number(columns)), number(stride)),
                binary("rem", e, number(columns)),
            )
    if x < 0.4:
        a = r.choice([a for a in g.ins if not a.type.floating])
        most = 1 << ((size // fields).bit_length() - 1)
        return cast(S32, binary("and", cast(U32, element(a, e)), literal(U32, most - 1)))
    return e


def accumulate(g: Generator, v: Var, e: Expr) -> Stmt:
    op = g.r.choice(["add", "add", "sub"] if v.type.floating else ["add", "add", "add", "xor", "min", "max"])
    e = cast(v.type, e)
    whole = full(op, v.type, [read(v), e]) if op in ("min", "max") else binary(op, read(v), e)
    return Stmt("set", [whole], [], v)


def accumulator(g: Generator, c: Context) -> tuple[Var, list[Stmt]]:
    """A variable that is visible in the result."""
    t = g.r.choice([U32, U32, S32, U64, S64] + ([F32, F32] if g.floats else []))
    v, s = g.declare(t, g.value(t), c)
    return v, [s]


def source(g: Generator, t: Type) -> Array:
    return g.r.choice([a for a in g.ins if a.type.floating == t.floating])


def strided_loop(g: Generator, c: Context) -> list[Stmt]:
    """`for (j = lane; j < count; j += 32) sum += row[j]`."""
    r = g.r
    start = cast(S32, g.special(r.choice(["lane", "lane", "tid", "tx", "bid"])))
    step = r.choice([1, 2, 8, 16, 32, 32, 32, g.k.threads, g.k.block[0]])
    # A row may be longer than the loop, and the loop longer than four iterations, by which NVRTC unrolls it.
    most = min(start.hi + 1 + step * r.choice([1, 3, 4, 5, 9]), 700)
    out = []
    if g.chance(0.5):
        a = r.choice([a for a in g.ins if not a.type.floating])
        at = g.special(r.choice(["tid", "warp", "bid", "lane"]))
        mask = (1 << (most.bit_length() - 1)) - 1
        e = binary("and", cast(U32, element(a, at)), literal(U32, mask))
        count, s = g.declare(S32, cast(S32, e), c, True)
        out.append(s)
        limit = read(count)
    else:
        limit = number(r.choice([most, most - 1, most // 2]))
    v, first = accumulator(g, c)
    i = Var(g.name("i"), S32, 0, most, True)
    row = cast(S32, g.special(r.choice(["bid", "warp", "ty"])))
    width = max(0, (CAPACITY - most) // (row.hi + 1))
    index = binary("add", binary("mul", row, number(r.randint(0, width))), read(i)) if width else read(i)
    index.lo, index.hi = 0, CAPACITY - 1
    e = element(source(g, v.type), index)
    if g.chance(0.5):
        other = element(source(g, v.type), read(i) if g.chance(0.5) else index)
        e = binary(r.choice(["mul", "add"]), cast(v.type, e), cast(v.type, other))
    body = [accumulate(g, v, e)]
    if g.chance(0.2):
        body = [Stmt("if", [compare("ne", binary("and", read(i), number(r.choice([1, 2, 5]))), number(0))], [body, []])]
    if g.chance(0.2):
        inner = c.inner(mask=None, uniform=False, loop=True)
        inner.counters.append(i)
        body += g.block(inner, 1, g.chance(0.5))
    return [*out, *first, Stmt("for", [limit, start, number(step)], [body], i, ("step", g.pragma()))]


def tree_reduction(g: Generator, c: Context) -> list[Stmt]:
    """Halves or doubles a distance around a barrier."""
    r, n = g.r, g.k.threads
    t = r.choice([U32, S32, U64, S16] + ([F32] if g.floats else []))
    a = Array(g.name("t"), t, n, "shared")
    g.k.arrays.append(a)
    tid = g.special("tid") if g.chance(0.5) else cast(S32, g.special("tid"))
    s = Var(g.name("i"), tid.type, 1, max(n, 1), True)
    op = r.choice(["add", "sub"] if t.floating else ["add", "add", "max", "min", "xor"])

    def together(x: Expr, y: Expr) -> Expr:
        return full(op, t, [x, y]) if op in ("min", "max") else binary(op, x, y)

    def at(e: Expr) -> Expr:
        e.lo, e.hi = 0, n - 1
        return element(a, e)

    def both(x: Expr, y: Expr) -> Expr:
        return Expr("land", compare("lt", tid, tid).type, [x, y], lo=0, hi=1)

    def lit(value: int) -> Expr:
        return literal(tid.type, value)

    out = [SYNC, Stmt("store", [tid, g.no_shared(t, c)], [], None, a), SYNC]
    where = tid
    far = binary("add", tid, read(s))
    kind = r.choice(["halve", "halve", "double", "spread", "scan"])
    if kind == "scan":
        v, decl = g.declare(t, None, c, False, visible=False)
        near = compare("ge", tid, read(s))
        body = [
            decl,
            Stmt("set", [literal(t, 0)], [], v),
            Stmt("if", [near], [[Stmt("set", [at(binary("sub", tid, read(s)))], [], v)], []]),
            SYNC,
            Stmt("store", [tid, together(at(tid), read(v))], [], None, a),
            SYNC,
        ]
    else:
        if kind == "halve":
            cond = compare("lt", tid, read(s))
        elif kind == "double":
            cond = compare("eq", binary("rem", tid, binary("mul", read(s), lit(2))), lit(0))
            cond = both(cond, compare("lt", far, lit(n)))
        else:
            where = binary("mul", binary("mul", lit(2), read(s)), tid)
            far = binary("add", where, read(s))
            cond = compare("lt", far, lit(n))
        store = Stmt("store", [where, together(at(where), at(far))], [], None, a)
        body = [Stmt("if", [cond], [[store], []]), SYNC]
    style = "halve" if kind == "halve" else "double"
    if style == "halve":
        limit = r.choice([0, 0, 0, 16, 32])
        bounds = [lit(r.choice([n // 2, (1 << (n // 2).bit_length()) >> 1])), lit(limit)]
    else:
        bounds = [lit(n)]
    out.append(Stmt("for", bounds, [body], s, (style, g.pragma())))
    v, first = accumulator(g, c)
    x = r.random()
    index = lit(0) if x < 0.5 else tid if x < 0.8 else binary("sub", lit(n - 1), tid)
    same = t.floating == v.type.floating
    return [*out, *first, *([Stmt("set", [cast(v.type, at(index))], [], v)] if same else [])]


def clamped(g: Generator, e: Expr, most: int) -> Expr:
    inner = full("min", S32, [e, number(most)])
    if g.chance(0.3):
        inner = select(compare("gt", e, number(most)), number(most), e)
    whole = full("max", S32, [inner, number(0)])
    whole.lo, whole.hi = 0, most
    return whole


def tile(g: Generator, c: Context) -> list[Stmt]:
    """Copies a tile with its border to shared memory, and sums neighbours."""
    r, n = g.r, g.k.threads
    bx = g.k.block[0]
    w = r.choice([3, 5, 6, 10, 16, 17, 18, 20, 34, bx + 2])
    h = max(3, min(r.choice([3, 4, 6, 10, 18]), 500 // w))
    columns = r.choice([w, 32, 33, 40, 64])
    rows = CAPACITY // columns
    t = r.choice([U32, S32, U8, S16] + ([F32, F32] if g.floats else []))
    given = r.choice([a for a in g.ins if a.type is t] or g.ins[:1])
    a = Array(g.name("t"), given.type, w * h, "shared")
    g.k.arrays.append(a)
    i = Var(g.name("i"), S32, 0, w * h - 1, True)
    x0 = binary("sub", binary("mul", cast(S32, g.special("bx")), number(r.choice([bx, w - 2, 7]))), number(1))
    y0 = binary("sub", binary("mul", cast(S32, g.special("by")), number(h - 2)), number(r.choice([0, 1, 2])))
    x = binary("add", x0, binary("rem", read(i), number(w)))
    y = binary("add", y0, binary("div", read(i), number(w)))
    how = r.random()
    if how < 0.6:
        index = binary("add", binary("mul", clamped(g, y, rows - 1), number(columns)), clamped(g, x, columns - 1))
        value = element(given, index)
    else:  # zero outside
        inside = compare("ge", x, number(0))
        for cond in (compare("lt", x, number(columns)), compare("ge", y, number(0)), compare("lt", y, number(rows))):
            inside = Expr("land", inside.type, [inside, cond], lo=0, hi=1)
        value = select(inside, element(given, binary("add", binary("mul", y, number(columns)), x)), literal(a.type, 0))
    tid = cast(S32, g.special("tid"))
    copy = Stmt(
        "for",
        [number(w * h), tid, number(n)],
        [[Stmt("store", [read(i), value], [], None, a)]],
        i,
        ("step", g.pragma()),
    )
    v, first = accumulator(g, c)
    if v.type.floating != a.type.floating:
        v, s = g.declare(a.type if a.type.floating else U32, literal(a.type if a.type.floating else U32, 0), c)
        first.append(s)
    ty = g.special("ty")
    if bx + 2 <= w and ty.hi + 2 < h:
        base = binary("add", binary("mul", cast(S32, ty), number(w)), cast(S32, g.special("tx")))
    else:
        base = clamped(g, tid, max(0, w * h - 2 * w - 3))
    taps = r.sample([dy * w + dx for dy in range(3) for dx in range(3) if base.hi + dy * w + dx < w * h] or [0], 1)
    taps += [k for k in (1, w, w + 1, 2 * w + 1) if base.hi + k < w * h and g.chance(0.7)]
    sums = [accumulate(g, v, element(a, binary("add", base, number(k)) if k else base)) for k in taps]
    use: list[Stmt] = sums
    if g.chance(0.3):
        use = [Stmt("if", [g.plain_cond(c)], [sums, []])]
    return [SYNC, copy, SYNC, *first, *use]


def record(g: Generator, c: Context) -> list[Stmt]:
    """Reads members of structures, and writes those of its own."""
    r = g.r
    out: list[Stmt] = []
    v, first = accumulator(g, c)
    a = source(g, v.type)
    fields = r.choice([2, 3, 3, 4, 5, 6, 8])
    base = place(g, a.size, fields)
    held, s = g.declare(S32, base, c, True)
    at = read(held)
    names = [k for k in range(fields) if g.chance(0.75)]
    if g.chance(0.4):
        r.shuffle(names)
    sums = [
        accumulate(g, v, element(a, binary("add", binary("mul", at, number(fields)), number(k)))) for k in names or [0]
    ]
    cut = r.randrange(len(sums) + 1) if g.chance(0.3) else len(sums)
    out += [*first, s, *sums[:cut]]
    if sums[cut:]:
        out.append(Stmt("if", [g.cond(c, 1)], [sums[cut:], []]))
    wide = [b for b in g.own if b.size > 1]
    if wide:
        b = r.choice(wide)
        for k in r.sample(range(b.size), r.randint(1, b.size)) if g.chance(0.5) else range(b.size):
            e = g.expr(b.type, c, 1)
            store = Stmt("store", [number(k), e], [], None, b)
            out.append(Stmt("if", [g.cond(c, 1)], [[store], []]) if g.chance(0.15) else store)
    return out


def pixels(g: Generator, c: Context) -> list[Stmt]:
    """Arithmetic on numbers of 8 or 16 bits that fits into a few more."""
    r = g.r
    a = r.choice([a for a in g.ins if a.type in (U8, S16)])
    t = r.choice([a.type, U8, U8, S16])
    v, s = g.declare(t, literal(t, 0), c)
    base = place(g, a.size - 8, r.choice([1, 1, 3, 4]))
    held, s_held = g.declare(S32, base, c, True)

    def load(k: int) -> Expr:
        return cast(S32, element(a, binary("add", read(held), number(k)) if k else read(held)))

    x = r.random()
    if x < 0.4:  # a weighted sum
        e = load(0)
        for k in range(1, r.randint(2, 5)):
            weight = r.choice([1, 1, 2, 3, 5, 29, 77, 150, -1, -2])
            e = binary("add", e, load(k) if weight == 1 else binary("mul", load(k), number(weight)))
        shift = r.choice([0, 1, 2, 3, 8])
        if shift:
            e = binary("shr", binary("add", e, number(1 << (shift - 1))), literal(U32, shift))
    elif x < 0.6:
        d = binary("sub", load(0), load(r.choice([1, 2, 4])))
        e = Expr("abs", S32, [d], lo=0, hi=max(abs(d.lo), abs(d.hi)))
    elif x < 0.8:  # a dot product of four
        other = r.choice([a for a in g.ins if a.type in (U8, S16)])
        e = number(r.choice([0, 5]))
        for k in range(4):
            e = binary(
                "add", e, binary("mul", load(k), cast(S32, element(other, binary("add", read(held), number(k)))))
            )
    else:
        e = full(r.choice(["min", "max"]), S32, [load(0), binary(r.choice(["add", "sub"]), load(1), load(2))])
    if g.chance(0.6):
        e = full("min", S32, [full("max", S32, [e, number(r.choice([0, -128]))]), number(r.choice([255, 127, 256]))])
    if g.chance(0.3):
        limit = number(r.choice([0, 16, 100, 128, 200]))
        e = select(compare(r.choice(["lt", "gt", "le"]), load(0), limit), e, load(r.choice([0, 1])))
    out = [s, s_held, Stmt("set", [cast(t, e)], [], v)]
    narrow = [b for b in g.own if b.type.bits < 32 and not b.type.floating]
    if narrow:
        b = r.choice(narrow)
        out.append(Stmt("store", [number(r.randrange(b.size)), cast(b.type, read(v))], [], None, b))
    return out


def product(g: Generator, c: Context) -> list[Stmt]:
    """Sums of products of two tiles, loaded anew in each iteration."""
    r, n = g.r, g.k.threads
    bx, by, bz = g.k.block
    t = r.choice([U32, S32] + ([F32, F32] if g.floats else []))
    if bz == 1 and by > 1:
        k_most, width, row, column = min(bx, by), bx, cast(S32, g.special("ty")), cast(S32, g.special("tx"))
    else:
        width = r.choice([w for w in (1, 2, 4, 5, 8, 16) if w * w <= n and n % w == 0])
        tid = cast(S32, g.special("tid"))
        k_most = width
        row, column = binary("div", tid, number(width)), binary("rem", tid, number(width))
    left, right = (Array(g.name("t"), t, n, "shared") for _ in range(2))
    g.k.arrays += [left, right]
    turn = Var(g.name("i"), S32, 0, 3, True)
    k = Var(g.name("i"), S32, 0, max(0, k_most - 1), True)
    inner = c.inner()
    inner.counters.append(turn)
    shared, g.shared = g.shared, []
    loads = [Stmt("store", [g.special("tid"), g.expr(t, inner, 1)], [], None, a) for a in (left, right)]
    g.shared = shared
    several = r.choice([1, 1, 2, 4])
    sums, first = [], []
    for j in range(several):
        v, s = g.declare(t, literal(t, 0), c)
        first.append(s)
        across = binary("rem", binary("add", column, number(j)), number(width)) if j else column
        one = element(left, binary("add", binary("mul", row, number(width)), read(k)))
        other = element(right, binary("add", binary("mul", read(k), number(width)), across))
        sums.append(Stmt("set", [binary("add", read(v), binary("mul", one, other))], [], v))
    inside = Stmt("for", [number(k_most)], [sums], k, ("up", r.choice(["", "", "#pragma unroll", "#pragma unroll 4"])))
    count = binary("and", g.special(r.choice(["n", "q"])), number(3)) if g.chance(0.6) else number(r.randint(1, 3))
    return [*first, Stmt("for", [count], [[*loads, SYNC, inside, SYNC]], turn, ("up", g.pragma()))]


def guarded_quotient(g: Generator, c: Context) -> list[Stmt]:
    """`if (lane != 0 && f(x)) y = x / lane`: only threads that are not active would divide by zero."""
    r = g.r
    t = r.choice([U32, S32, S32, U64, S64, S16])
    place = cast(S32, g.special(r.choice(["lane", "lane", "tid", "tx", "gid"])))
    if g.chance(0.3):
        place = binary("and", place, number(r.choice([3, 7, 15])))
    d, s = g.declare(t, cast(t, binary("sub", place, number(r.choice([0, 0, 1, 4, 17])))), c, True)
    v, first = g.result_of(t, c)
    x = g.integer(t, c, 2)
    if t.signed:
        x = binary("and", x, literal(t, t.hi))  # not the smallest number, which -1 must not divide
    quotient = full(r.choice(["div", "div", "rem"]), t, [x, read(d)])
    guard = compare("ne", read(d), literal(t, 0))
    if g.chance(0.2):
        return [s, *first, Stmt("set", [select(guard, quotient, g.value(t))], [], v)]
    if g.chance(0.8):
        guard = Expr("land", guard.type, [guard, g.cond(c, 1)], lo=0, hi=1)
    return [s, *first, Stmt("if", [guard], [[Stmt("set", [quotient], [], v)], []])]


ANYWHERE: tuple[tuple[float, Shape], ...] = ((0.8, strided_loop), (1.0, record), (0.8, pixels), (0.4, guarded_quotient))
ALL_THREADS: tuple[tuple[float, Shape], ...] = ((0.6, tree_reduction), (0.8, tile), (0.6, product))
