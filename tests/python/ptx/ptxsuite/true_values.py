# SPDX-License-Identifier: Apache-2.0
"""True values of the approximate instructions, in double precision or better."""

from __future__ import annotations

import re

import numpy as np

from .forms import Form
from .values import PACKED

_FUNCTIONS = {
    "rcp": lambda a: 1 / a,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "sin": np.sin,
    "cos": np.cos,
    "lg2": np.log2,
    "ex2": np.exp2,
    "tanh": np.tanh,
}


def _flushed(value: np.ndarray, least: float) -> np.ndarray:
    return np.where(np.abs(value) < least, np.copysign(0.0, value), value)


def approximated(form: Form, given: np.ndarray) -> np.ndarray | None:
    """The exact result; None if there is no simple formula.

    f32 quotients and roots are computed in double precision, f64 ones in long double.
    """
    from .compare import as_float

    match = re.match(r"(div|rcp|sqrt|rsqrt|sin|cos|lg2|ex2|tanh)\.(approx|full)(\.ftz)?\.(\w+)$", form.id)
    if not match:
        return None
    type_ = match[4]
    operands = [as_float(column, type_) for column in given]
    flush = bool(match[3]) or (type_ == "f64" and match[1] == "rcp")
    if flush:
        least = 2.0**-1022 if type_ == "f64" else 2.0**-126
        operands = [_flushed(operand, least) for operand in operands]
    if type_ == "f64":
        operands = [operand.astype(np.longdouble) for operand in operands]
    with np.errstate(all="ignore"):
        value = operands[0] / operands[1] if match[1] == "div" else _FUNCTIONS[match[1]](operands[0])
        largest = {"f16": 65520.0, "f32": 2.0**128 * (1 - 2.0**-25), "bf16": 2.0**128 * (1 - 2.0**-9)}
        limit = largest.get(PACKED.get(type_, (type_,))[0])
        if limit:
            value = np.where(np.abs(value) >= limit, np.copysign(np.inf, value), value)
        if flush:
            value = _flushed(value, least)
    return value.astype(np.float64)
