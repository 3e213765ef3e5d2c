# SPDX-License-Identifier: Apache-2.0
"""The functions and classes of C++'s ``cucore::system``, which call NVML."""

from __future__ import annotations

from typing import Any

import cuda.pathfinder  # noqa: F401  tells the C++ side where Python packages live

from .. import _core

native: Any = _core


def device_of(handle: int) -> Any:
    """Returns the C++ device of an NVML handle."""
    return native._SystemDevice.of_handle(handle)
