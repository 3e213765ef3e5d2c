# SPDX-License-Identifier: Apache-2.0
"""Versions as tuples of integers."""

from __future__ import annotations

import re

from .. import _core

__all__ = ["binding_version", "driver_version"]


def binding_version() -> tuple[int, int, int]:
    """Returns the version of cuda.bindings: (13, 5, 0)."""
    from cuda.bindings import __version__

    numbers = [int(n) for n in re.findall(r"\d+", __version__)[:3]]
    major, minor, patch = [*numbers, 0, 0, 0][:3]
    return major, minor, patch


def driver_version() -> tuple[int, int, int]:
    """Returns the CUDA version that the driver supports: (13, 0, 0)."""
    major, minor, *_ = _core.driver_version()
    return major, minor, 0
