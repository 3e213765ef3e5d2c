# SPDX-License-Identifier: Apache-2.0
"""The system's GPUs as NVML sees them, whether or not this process uses CUDA on them. On the CPU device its own NVML answers.

``driver_version`` is the CUDA driver's (major, minor).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import _core
from ._nvml import native

if TYPE_CHECKING:
    from ._device import Device
    from ._events import DeviceEvents as DeviceEvents
    from ._events import register_events
    from ._parts import NvlinkInfo
    from .typing import GpuP2PStatus, GpuTopologyLevel

CUDA_BINDINGS_NVML_IS_COMPATIBLE = True

_HOMES = {
    "Device": "_device",
    "DeviceEvents": "_events",
    "NvlinkInfo": "_parts",
    "register_events": "_events",
}

__all__ = [
    "CUDA_BINDINGS_NVML_IS_COMPATIBLE",
    "Device",
    "NvlinkInfo",
    "get_driver_branch",
    "get_kernel_mode_driver_version",
    "get_num_devices",
    "get_nvml_version",
    "get_p2p_status",
    "get_process_name",
    "get_topology_common_ancestor",
    "get_user_mode_driver_version",
    "register_events",
]


def get_user_mode_driver_version() -> tuple[int, ...]:
    """The CUDA version of the driver in use: (13, 0).

    >>> system.get_user_mode_driver_version() >= (12, 0)
    True
    """
    return _core.driver_version()


def get_kernel_mode_driver_version() -> tuple[int, ...]:
    """The version of the kernel's driver: (580, 65, 6).

    >>> len(system.get_kernel_mode_driver_version()) >= 1
    True
    """
    version: tuple[int, ...] = native._system_driver_version()
    return version


def get_nvml_version() -> tuple[int, ...]:
    """The version of NVML.

    >>> system.get_nvml_version() > (0,)
    True
    """
    version: tuple[int, ...] = native._system_nvml_version()
    return version


def get_driver_branch() -> str:
    """The branch the driver was built from.

    >>> branch = system.get_driver_branch()
    """
    name: str = native._system_driver_branch()
    return name


def get_num_devices() -> int:
    """How many GPUs the system has; the CPU device's where it stands in for them.

    >>> system.get_num_devices() >= 1
    True
    """
    count: int = native._system_num_devices()
    return count


def get_process_name(pid: int) -> str:
    """The name of a process that uses a GPU."""
    name: str = native._system_process_name(pid)
    return name


def get_p2p_status(device1: Device, device2: Device, index: Any) -> GpuP2PStatus:
    """Whether one GPU can do something with another, and if not, why."""
    from .typing import GpuP2PCapsIndex, GpuP2PStatus, member_of, number_of

    number = number_of(GpuP2PCapsIndex, index)
    return member_of(GpuP2PStatus, native._system_p2p_status(device1._native, device2._native, number))


def get_topology_common_ancestor(device1: Device, device2: Device) -> GpuTopologyLevel:
    """What lies between two GPUs."""
    from .typing import GpuTopologyLevel, member_of

    return member_of(GpuTopologyLevel, native._system_common_ancestor(device1._native, device2._native))


def __getattr__(name: str) -> Any:
    if name == "driver_version":
        return _core.driver_version()
    home = _HOMES.get(name)
    if home is not None:
        value = getattr(__import__(f"{__name__}.{home}", fromlist=(name,)), name)
    elif name in ("exceptions", "typing"):
        return __import__(f"{__name__}.{name}", fromlist=(name,))
    elif name.endswith("Error"):
        from . import exceptions

        value = getattr(exceptions, name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value
