# SPDX-License-Identifier: Apache-2.0
"""Binary floating point with integers: exact values, rounded once."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt


@dataclass(frozen=True)
class Format:
    """Field widths of an IEEE-like format."""

    exponent: int
    mantissa: int

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def least(self) -> int:
        """The exponent of the smallest subnormal."""
        return 1 - self.bias - self.mantissa

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent) - 1) << self.mantissa

    @property
    def nan(self) -> int:
        return (1 << (self.exponent + self.mantissa)) - 1

    @property
    def sign(self) -> int:
        return 1 << (self.exponent + self.mantissa)


FORMATS = {
    "f16": Format(5, 10),
    "bf16": Format(8, 7),
    "f32": Format(8, 23),
    "f64": Format(11, 52),
    "tf32": Format(8, 10),
}


@dataclass(frozen=True)
class Number:
    """NaN, infinity, or (-1)^negative * mantissa * 2^exponent."""

    negative: bool
    mantissa: int = 0
    exponent: int = 0
    infinite: bool = False
    nan: bool = False

    @property
    def zero(self) -> bool:
        return not (self.mantissa or self.infinite or self.nan)

    @property
    def signed(self) -> int:
        return -self.mantissa if self.negative else self.mantissa


NAN = Number(False, nan=True)


def decode(bits: int, form: Format, flush: bool = False) -> Number:
    negative = bool(bits & form.sign)
    magnitude = bits & (form.sign - 1)
    fraction = magnitude & ((1 << form.mantissa) - 1)
    exponent = magnitude >> form.mantissa
    if exponent == (1 << form.exponent) - 1:
        return NAN if fraction else Number(negative, infinite=True)
    if exponent == 0:
        return Number(negative, 0 if flush else fraction, form.least)
    return Number(negative, fraction | 1 << form.mantissa, form.least + exponent - 1)


def round_shift(mantissa: int, shift: int, sticky: bool, negative: bool, rounding: str) -> int:
    """mantissa / 2^shift rounded to an integer; `sticky`: the exact value is slightly larger."""
    if shift <= 0:
        return mantissa << -shift
    rest = mantissa & ((1 << shift) - 1)
    whole = mantissa >> shift
    half = 1 << (shift - 1)
    inexact = bool(rest) or sticky
    up = {
        "rn": rest > half or (rest == half and (sticky or bool(whole & 1))),
        "rna": rest >= half,
        "rz": False,
        "rm": negative and inexact,
        "rp": not negative and inexact,
    }[rounding]
    return whole + up


def encode(number: Number, form: Format, rounding: str = "rn", flush: bool = False, sticky: bool = False) -> int:
    """The bits of the rounded value.

    `flush`: zero if the result, rounded with an unbounded exponent, is below the smallest normal number.
    """
    if number.nan:
        return form.nan
    sign = form.sign if number.negative else 0
    if number.infinite:
        return sign | form.infinity
    if not number.mantissa and not sticky:
        return sign
    place = max(number.exponent + number.mantissa.bit_length() - form.mantissa - 1, form.least)
    mantissa = round_shift(number.mantissa, place - number.exponent, sticky, number.negative, rounding)
    if mantissa >> (form.mantissa + 1):
        mantissa >>= 1
        place += 1
    if flush and mantissa >> form.mantissa and place == form.least:
        full = number.exponent + number.mantissa.bit_length() - form.mantissa - 1
        rounded = round_shift(number.mantissa, full - number.exponent, sticky, number.negative, rounding)
        if full < form.least and not rounded >> (form.mantissa + 1):
            return sign
    if mantissa >> form.mantissa:
        bits = ((place - form.least + 1) << form.mantissa) | (mantissa & ((1 << form.mantissa) - 1))
    else:
        bits = 0 if flush else mantissa
    if bits >= form.infinity:
        away = rounding in ("rn", "rna") or rounding == ("rm" if number.negative else "rp")
        bits = form.infinity if away else form.infinity - 1
    return sign | bits


def add(a: Number, b: Number, rounding: str) -> Number:
    if a.nan or b.nan or (a.infinite and b.infinite and a.negative != b.negative):
        return NAN
    if a.infinite or b.infinite:
        return a if a.infinite else b
    if a.zero and b.zero:
        return Number(a.negative if a.negative == b.negative else rounding == "rm")
    exponent = min(a.exponent, b.exponent)
    total = (a.signed << (a.exponent - exponent)) + (b.signed << (b.exponent - exponent))
    if not total:
        return Number(rounding == "rm")
    return Number(total < 0, abs(total), exponent)


def mul(a: Number, b: Number) -> Number:
    if a.nan or b.nan or (a.infinite and b.zero) or (a.zero and b.infinite):
        return NAN
    negative = a.negative != b.negative
    if a.infinite or b.infinite:
        return Number(negative, infinite=True)
    return Number(negative, a.mantissa * b.mantissa, a.exponent + b.exponent)


def div(a: Number, b: Number) -> tuple[Number, bool]:
    """The truncated quotient, and whether it is inexact."""
    if a.nan or b.nan or (a.infinite and b.infinite) or (a.zero and b.zero):
        return NAN, False
    negative = a.negative != b.negative
    if a.infinite or b.zero:
        return Number(negative, infinite=True), False
    if b.infinite or a.zero:
        return Number(negative), False
    scale = 160
    quotient, rest = divmod(a.mantissa << scale, b.mantissa)
    return Number(negative, quotient, a.exponent - b.exponent - scale), bool(rest)


def sqrt(a: Number) -> tuple[Number, bool]:
    if a.nan or (a.negative and not a.zero):
        return NAN, False
    if a.infinite or a.zero:
        return a, False
    scale = 160 + (a.exponent & 1)
    root = isqrt(a.mantissa << scale)
    return Number(False, root, (a.exponent - scale) // 2), root * root != a.mantissa << scale
