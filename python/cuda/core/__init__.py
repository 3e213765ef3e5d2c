# SPDX-License-Identifier: Apache-2.0
"""Pythonic access to the CUDA runtime: devices, streams, memory, kernels and graphs.

Names are imported lazily, at first use, to keep the import of the package fast.
"""

from __future__ import annotations

from os.path import exists as _exists

if (
    _exists(f"{__path__[0]}/../core/_resource_handles.pxd")
    or _exists(f"{__path__[0]}/../bindings/driver.pxd")
    or _exists(f"{__path__[0]}/../pathfinder/_dynamic_libs")
    or (
        _exists(__file__)
        and not (
            _exists(f"{__path__[0]}/../bindings/__init__.py") and _exists(f"{__path__[0]}/../pathfinder/__init__.py")
        )
    )
):  # files of NVIDIA's wheels are present, or files of this package are missing: both are installed in one directory
    from cucore.mixed import refuse

    refuse(__name__)

from ._version import __version__

TYPE_CHECKING = False  # importing typing would cost more than this package
if TYPE_CHECKING:
    from typing import Any

# The module that defines each public name. A name is imported at first use and then cached in globals().
_HOMES = {
    # devices, streams, events
    "Context": "_core",
    "Device": "_core",
    "Event": "_core",
    "LEGACY_DEFAULT_STREAM": "_core",
    "PER_THREAD_DEFAULT_STREAM": "_core",
    "Stream": "_core",
    "ContextOptions": "_options",
    "EventOptions": "_options",
    "StreamOptions": "_options",
    "DeviceResources": "_resources",
    "SMResource": "_resources",
    "SMResourceOptions": "_options",
    "WorkqueueResource": "_resources",
    "WorkqueueResourceOptions": "_options",
    # memory
    "Buffer": "_core",
    "DeviceMemoryResource": "_memory",
    "DeviceMemoryResourceOptions": "_options",
    "GraphMemoryResource": "_memory",
    "GraphicsResource": "_graphics",
    "Host": "_location",
    "LegacyPinnedMemoryResource": "_memory",
    "ManagedBuffer": "_managed",
    "ManagedMemoryResource": "_memory",
    "ManagedMemoryResourceOptions": "_options",
    "MemoryResource": "_memory",
    "PinnedMemoryResource": "_memory",
    "PinnedMemoryResourceOptions": "_options",
    "TensorMapDescriptor": "_tensor_map",
    "TensorMapDescriptorOptions": "_tensor_map",
    "VirtualMemoryResource": "_virtual_memory",
    "VirtualMemoryResourceOptions": "_virtual_memory",
    # compilation
    "Kernel": "_module",
    "Linker": "_linker",
    "LinkerOptions": "_linker",
    "ObjectCode": "_module",
    "Program": "_program",
    "ProgramOptions": "_program",
    # launch
    "LaunchConfig": "_core",
    "launch": "_core",
    # errors
    "CUDAError": "_errors",
    "NVRTCError": "_errors",
}

_SUBMODULES = frozenset({"checkpoint", "experimental", "graph", "system", "texture", "typing", "utils"})

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is not None:
        value = getattr(__import__(f"{__name__}.{home}", fromlist=(name,)), name)
        globals()[name] = value
        return value
    if name in _SUBMODULES:
        return __import__(f"{__name__}.{name}", fromlist=(name,))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_SUBMODULES})
