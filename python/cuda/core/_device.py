"""Small types that Device hands back."""

from collections import namedtuple


class ComputeCapability(namedtuple("ComputeCapability", ("major", "minor"))):
    """The generation of a device: ``ComputeCapability(major=9, minor=0)``."""

    __slots__ = ()
    major: int
    minor: int
