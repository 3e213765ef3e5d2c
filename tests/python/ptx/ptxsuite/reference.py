"""Models of instructions in exact Python arithmetic, independent of any device.

A model takes the operands of one thread as bit patterns and gives its results as bit patterns.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import numpy as np

from . import softfloat as sf
from .forms import Form
from .softfloat import FORMATS, NAN, Number, decode, encode
from .values import PACKED, WIDTHS, inputs

Model = Callable[..., tuple[int, ...]]
U32 = (1 << 32) - 1
MODELS: list[tuple[re.Pattern[str], Callable[[re.Match[str]], Model | None]]] = []


def model(pattern: str) -> Callable[[Callable[[re.Match[str]], Model | None]], Callable[[re.Match[str]], Model | None]]:
    def register(make: Callable[[re.Match[str]], Model | None]) -> Callable[[re.Match[str]], Model | None]:
        MODELS.append((re.compile(pattern + "$"), make))
        return make

    return register


def results(form: Form) -> bytes | None:
    """What the model says a form gives over its values; nothing when no model covers it."""
    return _results(form.family, form.id, form)


_CACHE: dict[tuple[str, str], bytes | None] = {}


def _results(family: str, name: str, form: Form) -> bytes | None:
    if (family, name) not in _CACHE:
        _CACHE[family, name] = _compute(form)
    return _CACHE[family, name]


def _compute(form: Form) -> bytes | None:
    if form.id.startswith("wmma.m16n16"):
        return _wmma(form)
    compute = _find(form.id)
    if compute is None:
        return None
    cells = [[int(x) for x in row] for row in inputs(form)]
    rows = [compute(*case) for case in zip(*cells, strict=True)]
    views = {2: np.uint16, 4: np.uint32, 8: np.uint64}
    parts = []
    for k, result in enumerate(form.results):
        mask = (1 << (8 * result.bytes)) - 1
        parts.append(np.array([row[k] & mask for row in rows], np.uint64).astype(views[result.bytes]).tobytes())
    return b"".join(parts)


@cache
def _find(name: str) -> Model | None:
    for pattern, make in MODELS:
        if match := pattern.match(name):
            return make(match)
    return None


def wide(value: int, type_: str) -> int:
    """A bit pattern as the number its integer type means."""
    width = WIDTHS[type_]
    value &= (1 << width) - 1
    return value - (1 << width) if type_[0] == "s" and value >> (width - 1) else value


def clamp(value: int, type_: str) -> int:
    width = WIDTHS[type_]
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if type_[0] == "s" else (0, (1 << width) - 1)
    return min(max(value, low), high)


def quotient(a: int, b: int) -> int:
    """Division that rounds towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


# Integers.
INT = r"(u16|u32|u64|s16|s32|s64)"
_TWO: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul.lo": lambda a, b: a * b,
    "min": min,
    "max": max,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


@model(rf"(add|sub|mul\.lo|min|max)\.{INT}")
def _(m: re.Match[str]) -> Model:
    return lambda a, b: (_TWO[m[1]](wide(a, m[2]), wide(b, m[2])),)


@model(r"(and|or|xor)\.(b16|b32|b64|pred)")
def _(m: re.Match[str]) -> Model:
    return lambda a, b: (_TWO[m[1]](a, b),)


@model(r"(add|sub)\.sat\.s32")
def _(m: re.Match[str]) -> Model:
    return lambda a, b: (clamp(_TWO[m[1]](wide(a, "s32"), wide(b, "s32")), "s32"),)


@model(rf"(mul|mad)\.(hi|wide|lo)(\.sat)?\.{INT}")
def _(m: re.Match[str]) -> Model:
    type_, width = m[4], WIDTHS[m[4]]

    def compute(a: int, b: int, c: int = 0) -> tuple[int, ...]:
        product = wide(a, type_) * wide(b, type_)
        if m[2] == "hi":
            product >>= width
        if m[3]:
            return (clamp(product + wide(c, type_), type_),)
        return (product + c,)

    return compute


@model(rf"sad\.{INT}")
def _(m: re.Match[str]) -> Model:
    return lambda a, b, c: (c + abs(wide(a, m[1]) - wide(b, m[1])),)


@model(rf"(div|rem)\.{INT}(-by-10|-by-minus-7|-by-8)?")
def _(m: re.Match[str]) -> Model:
    constant = {"-by-10": 10, "-by-minus-7": -7, "-by-8": 8}

    def compute(a: int, b: int = 0) -> tuple[int, ...]:
        x, y = wide(a, m[2]), constant[m[3]] if m[3] else wide(b | 1, m[2])
        q = quotient(x, y)
        return (q if m[1] == "div" else x - q * y,)

    return compute


@model(r"(abs|neg)\.(s16|s32|s64)")
def _(m: re.Match[str]) -> Model:
    return lambda a: (abs(wide(a, m[2])) if m[1] == "abs" else -a,)


@model(r"(min|max)\.relu\.s32")
def _(m: re.Match[str]) -> Model:
    return lambda a, b: (max(0, _TWO[m[1]](wide(a, "s32"), wide(b, "s32"))),)


@model(r"(add|min|max)(\.relu)?\.(u16|s16)x2")
def _(m: re.Match[str]) -> Model:
    def half(a: int, b: int) -> int:
        value = _TWO[m[1]](wide(a, m[3]), wide(b, m[3]))
        return (max(0, value) if m[2] else value) & 0xFFFF

    return lambda a, b: (half(a, b) | half(a >> 16, b >> 16) << 16,)


@model(r"dp4a\.(u|s)32\.(u|s)32")
def _(m: re.Match[str]) -> Model:
    return lambda a, b, c: (c + sum(wide(a >> s, m[1] + "8") * wide(b >> s, m[2] + "8") for s in (0, 8, 16, 24)),)


@model(r"dp2a\.(lo|hi)\.(u|s)32\.(u|s)32")
def _(m: re.Match[str]) -> Model:
    base = 0 if m[1] == "lo" else 16
    return lambda a, b, c: (
        c + sum(wide(a >> 16 * k, m[2] + "16") * wide(b >> base + 8 * k, m[3] + "8") for k in (0, 1)),
    )


@model(r"(add|sub)\.cc\.[us](32|64)")
def _(m: re.Match[str]) -> Model:
    width = int(m[2])
    mask = (1 << width) - 1

    def plus(a: int, b: int, c: int, e: int) -> tuple[int, ...]:
        low = a + b
        high = c + e + (low >> width)
        return low, high, high >> width

    def minus(a: int, b: int, c: int, e: int) -> tuple[int, ...]:
        low = a - b
        high = c - e - (low < 0)
        return low, high, mask if high < 0 else 0

    return plus if m[1] == "add" else minus


@model("mul-128")
def _(m: re.Match[str]) -> Model:
    def compute(a: int, b: int, c: int, e: int) -> tuple[int, ...]:
        product = (a | b << 32) * (c | e << 32)
        return tuple(product >> 32 * k for k in range(4))

    return compute


# Bits.
@model(r"(not|cnot)\.(b16|b32|b64|pred)")
def _(m: re.Match[str]) -> Model:
    if m[2] == "pred":
        return lambda a: (1 - a,)
    return lambda a: (~a if m[1] == "not" else int(a == 0),)


@model(r"(shl|shr)\.(b|u|s)(16|32|64)")
def _(m: re.Match[str]) -> Model:
    width = int(m[3])

    def compute(a: int, b: int) -> tuple[int, ...]:
        count = min(b, width)
        return (a << count if m[1] == "shl" else wide(a, ("s" if m[2] == "s" else "u") + m[3]) >> count,)

    return compute


@model(r"shf\.(l|r)\.(clamp|wrap)\.b32")
def _(m: re.Match[str]) -> Model:
    def compute(a: int, b: int, c: int) -> tuple[int, ...]:
        count = min(c, 32) if m[2] == "clamp" else c & 31
        both = b << 32 | a
        return ((both << count) >> 32 if m[1] == "l" else both >> count,)

    return compute


@model(r"popc\.b(32|64)")
def _(m: re.Match[str]) -> Model:
    return lambda a: (a.bit_count(),)


@model(r"clz\.b(32|64)")
def _(m: re.Match[str]) -> Model:
    return lambda a: (int(m[1]) - a.bit_length(),)


@model(r"brev\.b(32|64)")
def _(m: re.Match[str]) -> Model:
    return lambda a: (int(f"{a:0{m[1]}b}"[::-1], 2),)


@model(r"bfind(\.shiftamt)?\.(u|s)(32|64)")
def _(m: re.Match[str]) -> Model:
    width = int(m[3])

    def compute(a: int) -> tuple[int, ...]:
        value = wide(a, m[2] + m[3])
        place = (~value if value < 0 else value).bit_length() - 1
        return (-1 if place < 0 else width - 1 - place if m[1] else place,)

    return compute


@model(r"bfe\.(u|s)(32|64)(-wild)?")
def _(m: re.Match[str]) -> Model:
    width = int(m[2])

    low = 0xFF if width == 32 else U32  # 64-bit fields take all of the position and length

    def compute(a: int, b: int, c: int) -> tuple[int, ...]:
        start, length = b & low, min(c & low, 256)
        last = min(start + length - 1, width - 1)
        fill = (a >> last) & 1 if m[1] == "s" and length else 0
        field = (a >> start) & ((1 << min(length, max(0, width - start))) - 1)
        if fill:
            field |= -1 << min(length, max(0, width - start))
        return (field if length else 0,)

    return compute


@model(r"bfi\.b(32|64)(-wild)?")
def _(m: re.Match[str]) -> Model:
    width = int(m[1])
    low = 0xFF if width == 32 else U32

    def compute(a: int, b: int, c: int, e: int) -> tuple[int, ...]:
        start, length = min(c & low, 256), min(e & low, 256)
        mask = ((1 << length) - 1) << start & ((1 << width) - 1)
        return (b & ~mask | a << start & mask,)

    return compute


@model(r"bmsk\.(clamp|wrap)\.b32")
def _(m: re.Match[str]) -> Model:
    def compute(a: int, b: int) -> tuple[int, ...]:
        if m[1] == "wrap":
            a, b = a & 31, b & 31
        return (((1 << min(b, 64)) - 1) << a if a < 32 else 0,)

    return compute


@model(r"prmt\.b32(\.f4e|\.b4e|\.rc8|\.ecl|\.ecr|\.rc16)?")
def _(m: re.Match[str]) -> Model:
    def places(c: int) -> list[int]:
        s = c & 3
        return {
            ".f4e": [s, s + 1, s + 2, s + 3],
            ".b4e": [s, (s - 1) & 7, (s - 2) & 7, (s - 3) & 7],
            ".rc8": [s] * 4,
            ".ecl": [max(k, s) for k in range(4)],
            ".ecr": [min(k, s) for k in range(4)],
            ".rc16": [0, 1, 0, 1] if not s & 1 else [2, 3, 2, 3],
            None: [c >> 4 * k & 15 for k in range(4)],
        }[m[1]]

    def compute(a: int, b: int, c: int) -> tuple[int, ...]:
        both = a | b << 32
        value = 0
        for k, place in enumerate(places(c)):
            byte = both >> 8 * (place & 7) & 0xFF
            if place & 8:
                byte = 0xFF if byte & 0x80 else 0
            value |= byte << 8 * k
        return (value,)

    return compute


@model(r"lop3\.b32-(0x\w\w)")
def _(m: re.Match[str]) -> Model:
    table = int(m[1], 0)

    def compute(a: int, b: int, c: int) -> tuple[int, ...]:
        value = 0
        for row in range(8):
            if table >> row & 1:
                value |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
        return (value,)

    return compute


@model(
    r"mov\.\w+|st-ld\.(?:global|shared|local|generic)\.(?:b|u|s|f)(?:16|32|64)|(?:ld|st)\.global\S+-(?:order|hint)|membar\S+|fence\S+"
)
def _(m: re.Match[str]) -> Model | None:
    return None if m[0] == "mov.b128" else lambda a: (a,)


# Comparison and selection.
_COMPARE = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
_COMPARE |= {"lo": _COMPARE["lt"], "ls": _COMPARE["le"], "hi": _COMPARE["gt"], "hs": _COMPARE["ge"]}


@model(rf"setp\.(eq|ne|lt|le|gt|ge|lo|ls|hi|hs)\.{INT}")
def _(m: re.Match[str]) -> Model:
    return lambda a, b: (int(_COMPARE[m[1]](wide(a, m[2]), wide(b, m[2]))),)


def _order(a: Number, b: Number) -> int:
    """The sign of a - b."""

    def key(x: Number) -> tuple[int, int, int]:
        return (0, x.signed, x.exponent) if not x.infinite else (-1 if x.negative else 1, 0, 0)

    p, q = key(a), key(b)
    if p[0] or q[0]:
        return (p[0] > q[0]) - (p[0] < q[0])
    low = min(p[2], q[2])
    x, y = p[1] << (p[2] - low), q[1] << (q[2] - low)
    return (x > y) - (x < y)


@model(r"setp\.(\w+?)(u?)(\.ftz)?\.(f32|f64|f16|bf16)")
def _(m: re.Match[str]) -> Model:
    form = FORMATS[m[4]]

    def compute(a: int, b: int) -> tuple[int, ...]:
        x, y = decode(a, form, bool(m[3])), decode(b, form, bool(m[3]))
        unordered = x.nan or y.nan
        name = m[1] + m[2]
        if name in ("num", "nan"):
            return (int(unordered == (name == "nan")),)
        if unordered:
            return (int(bool(m[2])),)
        return (int(_COMPARE[m[1]](_order(x, y), 0)),)

    return compute


@model(r"selp\.\w+")
def _(m: re.Match[str]) -> Model:
    return lambda a, b, p: (a if p else b,)


@model(r"slct(\.ftz)?\.\w+\.(s32|f32)")
def _(m: re.Match[str]) -> Model:
    def compute(a: int, b: int, c: int) -> tuple[int, ...]:
        if m[2] == "s32":
            return (a if wide(c, "s32") >= 0 else b,)
        x = decode(c, FORMATS["f32"], bool(m[1]))
        return (a if not x.nan and (x.zero or not x.negative) else b,)

    return compute


# Floats.
def _finish(bits: int, form: sf.Format, saturate: bool) -> int:
    """`.sat`: into 0 .. 1, NaN becomes 0."""
    if not saturate:
        return bits
    x = decode(bits, form)
    if x.nan or x.negative:
        return 0
    return min(bits, form.bias << form.mantissa)


def _packed(type_: str, scalar: Callable[..., int]) -> Model:
    """Lifts a function of scalars to the packed type, if it is one."""
    if type_ not in PACKED:
        return lambda *operands: (scalar(*operands),)
    width = PACKED[type_][1]
    mask = (1 << width) - 1
    return lambda *operands: (scalar(*(o & mask for o in operands)) | scalar(*(o >> width for o in operands)) << width,)


FLOAT = r"(f32|f64|f16|bf16|f16x2|bf16x2)"


@model(rf"(add|sub|mul|fma|mad)(?:\.(rn|rz|rm|rp))?(\.ftz)?(\.sat|\.relu)?\.{FLOAT}")
def _(m: re.Match[str]) -> Model:
    form = FORMATS[PACKED.get(m[5], (m[5],))[0]]
    rounding, flush = m[2] or "rn", bool(m[3])

    def scalar(a: int, b: int, c: int = 0) -> int:
        x, y, z = (decode(v, form, flush) for v in (a, b, c))
        if m[1] == "add":
            value = sf.add(x, y, rounding)
        elif m[1] == "sub":
            value = sf.add(x, y if y.nan else decode(b ^ form.sign, form, flush), rounding)
        else:
            value = sf.mul(x, y)
            if m[1] in ("fma", "mad"):
                value = sf.add(value, z, rounding)
        bits = encode(value, form, rounding, flush)
        if flush and bits & (form.sign - 1) == 1 << form.mantissa:
            # Tiny is judged after rounding to full precision, before the subnormal range takes bits away.
            large = encode(Number(value.negative, value.mantissa, value.exponent + 24), form, rounding)
            bits = bits if large & (form.sign - 1) >= 25 << form.mantissa else bits & form.sign
        if m[4] == ".relu" and not value.nan and bits & form.sign:
            bits = 0
        return _finish(bits, form, m[4] == ".sat")

    return _packed(m[5], scalar)


@model(r"(div|rcp|sqrt)\.(rn|rz|rm|rp)(\.ftz)?\.(f32|f64)")
def _(m: re.Match[str]) -> Model:
    form = FORMATS[m[4]]

    def compute(a: int, b: int = 0) -> tuple[int, ...]:
        x, y = decode(a, form, bool(m[3])), decode(b, form, bool(m[3]))
        if m[1] == "sqrt":
            value, sticky = sf.sqrt(x)
        else:
            value, sticky = sf.div(x, y) if m[1] == "div" else sf.div(Number(False, 1, 0), x)
        return (encode(value, form, m[2], bool(m[3]), sticky),)

    return compute


@model(r"copysign\.(f32|f64)")
def _(m: re.Match[str]) -> Model:
    sign = FORMATS[m[1]].sign
    return lambda a, b: (b & ~sign | a & sign,)


@model(r"testp\.(\w+)\.(f32|f64)")
def _(m: re.Match[str]) -> Model:
    form = FORMATS[m[2]]

    def compute(a: int) -> tuple[int, ...]:
        x = decode(a, form)
        normal = not (x.nan or x.infinite) and bool(x.mantissa >> form.mantissa)
        return (
            int(
                {
                    "finite": not x.nan and not x.infinite,
                    "infinite": x.infinite,
                    "number": not x.nan,
                    "notanumber": x.nan,
                    "normal": normal or x.zero,
                    "subnormal": not (x.nan or x.infinite or normal or x.zero),
                }[m[1]]
            ),
        )

    return compute


@model(rf"(min|max)(\.ftz)?(\.NaN)?\.{FLOAT}")
def _(m: re.Match[str]) -> Model:
    form = FORMATS[PACKED.get(m[4], (m[4],))[0]]

    def scalar(a: int, b: int) -> int:
        x, y = decode(a, form, bool(m[2])), decode(b, form, bool(m[2]))
        if (x.nan and y.nan) or (m[3] and (x.nan or y.nan)):
            return form.nan
        if x.nan or y.nan:
            return encode(y if x.nan else x, form)
        order = _order(x, y) or int(y.negative) - int(x.negative)
        return encode(x if (order < 0) == (m[1] == "min") else y, form)

    return _packed(m[4], scalar)


# Conversions.
ANYINT = r"(u8|u16|u32|u64|s8|s16|s32|s64)"


def _extended(value: int, type_: str) -> int:
    """An 8-bit result fills its 32-bit register by its sign."""
    return wide(value, type_)


@model(rf"cvt(\.sat)?\.{ANYINT}\.{ANYINT}")
def _(m: re.Match[str]) -> Model:
    def compute(a: int) -> tuple[int, ...]:
        value = wide(a, m[3])
        return (_extended(clamp(value, m[2]) if m[1] else value, m[2]),)

    return compute


@model(rf"cvt\.(rn|rz|rm|rp)(\.ftz)?(\.sat)?\.(f16|bf16|f32|f64)\.{ANYINT}")
def _(m: re.Match[str]) -> Model:
    form = FORMATS[m[4]]

    def compute(a: int) -> tuple[int, ...]:
        value = wide(a, m[5])
        return (_finish(encode(Number(value < 0, abs(value), 0), form, m[1]), form, bool(m[3])),)

    return compute


@model(rf"cvt\.(rn|rz|rm|rp)i(\.ftz)?(\.sat)?\.{ANYINT}\.(f16|bf16|f32|f64)")
def _(m: re.Match[str]) -> Model | None:
    form = FORMATS[m[5]]

    def compute(a: int) -> tuple[int, ...]:
        x = decode(a, form, bool(m[2]))
        if x.nan:
            return (nan_as_int(m[4], m[5]),)
        if x.infinite:
            value = -(1 << 80) if x.negative else 1 << 80
        else:
            whole = sf.round_shift(x.mantissa, -x.exponent, False, x.negative, m[1])
            value = -whole if x.negative else whole
        return (_extended(clamp(value, m[4]), m[4]),)

    return compute


def nan_as_int(integer: str, source: str) -> int:
    """What a NaN becomes: 0, but the highest bit alone when either side has 64 bits."""
    if source == "f64" or integer in ("u64", "s64"):
        return wide(1 << (WIDTHS[integer] - 1), integer)
    return 0


@model(r"cvt(?:\.(rn|rz|rm|rp))?(\.ftz)?(\.sat)?\.(f16|bf16|f32|f64)\.(f16|bf16|f32|f64)")
def _(m: re.Match[str]) -> Model:
    to, source = FORMATS[m[4]], FORMATS[m[5]]

    def compute(a: int) -> tuple[int, ...]:
        flush = bool(m[2])
        x = decode(a, source, flush and m[5] == "f32" and m[4] != "f16")  # to f16, .ftz changes nothing
        return (_finish(encode(x, to, m[1] or "rn", flush and m[4] == "f32"), to, bool(m[3])),)

    return compute


@model(r"cvt\.(rn|rz|rm|rp)i(\.ftz)?(\.sat)?\.(f16|bf16|f32|f64)\.(f16|bf16|f32|f64)")
def _(m: re.Match[str]) -> Model:
    form = FORMATS[m[5]]

    def compute(a: int) -> tuple[int, ...]:
        x = decode(a, form, bool(m[2]))
        if not (x.nan or x.infinite) and x.exponent < 0:
            x = Number(x.negative, sf.round_shift(x.mantissa, -x.exponent, False, x.negative, m[1]), 0)
        return (_finish(encode(x if not x.nan else NAN, form), form, bool(m[3])),)

    return compute


@model(r"cvt\.(rn|rz)(\.relu)?(\.satfinite)?\.(f16|bf16)(x2)?\.f32(-plus)?")
def _(m: re.Match[str]) -> Model:
    form = FORMATS[m[4]]

    def scalar(a: int) -> int:
        x = decode(a, FORMATS["f32"])
        bits = encode(x, form, m[1])
        if m[3] and not x.nan and bits & (form.sign - 1) == form.infinity:
            bits -= 1
        return 0 if m[2] and not x.nan and bits & form.sign else bits

    if m[5]:
        return lambda a, b: (scalar(b) | scalar(a) << 16,)
    return lambda a: (scalar(a),)


@model(r"cvt\.pack\.sat\.(u16|s16)\.s32")
def _(m: re.Match[str]) -> Model:
    return lambda a, b: (clamp(wide(b, "s32"), m[1]) & 0xFFFF | (clamp(wide(a, "s32"), m[1]) & 0xFFFF) << 16,)


# Video instructions, by the manual: parts of words, an exact result, saturation, then a merge or a second operation.
_VIDEO: dict[str, Callable[[int, int], int]] = {
    "vadd": lambda a, b: a + b,
    "vsub": lambda a, b: a - b,
    "vabsdiff": lambda a, b: abs(a - b),
    "vmin": min,
    "vmax": max,
}


@model(
    r"(vadd|vsub|vabsdiff|vmin|vmax)\.(u32|s32)\.(u32|s32)\.(u32|s32)(\.sat)?(?:\.(add|min|max))?(-bytes|-halves|-merge)?"
)
def _(m: re.Match[str]) -> Model:
    def part(value: int, type_: str, first: bool) -> int:
        if m[7] == "-bytes":
            return wide(value >> (8 if first else 24), type_[0] + "8")
        if m[7] == "-halves":
            return wide(value >> (16 if first else 0), type_[0] + "16")
        return wide(value, type_)

    def compute(a: int, b: int, c: int = 0) -> tuple[int, ...]:
        value = _VIDEO[m[1]](part(a, m[3], True), part(b, m[4], False))
        if m[7] == "-merge":
            bits, place = (8, 16) if m[2] == "s32" else (16, 16)
            value = clamp(value, f"{m[2][0]}{bits}") & ((1 << bits) - 1)
            return (c & ~(((1 << bits) - 1) << place) | value << place,)
        if m[5]:
            value = clamp(value, m[2])
        if m[6]:
            value = {"add": lambda x, y: x + y, "min": min, "max": max}[m[6]](wide(value, m[2]), wide(c, m[2]))
        return (value,)

    return compute


@model(r"(vshl|vshr)\.(u32|s32)\.(u32|s32)\.u32(\.sat)?\.(clamp|wrap)")
def _(m: re.Match[str]) -> Model:
    def compute(a: int, b: int) -> tuple[int, ...]:
        count = min(b, 32) if m[5] == "clamp" else b & 31
        value = wide(a, m[3]) << count if m[1] == "vshl" else wide(a, m[3]) >> count
        return (clamp(value, m[2]) if m[4] else value,)

    return compute


@model(r"vmad\.(u32|s32)\.(u32|s32)\.(u32|s32)\.sat\.shr(7|15)")
def _(m: re.Match[str]) -> Model:
    signed = "s32" in (m[2], m[3])

    def compute(a: int, b: int, c: int) -> tuple[int, ...]:
        product = wide(a, m[2][0] + "16") * wide(b >> 16, m[3][0] + "16")
        total = (product + wide(c, "s32" if signed else "u32")) >> int(m[4])
        return (clamp(total, "s32" if signed else "u32"),)

    return compute


@model(r"vset\.(u32|s32)\.(u32|s32)\.(eq|ne|lt|le|gt|ge)(?:\.(add|min|max))?")
def _(m: re.Match[str]) -> Model:
    def compute(a: int, b: int, c: int = 0) -> tuple[int, ...]:
        value = int(_COMPARE[m[3]](wide(a, m[1]), wide(b, m[2])))
        return ({"add": lambda x, y: x + y, "min": min, "max": max}[m[4]](value, c) if m[4] else value,)

    return compute


def _wmma(form: Form) -> bytes:
    """The products of the wmma forms, a warp at a time: each lane gives some elements of a and of b, and reads some of d."""
    cells = inputs(form).astype(np.uint32)
    half = len(form.operands) // 2
    parts = form.id.split(".")
    kind, depth, plus = (np.float16, 16, 1) if parts[-1] == "f16" else (np.float32, 8, 1)
    if parts[2] == "s32":
        kind, depth, plus = (np.uint8 if parts[-1] == "u8" else np.int8), 16, -3
    layout_a, layout_b = (parts[2], parts[3]) if parts[-1] == "f16" else ("row", "col")
    result = np.int32 if parts[2] == "s32" else np.float32
    rows = []
    for warp in range(0, form.cases, 32):
        a, b = (cells[k : k + half, warp : warp + 32].T.copy().view(kind).astype(np.int64) for k in (0, half))
        a = a.reshape(16, depth) if layout_a == "row" else a.reshape(depth, 16).T
        b = b.reshape(depth, 16) if layout_b == "row" else b.reshape(16, depth).T
        d = a @ b + plus
        rows.append((d if layout_a == "row" else d.T).astype(result).reshape(32, 8))
    lanes = np.concatenate(rows)[:, 8 - len(form.results) :]
    return b"".join(np.ascontiguousarray(lanes[:, k]).tobytes() for k in range(len(form.results)))
