# SPDX-License-Identifier: Apache-2.0
"""The functions and classes of the C++ library's ``cucore::system``, which ask NVML."""

from __future__ import annotations

from typing import Any

import cuda.pathfinder  # noqa: F401  tells the C++ side where Python packages live

from .. import _core

native: Any = _core


def device_of(handle: int) -> Any:
    """The C++ library's device with NVML's handle."""
    return native._SystemDevice.of_handle(handle)
