# SPDX-License-Identifier: Apache-2.0
"""Registry of instruction models, and integer conversions for them.

A model takes the operands of one thread as bit patterns and returns its results as bit patterns.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .values import WIDTHS

Model = Callable[..., tuple[int, ...]]
U32 = (1 << 32) - 1
INT = r"(u16|u32|u64|s16|s32|s64)"
COMPARE = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
COMPARE |= {"lo": COMPARE["lt"], "ls": COMPARE["le"], "hi": COMPARE["gt"], "hs": COMPARE["ge"]}
MODELS: list[tuple[re.Pattern[str], Callable[[re.Match[str]], Model | None]]] = []


def model(pattern: str) -> Callable[[Callable[[re.Match[str]], Model | None]], Callable[[re.Match[str]], Model | None]]:
    def register(make: Callable[[re.Match[str]], Model | None]) -> Callable[[re.Match[str]], Model | None]:
        MODELS.append((re.compile(pattern + "$"), make))
        return make

    return register


def wide(value: int, type_: str) -> int:
    """The value of a bit pattern in its integer type."""
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
