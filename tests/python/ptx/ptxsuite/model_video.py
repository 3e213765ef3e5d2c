# SPDX-License-Identifier: Apache-2.0
"""Models of the video instructions: according to the manual, or to ptxas for sm_90 if it differs."""

from __future__ import annotations

import re
from collections.abc import Callable

from .model import COMPARE, Model, clamp, model, wide

_VIDEO: dict[str, Callable[[int, int], int]] = {
    "vadd": lambda a, b: a + b,
    "vsub": lambda a, b: a - b,
    "vabsdiff": lambda a, b: abs(a - b),
    "vmin": min,
    "vmax": max,
}
_SELECTED = {"-bytes": ("b1", "b3"), "-halves": ("h1", "h0"), "-parts": ("h1", "b2")}
# The part of d that a merge writes. ptxas uses the upper half of the result for .h1.
_TAKEN = {"b0": (8, 0, 0), "b1": (8, 0, 8), "b2": (8, 0, 16), "b3": (8, 0, 24), "h0": (16, 0, 0), "h1": (16, 16, 16)}


def _part(value: int, type_: str, selector: str) -> int:
    if not selector:
        return wide(value, type_)
    bits = 8 if selector[0] == "b" else 16
    return wide(value >> bits * int(selector[1]), f"{type_[0]}{bits}")


def _saturated(value: int, op: str, type_: str, to: str) -> int:
    """Differs from the manual in some cases: ptxas emulates these instructions for sm_90."""
    if op in ("vshl", "vshr"):
        value &= (1 << 34) - 1  # more bits than these are lost
        return clamp(value - (value >> 33 << 34), type_)
    if to:  # a negative value is treated as a large one
        bits = _TAKEN[to][0] - (type_ == "s32")
        return (1 << bits) - 1 if value < 0 else min(value, (1 << bits) - 1)
    return clamp(value, "s32") if type_ == "s32" else max(value, 0)


def _finished(value: int, c: int, op: str, type_: str, sat: bool, second: str | None, to: str) -> tuple[int, ...]:
    """Saturation, then the merge into c or the second operation with c."""
    if sat:
        value = _saturated(value, op, type_, to)
    if to:
        bits, low, place = _TAKEN[to]
        mask = (1 << bits) - 1
        return (c & ~(mask << place) | (value >> low & mask) << place,)
    if second == "add":
        return (value + c,)
    if second:
        # On 64-bit numbers of the type of d. ptxas sign-extends sums and saturated shifts.
        if op in ("vadd", "vsub") or (sat and op in ("vshl", "vshr")):
            value = wide(value, "s32")
        return ({"min": min, "max": max}[second](wide(value, type_[0] + "64"), wide(c, type_)),)
    return (value,)


def _destination(suffix: str | None) -> str:
    return suffix.removeprefix("-to-") if suffix and suffix.startswith("-to-") else ""


@model(
    r"(vadd|vsub|vabsdiff|vmin|vmax)\.(u32|s32)\.(u32|s32)\.(u32|s32)(\.sat)?(?:\.(add|min|max))?"
    r"(-bytes|-halves|-parts|-words|-merge|-to-[bh]\d)?"
)
def _(m: re.Match[str]) -> Model:
    first, other = _SELECTED.get(m[7], ("", ""))
    to = _destination(m[7]) or ({"s32": "b2", "u32": "h1"}[m[2]] if m[7] == "-merge" else "")

    def compute(a: int, b: int, c: int = 0) -> tuple[int, ...]:
        value = _VIDEO[m[1]](_part(a, m[3], first), _part(b, m[4], other))
        return _finished(value, c, m[1], m[2], bool(m[5]), m[6], to)

    return compute


@model(r"(vshl|vshr)\.(u32|s32)\.(u32|s32)\.u32(\.sat)?\.(clamp|wrap)(?:\.(add|min|max))?(-to-[bh]\d)?")
def _(m: re.Match[str]) -> Model:
    def compute(a: int, b: int, c: int = 0) -> tuple[int, ...]:
        count = min(b, 32) if m[5] == "clamp" else b & 31
        value = wide(a, m[3]) << count if m[1] == "vshl" else wide(a, m[3]) >> count
        return _finished(value, c, m[1], m[2], bool(m[4]), m[6], _destination(m[7]))

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
    """As ptxas emulates it for sm_90: in 64 bits, with whole words and c signed."""
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


@model(r"vset\.(u32|s32)\.(u32|s32)\.(eq|ne|lt|le|gt|ge)(?:\.(add|min|max))?(-to-[bh]\d)?")
def _(m: re.Match[str]) -> Model:
    """ptxas interprets c of .min and .max in the type of a."""

    def compute(a: int, b: int, c: int = 0) -> tuple[int, ...]:
        value = int(COMPARE[m[3]](wide(a, m[1]), wide(b, m[2])))
        return _finished(value, c, "vset", m[1], False, m[4], _destination(m[5]))

    return compute
