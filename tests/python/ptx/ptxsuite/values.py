# SPDX-License-Identifier: Apache-2.0
"""Operand values: the edge values of each type mixed with seeded random values, equal on all machines."""

from __future__ import annotations

import functools
import zlib
from fractions import Fraction

import numpy as np

from .forms import Form, Operand


class Random:
    """SplitMix64: its numbers depend only on the seed, not on the NumPy version."""

    def __init__(self, seed: int) -> None:
        self._state = (seed * 0x9E3779B97F4A7C15 + 1) % (1 << 64)

    def bits(self, count: int, width: int = 64) -> np.ndarray:
        """`count` numbers of `width` random bits."""
        gamma = 0x9E3779B97F4A7C15
        steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(gamma)
        z = np.uint64(self._state) + steps
        self._state = (self._state + count * gamma) % (1 << 64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return (z ^ (z >> np.uint64(31))) >> np.uint64(64 - width)

    def random(self, count: int) -> np.ndarray:
        """`count` numbers from 0 to below 1."""
        return self.bits(count, 53).astype(np.float64) / (1 << 53)

    def integers(self, low: int, high: int, count: int) -> np.ndarray:
        """`count` integers in the range [low, high)."""
        return (self.bits(count, 32) % np.uint64(high - low)).astype(np.int64) + low


def _float_edges(exponent: int, mantissa: int) -> list[int]:
    """Edge values of a binary float format with the given field widths, with both signs."""
    bias = (1 << (exponent - 1)) - 1
    one = bias << mantissa
    infinity = ((1 << exponent) - 1) << mantissa
    smallest = 1 << mantissa
    positive = [0, 1, 2, 3, smallest // 2, smallest - 1, smallest, smallest + 1, 2 * smallest]
    positive += [one - 1, one, one + 1, one - smallest, one + smallest, one + smallest // 2]
    positive += [infinity - 1, infinity - 2, infinity, infinity + 1, infinity + smallest // 2, infinity + smallest - 1]
    for power in (7, 8, 15, 16, 23, 24, 31, 32, 52, 53, 63, 64, -7, -8, -10, -14, -24, -25, -126, -149):
        if 0 < power + bias < (1 << exponent) - 1:
            base = (power + bias) << mantissa
            positive += [base, base - 1, base + 1]
    for value in (1.5, 2.5, 3.5, 0.25, 0.75, 10.0, 3.0, 127.5, 255.5, 448.0, 480.0, 57344.0, 65504.0, 65520.0):
        positive.append(_encode(value, exponent, mantissa))
    sign = 1 << (exponent + mantissa)
    return [bits for value in dict.fromkeys(positive) if value is not None for bits in (value, value | sign)]


def _encode(value: float, exponent: int, mantissa: int) -> int | None:
    bits = int(np.float64(value).view(np.uint64))
    e = (bits >> 52) - 1023 + (1 << (exponent - 1)) - 1
    if not 0 < e < (1 << exponent) - 1:
        return None
    return (e << mantissa) | ((bits & ((1 << 52) - 1)) >> (52 - mantissa))


def _int_edges(bits: int) -> list[int]:
    top = 1 << (bits - 1)
    full = (1 << bits) - 1
    edges = [0, 1, 2, 3, 7, 8, full, full - 1, top, top - 1, top + 1, top >> 1, 0x55, 0xAA, 10, full - 9]
    edges += [(1 << (bits // 2)) - 1, 1 << (bits // 2), full ^ ((1 << (bits // 2)) - 1)]
    edges += [int("5" * (bits // 4), 16), int("a" * (bits // 4), 16), 0x80, 0x7F, 0xFF, full ^ 0x7F]
    edges += [0x8000 & full, 0x7FFF & full, full ^ 0x7FFF]
    return list(dict.fromkeys(edges))


FLOATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52), "tf32": (8, 23)}
PACKED = {
    "f16x2": ("f16", 16),
    "bf16x2": ("bf16", 16),
    "u16x2": ("u16", 16),
    "s16x2": ("s16", 16),
    "f32x2": ("f32", 32),
}
WIDTHS = {
    "u8": 8,
    "s8": 8,
    "b16": 16,
    "u16": 16,
    "s16": 16,
    "e4m3x2": 16,
    "e5m2x2": 16,
    "b32": 32,
    "u32": 32,
    "s32": 32,
    "b64": 64,
    "u64": 64,
    "s64": 64,
}


def _pick(rng: Random, count: int, choices: list[int]) -> np.ndarray:
    return np.array(choices, dtype=np.uint64)[rng.integers(0, len(choices), count)]


def _ordinary_float(rng: Random, count: int, exponent: int, mantissa: int, spread: int) -> np.ndarray:
    """Floats with random sign and fraction and an exponent near that of 1."""
    bias = (1 << (exponent - 1)) - 1
    spread = min(spread, bias - 1)
    e = rng.integers(bias - spread, bias + spread + 1, count).astype(np.uint64)
    sign = rng.integers(0, 2, count).astype(np.uint64)
    return (sign << np.uint64(exponent + mantissa)) | (e << np.uint64(mantissa)) | rng.bits(count, mantissa)


def _scalar(rng: Random, count: int, type_: str, edges: float) -> np.ndarray:
    """`count` values of a scalar type; the fraction `edges` of them are edge values."""
    if type_ in FLOATS:
        exponent, mantissa = FLOATS[type_]
        width = 1 + exponent + mantissa
        values = np.where(
            rng.random(count) < 0.6,
            _ordinary_float(rng, count, exponent, mantissa, 12),
            rng.bits(count, width),
        )
        special = _pick(rng, count, _float_edges(exponent, mantissa))
    else:
        width = WIDTHS[type_]
        values = rng.bits(count, width)
        short = values >> rng.integers(0, width, count).astype(np.uint64)
        negative = ~short & np.uint64((1 << width) - 1)
        how = rng.random(count)
        values = np.where(how < 0.4, values, np.where(how < 0.7, short, negative))
        special = _pick(rng, count, _int_edges(width))
    values = np.where(rng.random(count) < edges, special, values)
    if type_ in ("u8", "s8"):  # an 8-bit operand is the low byte of its register
        values |= rng.bits(count, 24) << np.uint64(8)
    return values


def edges_of(type_: str) -> list[int]:
    """The edge values of a type, as bit patterns."""
    if type_ in PACKED:
        part, width = PACKED[type_]
        inner = edges_of(part)
        return [a | (inner[(k * 7 + 3) % len(inner)] << width) for k, a in enumerate(inner)]
    if type_ in FLOATS:
        return _float_edges(*FLOATS[type_])
    return _int_edges(WIDTHS[type_])


def _nans(type_: str) -> list[int]:
    """Numbers that produce NaNs, and quiet and signaling NaNs of both signs with different payloads."""
    exponent, mantissa = FLOATS[type_]
    sign, infinity, quiet = 1 << (exponent + mantissa), ((1 << exponent) - 1) << mantissa, 1 << (mantissa - 1)
    one, two = ((1 << (exponent - 1)) - 1) << mantissa, 1 << (exponent + mantissa - 1)
    numbers = [0, sign, one, sign | two, infinity, sign | infinity]
    return numbers + [
        infinity | bits
        for bits in (quiet, sign | quiet, quiet | 0x12, sign | quiet | 0x2B, 0x01, sign | quiet >> 1 | 0x15)
    ]


def _small(rng: Random, count: int, type_: str, low: int, high: int) -> np.ndarray:
    """Integers in a range as values of a float or integer type."""
    if type_ in PACKED:
        part, width = PACKED[type_]
        return _small(rng, count, part, low, high) | (_small(rng, count, part, low, high) << np.uint64(width))
    whole = rng.integers(low, high + 1, count)
    if type_ == "f64":
        return whole.astype(np.float64).view(np.uint64)
    if type_ in ("f32", "tf32"):
        return whole.astype(np.float32).view(np.uint32).astype(np.uint64)
    if type_ == "bf16":
        return (whole.astype(np.float32).view(np.uint32) >> 16).astype(np.uint64)
    if type_ == "f16":
        return whole.astype(np.float16).view(np.uint16).astype(np.uint64)
    return whole.astype(np.int64).view(np.uint64)


def _real(rng: Random, count: int, low: float, high: float) -> np.ndarray:
    return (low + (high - low) * rng.random(count)).astype(np.float32).view(np.uint32).astype(np.uint64)


def _column(rng: Random, count: int, operand: Operand, arity: int) -> np.ndarray:
    type_, kind = operand.type, operand.kind
    if kind.startswith("<"):  # u32:<32 below a bound
        return rng.integers(0, int(kind[1:]), count).astype(np.uint64)
    if kind.startswith("="):  # a constant value
        return np.full(count, int(kind[1:], 0), dtype=np.uint64)
    if kind.startswith("small"):  # small9: integers -9 .. 9
        bound = int(kind[5:] or 8)
        return _small(rng, count, type_, -bound, bound)
    if kind == "shift":  # counts around the widths, and huge ones
        near = rng.integers(0, 70, count).astype(np.uint64)
        return np.where(rng.random(count) < 0.9, near, _scalar(rng, count, "u32", 0.5))
    if kind == "ordinary":  # no special values, exponents near zero
        if type_ in PACKED:
            part, width = PACKED[type_]
            low, high = (_ordinary_float(rng, count, *FLOATS[part], 3) for _ in range(2))
            return low | (high << np.uint64(width))
        return _ordinary_float(rng, count, *FLOATS[type_], 3)
    if kind == "few":  # few different values, so that lanes match
        return _pick(rng, count, [3, 5, 0xFFFFFFFF, 0])
    if kind == "angle":  # the usual range of sin and cos, and its ends
        return np.where(rng.random(count) < 0.9, _real(rng, count, -3.2, 3.2), _pick(rng, count, edges_of("f32")))
    if kind == "exponent":
        return np.where(rng.random(count) < 0.7, _real(rng, count, -20, 20), _column(rng, count, Operand(type_), 1))
    if kind == "every":
        return np.arange(count, dtype=np.uint64) | (np.arange(count, dtype=np.uint64)[::-1] << np.uint64(8))
    if kind == "fp8":  # four moderate e4m3 or e5m2 values
        return rng.bits(count, 32) & np.uint64(0xBFBFBFBF) | np.uint64(0x20202020)
    if kind == "oob":  # the NaN of fma.oob and its neighbours among regular 16-bit floats
        special = [0x7FF7, 0xFFF7, 0x7FF6, 0x7FFF, 0xFE00, 0x7C00, 0x7F80, 0, 0x8000, 0x3C00, 0x4000, 0xBF80]
        parts = [np.where(rng.random(count) < 0.8, _pick(rng, count, special), rng.bits(count, 16)) for _ in range(2)]
        return parts[0] | (parts[1] << np.uint64(16)) if type_ in PACKED else parts[0]
    if kind in ("sparse", "pairs"):  # metadata of mma.sp: eight nibbles with two different ordered indices each
        choices = [0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110] if kind == "sparse" else [0b0100, 0b1110]
        return np.sum([_pick(rng, count, choices) << np.uint64(4 * k) for k in range(8)], axis=0, dtype=np.uint64)
    if kind == "mask":
        return rng.bits(count, 32)
    if kind:
        raise ValueError(f"no such kind of values: {kind}")
    if type_ == "pred":
        return rng.integers(0, 2, count).astype(np.uint64)
    share = 0.5 if arity > 1 else 0.0
    if type_ in PACKED:
        part, width = PACKED[type_]
        values = _scalar(rng, count, part, 0.5) | (_scalar(rng, count, part, 0.5) << np.uint64(width))
    else:
        values = _scalar(rng, count, type_, share)
    special = np.array(edges_of(type_), dtype=np.uint64)
    if arity == 1:
        values[: len(special)] = special[:count]
    elif arity == 2:
        place = np.arange(0, count, 4)
        values[place] = special[(place // 4 + rng.integers(0, 99, 1)) % len(special)]
    return values


LEAST = ("factor", "cofactor", "multiple", "remainder", "dividend", "divisor", "inverse", "narrowed", "tiny")


def _nearest(value: Fraction, exponent: int, mantissa: int) -> int:
    """The next normal number of a format towards zero."""
    size = abs(value)
    e = size.numerator.bit_length() - size.denominator.bit_length()
    e -= size < Fraction(2) ** e
    units = int(size / Fraction(2) ** (e - mantissa))
    bits = ((e + (1 << (exponent - 1)) - 1) << mantissa) + units - (1 << mantissa)
    return bits | (value < 0) << (exponent + mantissa)


def _value(bits: int, exponent: int, mantissa: int) -> Fraction:
    e = bits >> mantissa & ((1 << exponent) - 1)
    units = Fraction((bits & ((1 << mantissa) - 1)) + (1 << mantissa)) * (-1) ** (bits >> (exponent + mantissa))
    return units * Fraction(2) ** (e - mantissa - (1 << (exponent - 1)) + 1)


def _near_least(rng: Random, count: int, operand: Operand, before: list[np.ndarray]) -> np.ndarray:
    """Operands whose exact result is within a few units of the smallest normal number, above and below."""
    if operand.type in PACKED:
        part, width = PACKED[operand.type]
        low, high = (
            _near_least(
                rng, count, Operand(part, operand.kind), [c >> np.uint64(k) & np.uint64(0xFFFF) for c in before]
            )
            for k in (0, width)
        )
        return low | high << np.uint64(width)
    exponent, mantissa = FLOATS[operand.type]
    bias, sign = (1 << (exponent - 1)) - 1, 1 << (exponent + mantissa)
    least, top = Fraction(2) ** (1 - bias), 1 << mantissa
    chance, negative = [int(x) for x in rng.bits(count, mantissa)], [int(x) for x in rng.bits(count, 1)]
    some, step = [int(x) for x in rng.bits(count, 16)], [int(x) for x in rng.integers(-3, 4, count)]
    values = []
    for k in range(count):
        # Every fourth value has few one bits, because ties and exact results are rare otherwise.
        fraction = (top - 1 - chance[k] % 4, 1 << chance[k] % mantissa, chance[k] % 3, chance[k])[k % 4]
        first = _value(int(before[0][k]), exponent, mantissa) if before else Fraction(0)
        if (
            operand.kind == "factor"
        ):  # between 1 and the smallest normal, so that the product needs another normal number
            bits = (bias - some[k] % (bias - 1)) << mantissa | fraction
            if bits >> mantissa == bias:
                bits = bias << mantissa
        elif operand.kind in ("cofactor", "multiple"):  # the product is the smallest normal, or 2 to 16 times that
            times = 2 ** (1 + some[k] % 4) if operand.kind == "multiple" else 1
            bits = _nearest(abs(least * times / first), exponent, mantissa)
            bits = max(bits + step[k], top)
        elif (
            operand.kind == "remainder"
        ):  # the sum with the product is the smallest normal, within this number's last place
            product = first * _value(int(before[1][k]), exponent, mantissa)
            bits = _nearest((-least if negative[k] else least) - product, exponent, mantissa) + step[k] % 2
            values.append(max(bits & (sign - 1), top) | bits & sign)
            continue
        elif operand.kind == "dividend":
            bits = (1 + some[k] % (bias + 1)) << mantissa | fraction
        elif operand.kind == "divisor":  # the quotient is the smallest normal
            bits = (int(before[0][k]) & (sign - 1)) + ((bias - 1) << mantissa) + step[k]
        elif operand.kind == "tiny":  # 1 to 8 times the smallest normal: sums are above and below it
            bits = (1 + some[k] % 3) << mantissa | fraction
        elif operand.kind == "inverse":
            bits = ((2 * bias - 1) << mantissa) + 8 * step[k] + some[k] % 8
        else:  # narrowing: doubles next to the smallest normal float and midpoints between floats there
            bits = ((1023 - 126) << 52) + (8 * step[k] + some[k] % 8 << 26) + chance[k] % 3 - 1
        values.append(bits | sign * negative[k])
    return np.array(values, dtype=np.uint64)


def inputs(form: Form) -> np.ndarray:
    """The operand cells of a form: one row per operand, one 64-bit cell per thread."""
    return _inputs(form.cases, tuple(form.operands))


@functools.cache
def _inputs(count: int, operands: tuple[Operand, ...]) -> np.ndarray:
    columns: list[np.ndarray] = []
    for k, operand in enumerate(operands):
        # Equal types have equal values for every instruction, so that forms can be compared.
        seed = zlib.crc32(f"{k} {operand.type}:{operand.kind} of {len(operands)}".encode())
        if operand.kind == "nans":  # all combinations with the other operands' values
            choices = np.array(_nans(operand.type), dtype=np.uint64)
            columns.append(choices[np.arange(count) // len(choices) ** k % len(choices)])
            continue
        if operand.kind in LEAST:
            columns.append(_near_least(Random(seed), count, operand, columns))
            continue
        column = _column(Random(seed), count, operand, len(operands))
        if k and not operand.kind and operand.type == operands[0].type and operand.type in FLOATS:
            _relate(Random(seed + 1), column, columns[0], operand.type)
        columns.append(column)
    cells = np.array(columns, dtype=np.uint64).reshape(len(columns), count)
    cells.flags.writeable = False  # forms share them
    return cells


def _relate(rng: Random, column: np.ndarray, first: np.ndarray, type_: str) -> None:
    """Sets some values close to the first operand or its negative, for cancellation and equal comparisons."""
    exponent, mantissa = FLOATS[type_]
    sign = np.uint64(1 << (exponent + mantissa))
    near = rng.random(len(column)) < 0.12
    change = rng.integers(0, 3, len(column)).astype(np.uint64)
    flip = np.where(rng.random(len(column)) < 0.5, sign, np.uint64(0))
    column[near] = ((first ^ change) ^ flip)[near]
