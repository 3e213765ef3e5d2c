# SPDX-License-Identifier: Apache-2.0
"""NVML queries of the system's GPUs, independent of CUDA in this process. The CPU device has its own NVML library.

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
    """Return the CUDA version that the user-mode driver supports: (13, 0).

    >>> system.get_user_mode_driver_version() >= (12, 0)
    True
    """
    return _core.driver_version()


def get_kernel_mode_driver_version() -> tuple[int, ...]:
    """Return the version of the kernel-mode driver: (580, 65, 6).

    >>> len(system.get_kernel_mode_driver_version()) >= 1
    True
    """
    version: tuple[int, ...] = native._system_driver_version()
    return version


def get_nvml_version() -> tuple[int, ...]:
    """Return the version of NVML.

    >>> system.get_nvml_version() > (0,)
    True
    """
    version: tuple[int, ...] = native._system_nvml_version()
    return version


def get_driver_branch() -> str:
    """Return the branch of the driver.

    >>> branch = system.get_driver_branch()
    """
    name: str = native._system_driver_branch()
    return name


def get_num_devices() -> int:
    """Return the number of GPUs of the system; on the CPU device, the number of its devices.

    >>> system.get_num_devices() >= 1
    True
    """
    count: int = native._system_num_devices()
    return count


def get_process_name(pid: int) -> str:
    """Return the name of a process that uses a GPU."""
    name: str = native._system_process_name(pid)
    return name


def get_p2p_status(device1: Device, device2: Device, index: Any) -> GpuP2PStatus:
    """Return the status of a peer-to-peer capability between two GPUs: supported, or the reason why not."""
    from .typing import GpuP2PCapsIndex, GpuP2PStatus, member_of, number_of

    number = number_of(GpuP2PCapsIndex, index)
    return member_of(GpuP2PStatus, native._system_p2p_status(device1._native, device2._native, number))


def get_topology_common_ancestor(device1: Device, device2: Device) -> GpuTopologyLevel:
    """Return the level of the common ancestor of two GPUs in the system's topology."""
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
