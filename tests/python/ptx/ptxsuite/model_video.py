"""Models of the video instructions, by the manual."""

from __future__ import annotations

import re
from collections.abc import Callable

from .model import COMPARE, Model, clamp, model, wide

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


_PARTS = {"words": ("32", 0, "32", 0), "halves": ("16", 16, "16", 0), "bytes": ("8", 24, "8", 16)}


@model(r"vmad\.[us]32\.([us])32\.([us])32(\.po)?(\.sat)?(?:\.shr(7|15))?-(words|halves|bytes|minus-(?:a|b|both|c))")
def _(m: re.Match[str]) -> Model:
    """As ptxas makes it for sm_90: in 64 bits, whole words and c signed."""
    first, low, second, high = _PARTS.get(m[6], ("16", 0, "8", 8))
    product, addend = m[6] in ("minus-a", "minus-b"), m[6] == "minus-c"
    signed = "s" in (m[1], m[2]) or product or addend

    def compute(a: int, b: int, c: int) -> tuple[int, ...]:
        x = wide(a >> low, ("s" if first == "32" else m[1]) + first)
        y = wide(b >> high, ("s" if second == "32" else m[2]) + second)
        total = x * y * (-1 if product else 1) + wide(c, "s32") * (-1 if addend else 1) + bool(m[3])
        total = wide(total, "s64" if signed or not m[5] else "u64") >> int(m[5] or 0)
        return (clamp(total, "s32" if signed else "u32") if m[4] else total,)

    return compute


@model(r"vset\.(u32|s32)\.(u32|s32)\.(eq|ne|lt|le|gt|ge)(?:\.(add|min|max))?")
def _(m: re.Match[str]) -> Model:
    def compute(a: int, b: int, c: int = 0) -> tuple[int, ...]:
        value = int(COMPARE[m[3]](wide(a, m[1]), wide(b, m[2])))
        return ({"add": lambda x, y: x + y, "min": min, "max": max}[m[4]](value, c) if m[4] else value,)

    return compute
