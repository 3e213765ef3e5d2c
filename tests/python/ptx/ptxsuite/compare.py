# SPDX-License-Identifier: Apache-2.0
"""Compares results with expected results, or approximations with true values."""

from __future__ import annotations

import numpy as np

from . import true_values
from .forms import Form, Operand
from .values import FLOATS, PACKED, inputs

_VIEWS = {2: np.uint16, 4: np.uint32, 8: np.uint64}
TOLERANCES = ("ulp", "abs", "rel", "mix", "sum")


def columns(form: Form, data: bytes) -> list[np.ndarray]:
    """The results of a form as arrays of bit patterns, followed by the bytes of the scratch memory, if any."""
    arrays, at = [], 0
    for result in form.results:
        size = result.bytes * form.cases
        arrays.append(np.frombuffer(data[at : at + size], _VIEWS[result.bytes]))
        at += size
    if at < len(data):
        arrays.append(np.frombuffer(data[at:], np.uint8))
    return arrays


def as_float(bits: np.ndarray, type_: str) -> np.ndarray:
    """Converts bit patterns of a float type to doubles; a packed type yields two rows."""
    if type_ in PACKED:
        part, width = PACKED[type_]
        wide = bits.astype(np.uint64)
        low, high = wide & np.uint64((1 << width) - 1), wide >> np.uint64(width)
        return np.stack([as_float(low, part), as_float(high, part)])
    if type_ == "f16":
        return bits.astype(np.uint16).view(np.float16).astype(np.float64)
    if type_ == "bf16":
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if type_ == "f64":
        return bits.astype(np.uint64).view(np.float64)
    return bits.astype(np.uint32).view(np.float32).astype(np.float64)


def _power(text: str) -> float:
    base, _, exponent = text.partition("^")
    return float(base) ** float(exponent) if exponent else float(base)


def _last_place(value: np.ndarray, type_: str) -> np.ndarray:
    """The unit in the last place of a value."""
    mantissa, least = {"f16": (10, -24), "bf16": (7, -133), "f64": (52, -1074)}.get(
        PACKED.get(type_, (type_,))[0], (23, -149)
    )
    with np.errstate(all="ignore"):
        exponent = np.floor(np.log2(np.abs(value)))
    exponent = np.where(np.isfinite(exponent), exponent, least)
    return np.exp2(np.maximum(exponent - mantissa, least))


def allowed(form: Form, expected: np.ndarray, type_: str) -> np.ndarray | None:
    """The maximum error of a result, or None for a form that must be exact."""
    for name in TOLERANCES:
        if name in form.options:
            bound = _power(form.options[name])
            size = np.abs(np.where(np.isfinite(expected), expected, 0))
            if name == "ulp":
                return bound * _last_place(expected, type_)
            slack = _last_place(np.zeros_like(expected), type_)  # relative error bounds do not apply to subnormals
            if name == "abs":
                return bound + slack
            if name == "mix":
                return bound * np.maximum(size, 1) + slack
            if name == "sum":
                return np.full_like(expected, bound * max(size.max(), 1.0))
            return bound * size + slack
    return None


def _near(form: Form, expected: np.ndarray, got: np.ndarray, type_: str, flushes: bool) -> np.ndarray:
    bound = allowed(form, expected, type_)
    assert bound is not None
    with np.errstate(invalid="ignore"):
        good = np.abs(got - expected) <= bound
    good |= (got == expected) | (np.isnan(got) & np.isnan(expected))
    if flushes:
        good |= (got == 0) & (np.abs(expected) < 2.0**-126 * 1.0001)
    return good.all(axis=0) if good.ndim == 2 else good


def one_nan(bits: np.ndarray, type_: str) -> np.ndarray:
    """The bit patterns with every NaN replaced by one NaN."""
    if type_ in PACKED and PACKED[type_][0] in FLOATS:
        part, width = PACKED[type_]
        wide = bits.astype(np.uint64)
        low = one_nan(wide & np.uint64((1 << width) - 1), part)
        return low | (one_nan(wide >> np.uint64(width), part) << np.uint64(width))
    if type_ not in FLOATS:
        return bits
    exponent, mantissa = FLOATS[type_]
    quiet = np.uint64((1 << (exponent + mantissa)) - 1)
    infinity = np.uint64(((1 << exponent) - 1) << mantissa)
    wide = bits.astype(np.uint64)
    return np.where((wide & quiet) > infinity, quiet, wide)


def mismatches(form: Form, expected: bytes, got: bytes, any_nan: bool = False) -> str:
    """Describes the differences with the operands of the first few cases; empty if there are none.

    A result passes if it equals the expected result or is within its error bound of the true value.
    `any_nan`: any NaN equals an expected NaN.
    """
    given = inputs(form)
    reports = []
    for k, (want, have) in enumerate(zip(columns(form, expected), columns(form, got), strict=True)):
        wrong = want != have
        if any_nan and k < len(form.results):
            wrong &= one_nan(want, form.results[k].type) != one_nan(have, form.results[k].type)
        if k < len(form.results) and (name := form.results[k].type) and any(t in form.options for t in TOLERANCES):
            target = true_values.approximated(form, given)
            wanted = as_float(want, name) if target is None else target
            with np.errstate(all="ignore"):
                have_value, flushes = as_float(have, name), ".ftz" in form.id
                wrong &= ~_near(form, wanted, have_value, name, flushes)
                # If the manual specifies no error bound (sin of a huge angle), the result must be close to the GPU's.
                wrong &= ~_near(form, as_float(want, name), have_value, name, flushes)
        if wrong.any():
            reports.append(_report(form, k, given, want, have, np.flatnonzero(wrong)))
    return "\n".join(reports)


def _report(form: Form, k: int, given: np.ndarray, want: np.ndarray, have: np.ndarray, where: np.ndarray) -> str:
    result = form.results[k] if k < len(form.results) else Operand("b16")
    lines = [f"{form.id}: {len(where)} of {len(want)} wrong in result {k} ({result.type})"]
    for i in where[:6]:
        digits = 2 * want.itemsize
        operands = ""
        if k < len(form.results):
            operands = " ".join(f"{operand.type}:{int(given[j][i]):#x}" for j, operand in enumerate(form.operands))
        lines.append(f"  [{i}] {operands} -> {int(have[i]):#0{digits + 2}x}, expected {int(want[i]):#0{digits + 2}x}")
    return "\n".join(lines)
