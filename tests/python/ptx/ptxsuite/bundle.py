# SPDX-License-Identifier: Apache-2.0
"""A bundle: a group of instruction families, a kernel that uses them, and a check of its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .program import Program


@dataclass
class Bundle:
    name: str  # as in docs/design/ptx.md
    uses: str  # families, as patterns of the PTX text
    source: str
    check: Callable[[Program], None]
    options: tuple[str, ...] = ()
    arch: str = "compute_90"


BUNDLES: list[Bundle] = []


def bundle(
    name: str, uses: str, source: str, *options: str, arch: str = "compute_90"
) -> Callable[[Callable[[Program], None]], Callable[[Program], None]]:
    def register(check: Callable[[Program], None]) -> Callable[[Program], None]:
        BUNDLES.append(Bundle(name, uses, source, check, options, arch))
        return check

    return register


def signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value
