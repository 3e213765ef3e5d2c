# SPDX-License-Identifier: Apache-2.0
"""Virtual memory management: address ranges are reserved separately from physical memory; buffers can grow in place."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from . import _core
from ._memory import Buffer, MemoryResource
from .typing import (
    VirtualMemoryAccessType,
    VirtualMemoryAllocationType,
    VirtualMemoryGranularityType,
    VirtualMemoryHandleType,
    VirtualMemoryLocationType,
)

# Values of the driver's enums.
_ALLOCATION = {VirtualMemoryAllocationType.PINNED: 1, VirtualMemoryAllocationType.MANAGED: 2}
_LOCATION = {
    VirtualMemoryLocationType.DEVICE: 1,
    VirtualMemoryLocationType.HOST: 2,
    VirtualMemoryLocationType.HOST_NUMA: 3,
    VirtualMemoryLocationType.HOST_NUMA_CURRENT: 4,
}
_HANDLE = {
    None: 0,
    VirtualMemoryHandleType.POSIX_FD: 1,
    VirtualMemoryHandleType.WIN32_KMT: 4,
    VirtualMemoryHandleType.FABRIC: 8,
}
_GRANULARITY = {VirtualMemoryGranularityType.MINIMUM: 0, VirtualMemoryGranularityType.RECOMMENDED: 1}
_ACCESS = {VirtualMemoryAccessType.READ: 1, VirtualMemoryAccessType.READ_WRITE: 3}


def _checked_size(size: Any) -> int:
    """Returns ``size`` as an int. Raises ValueError if it does not fit in 64 bits after rounding up."""
    try:
        number = operator.index(size)
    except TypeError:
        raise TypeError(f"size must be an int, not {type(size).__name__}") from None
    if not 0 < number < 2**63:
        raise ValueError(f"size must be positive and less than 2**63, not {number}")
    return number


@dataclass
class VirtualMemoryResourceOptions:
    """Options of a VirtualMemoryResource.

    - ``allocation_type``: ``"pinned"`` (not migrated) or ``"managed"``
    - ``location_type``: ``"device"``, ``"host"``, ``"host_numa"`` or ``"host_numa_current"``
    - ``handle_type``: the type of shareable handle to request; None for none
    - ``granularity``: sizes are rounded up to the ``"recommended"`` or the ``"minimum"`` allocation granularity
    - ``gpu_direct_rdma``: make the memory accessible to GPUDirect RDMA; an error if the device does not support it
    - ``addr_hint``: the preferred start address of the reservation; 0 for none
    - ``addr_align``: the alignment of the reservation in bytes; None for the granularity
    - ``peers``: the ordinals of other devices that get access
    - ``self_access``: the access of the device itself: ``"rw"`` or ``"r"``
    - ``peer_access``: the access of the peers: ``"rw"`` or ``"r"``

    >>> VirtualMemoryResourceOptions(granularity="minimum").granularity
    'minimum'
    """

    allocation_type: VirtualMemoryAllocationType = VirtualMemoryAllocationType.PINNED
    location_type: VirtualMemoryLocationType = VirtualMemoryLocationType.DEVICE
    handle_type: VirtualMemoryHandleType = VirtualMemoryHandleType.POSIX_FD
    granularity: VirtualMemoryGranularityType = VirtualMemoryGranularityType.RECOMMENDED
    gpu_direct_rdma: bool = False
    addr_hint: int | None = 0
    addr_align: int | None = None
    peers: Iterable[int] = field(default_factory=tuple)
    self_access: VirtualMemoryAccessType = VirtualMemoryAccessType.READ_WRITE
    peer_access: VirtualMemoryAccessType = VirtualMemoryAccessType.READ_WRITE


VirtualMemoryResourceOptions.__module__ = "cuda.core"


class VirtualMemoryResource(MemoryResource):
    """Reserves address ranges and maps physical memory to them. ``modify_allocation`` grows a buffer.

    >>> grown = VirtualMemoryResource(device).allocate(100)
    >>> grown.size >= 100  # whole pages
    True
    >>> grown.close()
    """

    __module__ = "cuda.core"

    def __init__(self, device_id: Any, config: VirtualMemoryResourceOptions | None = None) -> None:
        self._device_id = int(_core.Device(device_id))
        self.config = _core.options_or_default(config, VirtualMemoryResourceOptions)
        if str(self.config.handle_type).startswith("win32"):
            raise NotImplementedError(f"{self.config.handle_type} handles are for Windows")
        self._memory = _core._VirtualMemory.create(self._device_id, self._described(self.config))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._device_id, self.config)

    def __repr__(self) -> str:
        return f"<VirtualMemoryResource device={self._device_id} buffers={self._memory.num_allocations}>"

    @staticmethod
    def _described(config: Any) -> Any:
        """Converts the options to their C++ representation."""
        handle = config.handle_type
        return _core._VirtualMemoryOptions.of(
            _ALLOCATION[_core.choice(VirtualMemoryAllocationType, config.allocation_type, "allocation_type")],
            _LOCATION[_core.choice(VirtualMemoryLocationType, config.location_type, "location_type")],
            _HANDLE[None if handle is None else _core.choice(VirtualMemoryHandleType, handle, "handle_type")],
            _GRANULARITY[_core.choice(VirtualMemoryGranularityType, config.granularity, "granularity")],
            bool(config.gpu_direct_rdma),
            config.addr_hint or 0,
            config.addr_align or 0,
            [int(peer) for peer in config.peers],
            _ACCESS[_core.choice(VirtualMemoryAccessType, config.self_access, "self_access")],
            _ACCESS[_core.choice(VirtualMemoryAccessType, config.peer_access, "peer_access")],
        )

    # ---- MemoryResource interface

    def allocate(self, size: int, *, stream: Any = None) -> Buffer:
        """Return a Buffer of ``size`` bytes, rounded up to the granularity. Synchronous; ``stream`` is ignored."""
        return _core.buffer_without_stream(*self._memory.allocate(_checked_size(size)), self)

    def deallocate(self, ptr: Any, size: int, *, stream: Any = None) -> None:
        """Synchronize the stream, if one is given, then unmap and free the memory and its address range."""
        if stream is not None:
            stream.sync()
        self._memory.deallocate(int(ptr))

    def modify_allocation(
        self, buf: Buffer, new_size: int, config: VirtualMemoryResourceOptions | None = None
    ) -> Buffer:
        """Grow a buffer, at the same address if possible, and keep its contents.

        Return the new Buffer and close ``buf``; return ``buf`` itself if it is large enough.
        """
        if buf.memory_resource is not self:
            raise ValueError("modify_allocation(): the buffer belongs to another memory resource")
        old_size = buf.size
        described = None if config is None else self._described(config)
        ptr, size = self._memory.modify(buf.handle, _checked_size(new_size), described)
        if size <= old_size:
            return buf
        _core.untrack_buffer(buf)
        return _core.buffer_without_stream(ptr, size, self)

    @property
    def is_device_accessible(self) -> bool:
        """True if kernels can access the memory. False for host locations."""
        return self._memory.is_device_accessible

    @property
    def is_host_accessible(self) -> bool:
        """True for host locations."""
        return self._memory.is_host_accessible

    @property
    def is_managed(self) -> bool:
        """True if the options request managed memory."""
        return self._memory.is_managed

    @property
    def device_id(self) -> int:
        """The ordinal of the memory's device; -1 for host memory."""
        return self._memory.device_id

    @property
    def device(self) -> _core.Device | None:
        """The memory's device; None for host memory."""
        return None if self._memory.is_host_accessible else _core.Device(self._device_id)
