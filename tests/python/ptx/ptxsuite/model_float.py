# SPDX-License-Identifier: Apache-2.0
"""Exact models of comparisons, floating point arithmetic and conversions."""

from __future__ import annotations

import re
from collections.abc import Callable

from . import softfloat as sf
from .model import COMPARE, INT, Model, clamp, model, wide
from .softfloat import FORMATS, NAN, Number, decode, encode
from .values import PACKED, WIDTHS

# Comparison and selection.


@model(rf"setp\.(eq|ne|lt|le|gt|ge|lo|ls|hi|hs)\.{INT}")
def _(m: re.Match[str]) -> Model:
    return lambda a, b: (int(COMPARE[m[1]](wide(a, m[2]), wide(b, m[2]))),)


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
        return (int(COMPARE[m[1]](_order(x, y), 0)),)

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
    """`.sat`: clamps to 0 .. 1, NaN becomes 0."""
    if not saturate:
        return bits
    x = decode(bits, form)
    if x.nan or x.negative:
        return 0
    return min(bits, form.bias << form.mantissa)


def _packed(type_: str, scalar: Callable[..., int]) -> Model:
    """Applies a scalar function to the elements of a packed type."""
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
    """An 8-bit result is sign-extended to its 32-bit register."""
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
    """The integer that a NaN converts to: 0, or only the highest bit if either type has 64 bits."""
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
