# SPDX-License-Identifier: Apache-2.0
"""Result types of Device."""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False  # importing typing would cost more than this module
if TYPE_CHECKING:
    from typing import NamedTuple

    class _Pair(NamedTuple):
        major: int
        minor: int

else:
    _Pair = namedtuple("ComputeCapability", ("major", "minor"))


class ComputeCapability(_Pair):
    """The compute capability of a device: ``ComputeCapability(major=9, minor=0)``."""

    __slots__ = ()
