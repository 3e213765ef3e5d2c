# SPDX-License-Identifier: Apache-2.0
"""Exact models of integer, bit and move instructions."""

from __future__ import annotations

import re
from collections.abc import Callable

from .model import INT, U32, Model, clamp, model, quotient, wide
from .values import WIDTHS

# Integers.
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

    low = 0xFF if width == 32 else U32  # 64-bit fields use all bits of position and length

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
