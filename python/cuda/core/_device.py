"""Small types that Device hands back."""

from __future__ import annotations

from typing import NamedTuple


class ComputeCapability(NamedTuple):
    """The generation of a device: ``ComputeCapability(major=9, minor=0)``."""

    major: int
    minor: int
