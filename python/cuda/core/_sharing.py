# SPDX-License-Identifier: Apache-2.0
"""Interprocess sharing of memory resources and buffers. ``_ipc`` has the descriptors."""

from __future__ import annotations

import atexit
import weakref

from . import _core
from ._ipc import IPCAllocationHandle, IPCBufferDescriptor, warn_of_fork

TYPE_CHECKING = False  # importing typing would cost more than this module
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    _T = TypeVar("_T")

# IPC-enabled resources of this process by UUID. Exporter and importer use the same UUID.
_registry: weakref.WeakValueDictionary[Any, Any] = weakref.WeakValueDictionary()


def known_or_new(handle: Any, open_pool: Callable[[], _T], cls: type[_T]) -> _T:
    """Returns the registered resource of an allocation handle. If there is none, registers the one of ``open_pool()``.

    Raises TypeError if the registered resource is not a ``cls``."""
    uuid = getattr(handle, "uuid", None)
    if uuid is None:
        return open_pool()
    known: Any = _registry.get(uuid)
    if known is None:
        fresh: Any = open_pool()
        known = fresh.register(uuid)
    if not isinstance(known, cls):
        raise TypeError(f"the handle names a {type(known).__name__}, not a {cls.__name__}")
    return known


class Shareable:
    """Base class of memory resources whose pool other processes can open."""

    _native: _core._Native
    _uuid: Any
    _shared: IPCAllocationHandle | None = None
    _origin: tuple[bytes, bytes] | None = None  # (name, key) of the exporter of an imported pool

    @property
    def allocation_handle(self) -> IPCAllocationHandle:
        """The handle that another process passes to ``from_allocation_handle``."""
        if not self.is_ipc_enabled:  # type: ignore[attr-defined]
            raise RuntimeError(
                f"this {type(self).__name__} cannot be shared: make it with options that say ipc_enabled=True"
            )
        if self._uuid is None:
            import uuid
            from multiprocessing import reduction

            self.register(uuid.uuid4())
            reduction.register(type(self), _reduce_for_multiprocessing)
        # Cached, because a process that is being started inherits the file descriptor after all arguments are pickled.
        if self._shared is None or self._shared.is_closed:
            self._shared = IPCAllocationHandle._make(self._native.export_fd(), self._uuid)
        return self._shared

    @staticmethod
    def from_registry(uuid: Any) -> Any:
        """Return the resource that is registered under a UUID in this process. Raises RuntimeError if there is none."""
        try:
            return _registry[uuid]
        except KeyError:
            raise RuntimeError(f"no memory resource is registered as {uuid} in this process") from None

    def register(self, uuid: Any) -> Any:
        """Register this resource under a UUID. Return the resource registered there, which may be an earlier one."""
        if not self.is_ipc_enabled:  # type: ignore[attr-defined]
            raise RuntimeError(
                f"this {type(self).__name__} cannot be shared: make it with options that say ipc_enabled=True"
            )
        known = _registry.setdefault(uuid, self)
        if known is self:
            if self._uuid is not None and self._uuid != uuid:
                raise RuntimeError(f"the memory resource is registered as {self._uuid} already")
            self._uuid = uuid
        return known

    def __reduce__(self) -> tuple[Any, ...]:
        if not self.is_ipc_enabled and not self.is_handle_owned and not self.is_closed:  # type: ignore[attr-defined]
            return type(self), self._default_arguments()  # a default pool of the driver, which exists in every process
        device_id = self.device_id  # type: ignore[attr-defined]
        device = _core.Device(device_id).uuid if device_id >= 0 else None
        origin: tuple[bytes, bytes] | None = self._origin
        handle: IPCAllocationHandle | None = None
        if not self.is_mapped:  # type: ignore[attr-defined]
            handle = self.allocation_handle
            mine = _exporter()
            mine.offer_pool(self._native, _bytes_of(self._uuid))
            origin = mine.name, mine.key
            if not _is_starting_a_process():
                handle = None
        return _rebuild_resource, (type(self), self._uuid, device, handle, origin)

    def _default_arguments(self) -> tuple[Any, ...]:
        """Returns the constructor arguments for the driver's default pool."""
        device_id = self.device_id  # type: ignore[attr-defined]
        return (device_id,) if device_id >= 0 else ()


def _reduce_for_multiprocessing(resource: Shareable) -> tuple[Any, ...]:
    warn_of_fork()
    return resource.__reduce__()


def _is_starting_a_process() -> bool:
    """True while multiprocessing pickles the arguments of a new process, which inherits file descriptors."""
    from multiprocessing.context import get_spawning_popen

    return get_spawning_popen() is not None


def _bytes_of(uuid: Any) -> bytes:
    """Returns the 16 bytes that identify a resource in messages to an exporter."""
    found: Any = getattr(uuid, "bytes", None)
    if isinstance(found, bytes) and len(found) == 16:
        return found
    from hashlib import sha256

    return sha256(repr(uuid).encode()).digest()[:16]


def _exporter() -> _core._Exporter:
    from ._exporter import exporter  # imported lazily: most programs share no memory

    return exporter()


def _rebuild_resource(cls: Any, uuid: Any, device: str | None, handle: Any, origin: tuple[bytes, bytes] | None) -> Any:
    known = _registry.get(uuid)
    if known is not None:
        return known
    if handle is None:
        if origin is None:
            return cls.from_registry(uuid)
        fd = _core.shared_pool(*origin, _bytes_of(uuid))
        if fd < 0:
            raise RuntimeError("the memory resource was closed before it was opened here: its process must keep it")
        handle = IPCAllocationHandle._make(fd, uuid)
    made = cls.from_allocation_handle(*(() if device is None else (_core.visible_device(device),)), handle)
    made._origin = origin
    return made


# ---- interprocess buffers


def export_buffer(buffer: Any) -> IPCBufferDescriptor:
    resource = buffer.memory_resource
    native = resource._native if hasattr(resource, "is_ipc_enabled") else None
    payload, kind = _core.export_memory(buffer.handle, buffer.size, native)
    return IPCBufferDescriptor._make(payload, buffer.size, kind)


def import_buffer(mr: Any, descriptor: IPCBufferDescriptor, stream: Any) -> Any:
    if not isinstance(descriptor, IPCBufferDescriptor):
        raise TypeError(f"ipc_descriptor must be an IPCBufferDescriptor, not {type(descriptor).__name__}")
    pooled = descriptor._kind == "pool"
    if pooled and not getattr(mr, "is_ipc_enabled", False):
        raise RuntimeError("the buffer needs its own memory resource, opened with from_allocation_handle()")
    return _core.open_imported(mr if pooled else None, descriptor, stream)


_transfer_streams: dict[int, Any] = {}
atexit.register(_transfer_streams.clear)


def transfer_stream() -> Any:
    """Returns the current device's stream for allocations of received memory. Unlike a default stream, it is usable by
    threads without a current context, and the garbage collector can free memory on it."""
    number = int(_core.Device())
    stream = _transfer_streams.get(number)
    if stream is None:
        stream = _transfer_streams.setdefault(number, _core.stream_of(number))
    return stream


def share_buffer(buffer: Any) -> tuple[Any, IPCBufferDescriptor]:
    """Returns the pool and the descriptor by which another process opens a buffer of an IPC-enabled pool."""
    descriptor = buffer.ipc_descriptor
    if not _is_starting_a_process():
        mine = _exporter()
        number = mine.number_of(buffer)
        origin = mine.name, mine.key, number
        descriptor = IPCBufferDescriptor._make(descriptor._payload, descriptor.size, descriptor._kind, origin)
    return buffer.memory_resource, descriptor


def open_shared_buffer(mr: Any, descriptor: IPCBufferDescriptor) -> Any:
    """Opens a buffer of ``share_buffer()``. The exporting process keeps the memory until the buffer is closed here."""
    stream = transfer_stream()
    origin = descriptor._origin
    if origin is None:
        return import_buffer(mr, descriptor, stream)
    return _core.open_shared(mr, descriptor, stream, *origin)
