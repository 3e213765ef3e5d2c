# SPDX-License-Identifier: Apache-2.0
"""Memory resources: the allocators of buffers."""

from __future__ import annotations

from . import _core
from ._options import DeviceMemoryResourceOptions, ManagedMemoryResourceOptions, PinnedMemoryResourceOptions
from ._sharing import Shareable, known_or_new

TYPE_CHECKING = False  # importing typing would cost more than this module
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ._managed import ManagedBuffer

Buffer = _core.Buffer


def _options(given: Any, cls: type) -> Any:
    """Converts an options argument (an instance of ``cls``, a dict of its fields, or None)."""
    return None if given is None else _core.options_of(given, cls)


class MemoryResource:
    """Base class of memory resources, which allocate buffers. A subclass implements allocate() and deallocate().

    >>> class Counted(MemoryResource):
    ...     is_device_accessible, is_host_accessible, device_id = True, False, 0
    ...     def __init__(self):
    ...         self.live = {}
    ...     def allocate(self, size, *, stream):
    ...         memory = device.memory_resource.allocate(size, stream=stream)
    ...         self.live[memory.handle] = memory
    ...         return Buffer.from_handle(memory.handle, size, self, stream=stream)
    ...     def deallocate(self, ptr, size, *, stream):
    ...         self.live.pop(int(ptr)).close(stream)
    >>> resource = Counted()
    >>> with resource.allocate(64, stream=stream) as buffer:
    ...     len(resource.live)
    1
    >>> len(resource.live)
    0
    """

    __module__ = "cuda.core"

    def allocate(self, size: int, *, stream: Any) -> Buffer:
        """Return a Buffer of ``size`` bytes, allocated in stream order on ``stream``."""
        raise NotImplementedError(f"{type(self).__name__}.allocate")

    def deallocate(self, ptr: Any, size: int, *, stream: Any) -> None:
        """Free memory in stream order on ``stream``."""
        raise NotImplementedError(f"{type(self).__name__}.deallocate")

    @property
    def is_device_accessible(self) -> bool:
        """True if kernels can access the memory."""
        raise NotImplementedError(f"{type(self).__name__}.is_device_accessible")

    @property
    def is_host_accessible(self) -> bool:
        """True if the host can access the memory directly."""
        raise NotImplementedError(f"{type(self).__name__}.is_host_accessible")

    @property
    def is_managed(self) -> bool:
        """True if the memory is managed memory."""
        return False

    @property
    def device_id(self) -> int:
        """The ordinal of the memory's device."""
        raise NotImplementedError(f"{type(self).__name__}.device_id")


class _NativeResource(_core._Resource, MemoryResource):
    """Base class of this package's resources: owns the C++ resource that allocates, and has its accessibility flags."""

    _host = False
    _managed = False

    def deallocate(self, ptr: Any, size: int, *, stream: Any) -> None:
        """Free memory in stream order on ``stream``."""
        self._native.deallocate(ptr, size, stream)


class _PoolAttribute:
    """Descriptor of a pool attribute, given its ``CUmemPool_attribute``; ``writable`` permits assignment."""

    def __init__(self, number: int, kind: type = int, writable: bool = False) -> None:
        self.number = number
        self.kind = kind
        self.writable = writable
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, owner: Any, cls: type) -> Any:
        if owner is None:
            return self
        return self.kind(owner._pool().attribute(self.number))

    def __set__(self, owner: Any, value: Any) -> None:
        if not self.writable:
            raise AttributeError(f"this attribute cannot be set: {self.name}")
        owner._pool().set_attribute(self.number, int(value))


class MemPoolAttributes:
    """The attributes of a memory pool. Keeps the pool alive, even after its resource is closed."""

    __slots__ = ("_native",)
    _native: _core._Native

    def __init__(self, *arg: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            "MemPoolAttributes objects cannot be instantiated directly: use a memory resource's attributes"
        )

    @classmethod
    def _of(cls, resource: Any) -> MemPoolAttributes:
        self = cls.__new__(cls)
        self._native = resource._native.share()
        return self

    def _pool(self) -> Any:
        return self._native

    reuse_follow_event_dependencies = _PoolAttribute(1, bool, True)
    reuse_allow_opportunistic = _PoolAttribute(2, bool, True)
    reuse_allow_internal_dependencies = _PoolAttribute(3, bool, True)
    release_threshold = _PoolAttribute(4, int, True)
    reserved_mem_current = _PoolAttribute(5)
    reserved_mem_high = _PoolAttribute(6, int, True)
    used_mem_current = _PoolAttribute(7)
    used_mem_high = _PoolAttribute(8, int, True)

    def __repr__(self) -> str:
        names = sorted(name for name, value in vars(MemPoolAttributes).items() if isinstance(value, _PoolAttribute))
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)}' for name in names)})"


class _MemPool(_NativeResource):
    """Base class of the resources that allocate from a memory pool of the driver."""

    _uuid: Any = None

    def close(self) -> None:
        """Release the pool. Buffers allocated from it stay valid. Idempotent."""
        self._native.close()

    def _repr_html_(self) -> str:
        """Return an HTML table for notebooks."""
        from ._html import pool

        return pool(self)

    @property
    def attributes(self) -> MemPoolAttributes:
        """The attributes of the pool: reuse policies, release threshold, reserved and used memory."""
        return MemPoolAttributes._of(self)

    @property
    def handle(self) -> Any:
        """The driver's handle of the pool, for cuda.bindings. A null handle after close()."""
        return self._native.handle

    @property
    def is_closed(self) -> bool:
        """True after close()."""
        return self._native.is_closed

    @property
    def is_handle_owned(self) -> bool:
        """True if this object owns the pool; False for the driver's default pools."""
        return not self._native.is_closed and self._native.is_handle_owned

    @property
    def is_ipc_enabled(self) -> bool:
        """True if other processes can open the pool's buffers."""
        return not self._native.is_closed and self._native.is_ipc_enabled

    @property
    def is_mapped(self) -> bool:
        """True if the pool is imported from another process."""
        return not self._native.is_closed and self._native.is_mapped

    @property
    def uuid(self) -> Any:
        """The UUID under which the resource is registered, or None."""
        return self._uuid


class DeviceMemoryResource(Shareable, _MemPool):
    """Stream-ordered device memory from a pool.

    Without options it uses the device's current pool, which other libraries may share. With options it creates a pool.

    >>> resource = DeviceMemoryResource(device, DeviceMemoryResourceOptions(max_size=1 << 24))
    >>> with resource.allocate(4096, stream=stream) as buffer:
    ...     resource.attributes.used_mem_current
    4096
    """

    __module__ = "cuda.core"

    def __init__(self, device_id: Any, options: DeviceMemoryResourceOptions | None = None) -> None:
        device = int(_core.Device(device_id))
        options = _options(options, DeviceMemoryResourceOptions)
        if options is None:
            self._native = _core._Native.current_pool(device)
        else:
            self._native = _core._Native.create_pool(
                _core.CU_MEM_ALLOCATION_TYPE_PINNED,
                _core.CU_MEM_LOCATION_TYPE_DEVICE,
                device,
                bool(options.ipc_enabled),
                options.max_size,
            )
        self._device_id = device

    @property
    def peer_accessible_by(self) -> Any:
        """The set of devices with peer access to this resource's memory. Change it in place or assign to it."""
        from ._peers import PeerAccessibleBySetProxy

        return PeerAccessibleBySetProxy(self)

    @peer_accessible_by.setter
    def peer_accessible_by(self, devices: Iterable[Any]) -> None:
        from ._peers import PeerAccessibleBySetProxy

        PeerAccessibleBySetProxy(self)._assign(devices)

    @classmethod
    def from_allocation_handle(cls, device_id: Any, alloc_handle: Any) -> DeviceMemoryResource:
        """Import the resource of another process. It can open buffers of that process but cannot allocate."""

        def open_pool() -> DeviceMemoryResource:
            self = cls.__new__(cls)
            self._device_id = int(_core.Device(device_id))
            self._native = _core._Native.import_pool(
                int(alloc_handle),
                _core.CU_MEM_ALLOCATION_TYPE_PINNED,
                _core.CU_MEM_LOCATION_TYPE_DEVICE,
                self._device_id,
            )
            return self

        return known_or_new(alloc_handle, open_pool, cls)

    def __repr__(self) -> str:
        return f"<DeviceMemoryResource device={self._device_id}{' closed' if self.is_closed else ''}>"


class PinnedMemoryResource(Shareable, _MemPool):
    """Stream-ordered pinned host memory from a pool, accessible to the host and to devices.

    >>> buffer = PinnedMemoryResource().allocate(8, stream=stream)
    >>> stream.sync()
    >>> memoryview(buffer)[:] = b"in place"
    >>> bytes(buffer)
    b'in place'
    """

    __module__ = "cuda.core"
    _host = True

    def __init__(self, options: PinnedMemoryResourceOptions | None = None) -> None:
        options = _options(options, PinnedMemoryResourceOptions)
        if options is None:
            self._native = _core._Native.default_pinned()
        else:
            self._native = _core._Native.create_pinned(bool(options.ipc_enabled), options.numa_id, options.max_size)
        self._numa_id = self._native.numa_id

    @property
    def numa_id(self) -> int:
        """The NUMA node of the memory; -1 for any."""
        return self._numa_id

    @classmethod
    def from_allocation_handle(cls, alloc_handle: Any) -> PinnedMemoryResource:
        """Import the resource of another process. It can open buffers of that process but cannot allocate."""

        def open_pool() -> PinnedMemoryResource:
            self = cls.__new__(cls)
            self._numa_id = max(_core.Device().properties.host_numa_id, 0)
            self._native = _core._Native.import_pool(
                int(alloc_handle),
                _core.CU_MEM_ALLOCATION_TYPE_PINNED,
                _core.CU_MEM_LOCATION_TYPE_HOST_NUMA,
                self._numa_id,
            )
            return self

        return known_or_new(alloc_handle, open_pool, cls)

    def __repr__(self) -> str:
        return f"<PinnedMemoryResource{' closed' if self.is_closed else ''}>"


class ManagedMemoryResource(_MemPool):
    """Stream-ordered managed memory from a pool. The driver migrates it between host and devices.

    >>> resource = ManagedMemoryResource()
    >>> resource.is_device_accessible, resource.is_host_accessible, resource.is_managed
    (True, True, True)
    """

    __module__ = "cuda.core"
    _host = True
    _managed = True

    def __init__(self, options: ManagedMemoryResourceOptions | None = None) -> None:
        options = _core.options_or_default(options, ManagedMemoryResourceOptions)
        kind = options.preferred_location_type
        self._native, self._preferred = _core._Native.managed_pool(
            options.preferred_location, None if kind is None else str(kind)
        )

    def allocate(self, size: int, *, stream: Any) -> ManagedBuffer:
        """Return a ManagedBuffer of ``size`` bytes, allocated in stream order on ``stream``."""
        return _core.allocate(self, size, stream)  # type: ignore[return-value]

    @property
    def device_id(self) -> int:
        """The ordinal of the preferred device; -1 if there is none."""
        return self._preferred[1] if self._preferred and self._preferred[0] == "device" else -1  # type: ignore[return-value]

    def __reduce__(self) -> tuple[Any, ...]:
        kind, place = self._preferred or (None, None)
        return type(self), (ManagedMemoryResourceOptions(preferred_location=place, preferred_location_type=kind),)

    @property
    def preferred_location(self) -> tuple[str, int | None] | None:
        """The preferred location: ("device", 0), ("host", None), ("host_numa", 1) or None."""
        return self._preferred

    def __repr__(self) -> str:
        return f"<ManagedMemoryResource{' closed' if self.is_closed else ''}>"


class LegacyPinnedMemoryResource(_NativeResource):
    """Pinned host memory, allocated synchronously. Deallocation waits for the stream.

    >>> pinned = LegacyPinnedMemoryResource().allocate(4)
    >>> pinned.is_host_accessible
    True
    >>> pinned.close()
    """

    __module__ = "cuda.core"
    _host = True

    def __init__(self) -> None:
        self._native = _core._Native.legacy_pinned()

    def allocate(self, size: int, *, stream: Any = None) -> Buffer:
        """Return a Buffer of ``size`` bytes. The allocation is synchronous: the memory is usable immediately."""
        return _core.allocate(self, size, stream)

    def deallocate(self, ptr: Any, size: int, *, stream: Any = None) -> None:
        """Synchronize the stream, if one is given, and free the memory."""
        self._native.deallocate(ptr, size, stream)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()

    def __repr__(self) -> str:
        return "<LegacyPinnedMemoryResource>"


class _SynchronousMemoryResource(_NativeResource):
    """Synchronously allocated device memory, for devices without memory pools."""

    def __init__(self, device_id: Any) -> None:
        self._device_id = int(_core.Device(device_id))
        self._native = _core._Native.synchronous(self._device_id)

    def allocate(self, size: int, *, stream: Any = None) -> Buffer:
        return _core.allocate(self, size, stream)

    def deallocate(self, ptr: Any, size: int, *, stream: Any = None) -> None:
        self._native.deallocate(ptr, size, stream)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._device_id,)


class GraphMemoryResourceAttributes:
    """Memory usage of a device's graphs, in bytes. The high-water marks can be reset by an assignment of zero."""

    __slots__ = ("_native",)
    _native: _core._Native

    def __init__(self, *arg: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            "GraphMemoryResourceAttributes objects cannot be instantiated directly: use GraphMemoryResource.attributes"
        )

    def _reset(self, number: int, value: int) -> None:
        if value != 0:
            raise AttributeError(f"a high mark can only be set to zero, not to {value}")
        self._native.reset_graph_attribute(number)

    @property
    def used_mem_current(self) -> int:
        return self._native.graph_attribute(0)

    @property
    def used_mem_high(self) -> int:
        return self._native.graph_attribute(1)

    @used_mem_high.setter
    def used_mem_high(self, value: int) -> None:
        self._reset(1, value)

    @property
    def reserved_mem_current(self) -> int:
        return self._native.graph_attribute(2)

    @property
    def reserved_mem_high(self) -> int:
        return self._native.graph_attribute(3)

    @reserved_mem_high.setter
    def reserved_mem_high(self, value: int) -> None:
        self._reset(3, value)

    def __repr__(self) -> str:
        return (
            f"GraphMemoryResourceAttributes(used_mem_current={self.used_mem_current}, used_mem_high={self.used_mem_high}, "
            f"reserved_mem_current={self.reserved_mem_current}, reserved_mem_high={self.reserved_mem_high})"
        )


class cyGraphMemoryResource:
    """Base class of GraphMemoryResource, for isinstance checks."""


class GraphMemoryResource(cyGraphMemoryResource, _NativeResource):
    """Memory owned by graphs: a GraphBuilder captures its allocations and frees as nodes. One object per device.

    >>> resource = GraphMemoryResource(device)
    >>> builder = device.create_graph_builder().begin_building()
    >>> scratch = resource.allocate(64, stream=builder)
    >>> scratch.close(builder)
    >>> builder.end_building().complete().launch(stream)
    """

    __module__ = "cuda.core"
    _instances: dict[int, GraphMemoryResource] = {}

    def __new__(cls, device_id: Any) -> GraphMemoryResource:
        device = int(_core.Device(device_id))
        self = cls._instances.get(device)
        if self is None:
            self = super().__new__(cls)
            self._device_id = device
            self._native = _core._Native.graph(device)
            self = cls._instances.setdefault(device, self)
        return self

    def allocate(self, size: int, *, stream: Any) -> Buffer:
        """Return a Buffer whose memory a node of the captured graph allocates. It is valid while the graph runs."""
        return _core.allocate(self, size, stream)

    def deallocate(self, ptr: Any, size: int, *, stream: Any) -> None:
        """Free memory in stream order, in the captured graph or after its launch."""
        self._native.deallocate(ptr, size, stream)

    def close(self) -> None:
        """No-op: the resource exists until the process exits."""

    def trim(self) -> None:
        """Release the memory that no graph uses to the device."""
        self._native.trim_graph()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._device_id,)

    def __repr__(self) -> str:
        return f"<GraphMemoryResource device={self._device_id}>"

    @property
    def attributes(self) -> GraphMemoryResourceAttributes:
        """The memory usage of the device's graphs."""
        attributes = GraphMemoryResourceAttributes.__new__(GraphMemoryResourceAttributes)
        attributes._native = self._native
        return attributes


_default_resources: dict[int, Any] = {}


def _default_device_resource(device_id: int) -> Any:
    """Returns the default resource of Device.allocate(): one object per device, shared by all threads."""
    resource = _default_resources.get(device_id)
    if resource is None:
        if _core.Device(device_id).properties.memory_pools_supported:
            resource = DeviceMemoryResource(device_id)
        else:
            resource = _SynchronousMemoryResource(device_id)
        resource = _default_resources.setdefault(device_id, resource)
    return resource
