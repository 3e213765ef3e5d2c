# SPDX-License-Identifier: Apache-2.0
"""The `system` module of cuda.core up to 0.7: `system.num_devices`, `system.devices`, `system.driver_version`.

It also has all names of `cuda.core.system`.
"""

from __future__ import annotations

from typing import Any

import cuda.core.system as _system
from cuda.core.system import *  # noqa: F403
from cuda.core.system import __all__ as __all__

_VALUES = ("devices", "driver_version", "num_devices")


def __getattr__(name: str) -> Any:
    from cuda.core import Device

    if name == "num_devices":
        return len(Device.get_all_devices())
    if name == "devices":
        return tuple(Device.get_all_devices())
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_system, name)


def __dir__() -> list[str]:
    return sorted({*dir(_system), *_VALUES})
