# SPDX-License-Identifier: Apache-2.0
"""Types for annotations: string enums, protocols and unions of cuda.core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from ._strenum import StrEnum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cuda.bindings import driver

    from ._resources import SMResource, WorkqueueResource
    from ._resources import WorkqueueSharingScopeType as WorkqueueSharingScopeType

    DevicePointerType = driver.CUdeviceptr | int | None
    DeviceResourcesType = Sequence[SMResource | WorkqueueResource]

__all__ = [
    "AddressModeType",
    "ArrayFormatType",
    "CompilerBackendType",
    "DevicePointerType",
    "DeviceResourcesType",
    "FilterModeType",
    "GraphConditionalType",
    "GraphMemoryType",
    "IsStreamType",
    "ManagedMemoryLocationType",
    "ObjectCodeFormatType",
    "PCHStatusType",
    "ProcessStateType",
    "ReadModeType",
    "SourceCodeType",
    "VirtualMemoryAccessType",
    "VirtualMemoryAllocationType",
    "VirtualMemoryGranularityType",
    "VirtualMemoryHandleType",
    "VirtualMemoryLocationType",
    "WorkqueueSharingScopeType",
]


@runtime_checkable
class IsStreamType(Protocol):
    """The protocol of CUDA streams."""

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return (protocol version, stream handle)."""
        ...


class AddressModeType(StrEnum):
    """The address mode of a texture for out-of-range coordinates."""

    WRAP = "wrap"
    CLAMP = "clamp"
    MIRROR = "mirror"
    BORDER = "border"


class ArrayFormatType(StrEnum):
    """The format of an array's channels."""

    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    FLOAT16 = "float16"
    FLOAT32 = "float32"


class CompilerBackendType(StrEnum):
    """The library that compiles or links."""

    NVRTC = "NVRTC"
    NVVM = "NVVM"
    NVJITLINK = "nvJitLink"
    DRIVER = "driver"


class FilterModeType(StrEnum):
    """The filter mode of a texture."""

    POINT = "point"
    LINEAR = "linear"


class GraphConditionalType(StrEnum):
    """The type of a conditional node."""

    IF = "if"
    WHILE = "while"
    SWITCH = "switch"


class GraphMemoryType(StrEnum):
    """The type of memory that an AllocNode allocates."""

    DEVICE = "device"
    HOST = "host"
    MANAGED = "managed"


class ManagedMemoryLocationType(StrEnum):
    """The type of managed memory's preferred location."""

    DEVICE = "device"
    HOST = "host"
    HOST_NUMA = "host_numa"


class ObjectCodeFormatType(StrEnum):
    """The format of compiled code."""

    CUBIN = "cubin"
    PTX = "ptx"
    LTOIR = "ltoir"
    FATBIN = "fatbin"
    OBJECT = "object"
    LIBRARY = "library"


class PCHStatusType(StrEnum):
    """The status of a precompiled header."""

    CREATED = "created"
    FAILED = "failed"
    NOT_ATTEMPTED = "not_attempted"


class ReadModeType(StrEnum):
    """The read mode of a texture: the element type, or integers normalized to float."""

    ELEMENT_TYPE = "element_type"
    NORMALIZED_FLOAT = "normalized_float"


class SourceCodeType(StrEnum):
    """The source language of a program."""

    CXX = "c++"
    PTX = "ptx"
    NVVM = "nvvm"


class VirtualMemoryAccessType(StrEnum):
    """The access of a device to virtual memory."""

    READ = "r"
    READ_WRITE = "rw"


class VirtualMemoryAllocationType(StrEnum):
    """The allocation type of virtual memory."""

    PINNED = "pinned"
    MANAGED = "managed"


class VirtualMemoryGranularityType(StrEnum):
    """The granularity to which sizes are rounded up."""

    MINIMUM = "minimum"
    RECOMMENDED = "recommended"


class VirtualMemoryHandleType(StrEnum):
    """The type of shareable handle, by which memory is exported to other processes."""

    POSIX_FD = "posix_fd"
    WIN32_KMT = "win32_kmt"
    FABRIC = "fabric"


class VirtualMemoryLocationType(StrEnum):
    """The type of location of virtual memory."""

    DEVICE = "device"
    HOST = "host"
    HOST_NUMA = "host_numa"
    HOST_NUMA_CURRENT = "host_numa_current"


ProcessStateType = Literal["running", "locked", "checkpointed", "failed"]


def __getattr__(name: str) -> Any:
    if name == "DevicePointerType":  # imported lazily, because it requires cuda.bindings
        from cuda.bindings import driver

        value: Any = driver.CUdeviceptr | int | None
    elif name == "DeviceResourcesType":
        from collections.abc import Sequence

        from ._resources import SMResource, WorkqueueResource

        value = Sequence[SMResource | WorkqueueResource]
    elif name == "WorkqueueSharingScopeType":
        from ._resources import WorkqueueSharingScopeType

        value = WorkqueueSharingScopeType
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value
