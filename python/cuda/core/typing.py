# SPDX-License-Identifier: Apache-2.0
"""Names for annotations: enums whose members are strings, protocols and unions of cuda.core."""

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
    """Anything that says it is a CUDA stream."""

    def __cuda_stream__(self) -> tuple[int, int]:
        """(protocol version, address of the stream)"""
        ...


class AddressModeType(StrEnum):
    """What a texture reads outside its bounds."""

    WRAP = "wrap"
    CLAMP = "clamp"
    MIRROR = "mirror"
    BORDER = "border"


class ArrayFormatType(StrEnum):
    """The type of an array's elements."""

    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    FLOAT16 = "float16"
    FLOAT32 = "float32"


class CompilerBackendType(StrEnum):
    """Who compiles or links."""

    NVRTC = "NVRTC"
    NVVM = "NVVM"
    NVJITLINK = "nvJitLink"
    DRIVER = "driver"


class FilterModeType(StrEnum):
    """How a texture is read between elements."""

    POINT = "point"
    LINEAR = "linear"


class GraphConditionalType(StrEnum):
    """The kind of a conditional node."""

    IF = "if"
    WHILE = "while"
    SWITCH = "switch"


class GraphMemoryType(StrEnum):
    """What an AllocNode allocates."""

    DEVICE = "device"
    HOST = "host"
    MANAGED = "managed"


class ManagedMemoryLocationType(StrEnum):
    """Where managed memory prefers to live."""

    DEVICE = "device"
    HOST = "host"
    HOST_NUMA = "host_numa"


class ObjectCodeFormatType(StrEnum):
    """The kind of compiled code."""

    CUBIN = "cubin"
    PTX = "ptx"
    LTOIR = "ltoir"
    FATBIN = "fatbin"
    OBJECT = "object"
    LIBRARY = "library"


class PCHStatusType(StrEnum):
    """What became of a precompiled header."""

    CREATED = "created"
    FAILED = "failed"
    NOT_ATTEMPTED = "not_attempted"


class ReadModeType(StrEnum):
    """What a texture returns: its elements, or floats in 0..1."""

    ELEMENT_TYPE = "element_type"
    NORMALIZED_FLOAT = "normalized_float"


class SourceCodeType(StrEnum):
    """The language of a program."""

    CXX = "c++"
    PTX = "ptx"
    NVVM = "nvvm"


class VirtualMemoryAccessType(StrEnum):
    """What a device may do with virtual memory."""

    READ = "r"
    READ_WRITE = "rw"


class VirtualMemoryAllocationType(StrEnum):
    """The kind of memory mapped at virtual addresses."""

    PINNED = "pinned"
    MANAGED = "managed"


class VirtualMemoryGranularityType(StrEnum):
    """What sizes are rounded up to."""

    MINIMUM = "minimum"
    RECOMMENDED = "recommended"


class VirtualMemoryHandleType(StrEnum):
    """How memory is exported to other processes."""

    POSIX_FD = "posix_fd"
    WIN32_KMT = "win32_kmt"
    FABRIC = "fabric"


class VirtualMemoryLocationType(StrEnum):
    """The location of the memory mapped at virtual addresses."""

    DEVICE = "device"
    HOST = "host"
    HOST_NUMA = "host_numa"
    HOST_NUMA_CURRENT = "host_numa_current"


ProcessStateType = Literal["running", "locked", "checkpointed", "failed"]


def __getattr__(name: str) -> Any:
    if name == "DevicePointerType":  # needs the bindings, which are imported only for this
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
