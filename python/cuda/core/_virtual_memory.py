"""Memory whose addresses are reserved apart from what is behind them, so that it can grow in place."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from . import _core
from ._errors import all_of, undoing
from ._memory import Buffer, MemoryResource
from .typing import (
    VirtualMemoryAccessType,
    VirtualMemoryAllocationType,
    VirtualMemoryGranularityType,
    VirtualMemoryHandleType,
    VirtualMemoryLocationType,
)

# The driver's numbers.
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
    """A size that, rounded up, still fits in 64 bits."""
    try:
        number = operator.index(size)
    except TypeError:
        raise TypeError(f"size must be an int, not {type(size).__name__}") from None
    if not 0 < number < 2**63:
        raise ValueError(f"size must be positive and less than 2**63, not {number}")
    return number


@dataclass
class VirtualMemoryResourceOptions:
    """Where memory lies, who may use it, and how sizes are rounded.

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
    """Allocates by reserving addresses and mapping memory to them; ``modify_allocation`` makes a buffer larger.

    >>> grown = VirtualMemoryResource(device).allocate(100)
    >>> grown.size >= 100  # whole pages
    True
    >>> grown.close()
    """

    __module__ = "cuda.core"

    def __init__(self, device_id: Any, config: VirtualMemoryResourceOptions | None = None) -> None:
        self._device_id = int(_core.Device(device_id))
        if isinstance(config, dict):
            config = VirtualMemoryResourceOptions(**config)
        self.config = config or VirtualMemoryResourceOptions()
        if VirtualMemoryHandleType(self.config.handle_type) is VirtualMemoryHandleType.WIN32_KMT:
            raise NotImplementedError("win32_kmt handles are for Windows")
        if not _core.Device(self._device_id).properties.virtual_memory_management_supported:
            raise RuntimeError(f"device {self._device_id} has no virtual memory management")
        self._parts: dict[int, list[tuple[int, int]]] = {}  # address: (size, handle) of each mapped piece
        self._ranges: dict[int, list[tuple[int, int]]] = {}  # address: (address, size) of each reservation

    def __repr__(self) -> str:
        return f"<VirtualMemoryResource device={self._device_id} buffers={len(self._parts)}>"

    # ---- what the options say, in the driver's numbers

    def _properties(self, config: Any) -> tuple[int, int, int, int, bool]:
        place = VirtualMemoryLocationType(config.location_type)
        number = self._device_id if place is VirtualMemoryLocationType.DEVICE else 0
        handle = None if config.handle_type is None else VirtualMemoryHandleType(config.handle_type)
        return (
            _ALLOCATION[VirtualMemoryAllocationType(config.allocation_type)],
            _LOCATION[place],
            number,
            _HANDLE[handle],
            bool(config.gpu_direct_rdma),
        )

    def _round(self, size: int, config: Any) -> int:
        step = _core.vmm_granularity(
            *self._properties(config), _GRANULARITY[VirtualMemoryGranularityType(config.granularity)]
        )
        return -(-size // step) * step

    def _grant(self, ptr: int, size: int, config: Any) -> None:
        places = [[1, self._device_id, _ACCESS[VirtualMemoryAccessType(config.self_access)]]]
        for peer in config.peers:
            if int(peer) != self._device_id:
                places.append([1, int(peer), _ACCESS[VirtualMemoryAccessType(config.peer_access)]])
        if VirtualMemoryLocationType(config.location_type) is not VirtualMemoryLocationType.DEVICE:
            places.append([2, 0, _ACCESS[VirtualMemoryAccessType.READ_WRITE]])
        _core.vmm_set_access(ptr, size, places)

    def _map(self, ptr: int, size: int, config: Any) -> None:
        """Put new memory behind reserved addresses; takes back what it made when a step fails."""
        handle = _core.vmm_create(size, *self._properties(config))
        with undoing(_core.vmm_release, handle):
            _core.vmm_map(ptr, size, handle)
            with undoing(_core.vmm_unmap, ptr, size):
                self._grant(ptr, size, config)
        self._parts.setdefault(ptr, []).append((size, handle))

    # ---- the interface

    def allocate(self, size: int, *, stream: Any = None) -> Buffer:
        """Return a Buffer of at least ``size`` bytes (rounded up), usable at once; the stream is not needed."""
        size = _checked_size(size)
        rounded = self._round(size, self.config)
        ptr = _core.vmm_reserve(rounded, self.config.addr_align or 0, self.config.addr_hint or 0)
        with undoing(_core.vmm_free, ptr, rounded):
            self._map(ptr, rounded, self.config)
        self._ranges[ptr] = [(ptr, rounded)]
        return Buffer.from_handle(ptr, rounded, self)

    def deallocate(self, ptr: Any, size: int, *, stream: Any = None) -> None:
        """Wait for the stream, if one is given, and give memory and addresses back."""
        if stream is not None:
            stream.sync()
        address = int(ptr)
        calls: list[tuple[Any, ...]] = []
        offset = 0
        for part, handle in self._parts.pop(address, ()):
            calls += [(_core.vmm_unmap, address + offset, part), (_core.vmm_release, handle)]
            offset += part
        # Freed piece by piece, as they were reserved.
        all_of(calls + [(_core.vmm_free, *piece) for piece in self._ranges.pop(address, ())])

    def modify_allocation(
        self, buf: Buffer, new_size: int, config: VirtualMemoryResourceOptions | None = None
    ) -> Buffer:
        """Return a larger Buffer with the same contents, at the same address where there is room; ``buf`` is closed."""
        if buf.memory_resource is not self:
            raise ValueError("modify_allocation(): the buffer belongs to another memory resource")
        config = config or self.config
        old_ptr, old_size = buf.handle, buf.size
        rounded = self._round(_checked_size(new_size), config)
        if rounded <= old_size:
            self._grant(old_ptr, old_size, config)
            return buf
        extra = rounded - old_size
        grown = _core.vmm_reserve(extra, 0, old_ptr + old_size)
        if grown == old_ptr + old_size:
            with undoing(_core.vmm_free, grown, extra):
                self._map(grown, extra, config)
            self._parts[old_ptr] += self._parts.pop(grown)
            self._ranges[old_ptr].append((grown, extra))
            ptr = old_ptr
        else:  # no room there: map the same memory, and some more, at new addresses
            _core.vmm_free(grown, extra)
            ptr = _core.vmm_reserve(rounded, config.addr_align or 0, 0)
            mapped: list[tuple[Any, ...]] = []
            # Mapped at both addresses until all has gone well: a step that fails leaves the old buffer as it was.
            with undoing(_core.vmm_free, ptr, rounded), undoing(all_of, mapped):
                offset = 0
                for part, handle in self._parts[old_ptr]:
                    _core.vmm_map(ptr + offset, part, handle)
                    mapped.append((_core.vmm_unmap, ptr + offset, part))
                    offset += part
                self._map(ptr + offset, extra, config)
            old = [(_core.vmm_unmap, old_ptr + at - ptr, part) for _, at, part in mapped]
            self._parts[ptr] = self._parts.pop(old_ptr) + self._parts.pop(ptr + offset)
            old += [(_core.vmm_free, *piece) for piece in self._ranges.pop(old_ptr)]
            self._ranges[ptr] = [(ptr, rounded)]
            all_of(old)
        self._grant(ptr, rounded, config)
        _core.forget_buffer(buf)
        return Buffer.from_handle(ptr, rounded, self)

    @property
    def is_device_accessible(self) -> bool:
        """True: kernels can use the memory."""
        return True

    @property
    def is_host_accessible(self) -> bool:
        """True when the options put it on the host."""
        return VirtualMemoryLocationType(self.config.location_type) is not VirtualMemoryLocationType.DEVICE

    @property
    def is_managed(self) -> bool:
        """True when the options ask for managed memory."""
        return VirtualMemoryAllocationType(self.config.allocation_type) is VirtualMemoryAllocationType.MANAGED

    @property
    def device_id(self) -> int:
        """The number of the device the memory is on, -1 for host memory."""
        return self._device_id if not self.is_host_accessible else -1
