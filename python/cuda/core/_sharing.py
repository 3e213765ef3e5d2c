# SPDX-License-Identifier: Apache-2.0
"""Memory between processes: resources that can be opened elsewhere, and their buffers. The other side of ``_ipc``."""

from __future__ import annotations

import weakref

from . import _core
from ._ipc import IPCAllocationHandle, IPCBufferDescriptor, warn_of_fork

TYPE_CHECKING = False  # importing typing would cost more than this module
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    _T = TypeVar("_T")

# Resources by a name that both processes know.
_registry: weakref.WeakValueDictionary[Any, Any] = weakref.WeakValueDictionary()


def known_or_new(handle: Any, open_pool: Callable[[], _T], cls: type[_T]) -> _T:
    """The resource an allocation handle names, if this process has it already; else what ``open_pool`` makes of it.

    TypeError when it is known as something else than a ``cls``."""
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
    """A pool resource that other processes can open."""

    _native: _core._Native
    _uuid: Any
    _shared: IPCAllocationHandle | None = None

    @property
    def allocation_handle(self) -> IPCAllocationHandle:
        """A handle to send to another process, for ``from_allocation_handle``."""
        if not self.is_ipc_enabled:  # type: ignore[attr-defined]
            raise RuntimeError(
                f"this {type(self).__name__} cannot be shared: make it with options that say ipc_enabled=True"
            )
        if self._uuid is None:
            import uuid

            self.register(uuid.uuid4())
        # Kept: a process that is being started inherits the file descriptor after everything was pickled.
        if self._shared is None or self._shared.is_closed:
            self._shared = IPCAllocationHandle._make(self._native.export_fd(), self._uuid)
        return self._shared

    @staticmethod
    def from_registry(uuid: Any) -> Any:
        """The resource registered under a name in this process."""
        try:
            return _registry[uuid]
        except KeyError:
            raise RuntimeError(f"no memory resource is registered as {uuid} in this process") from None

    def register(self, uuid: Any) -> Any:
        """Record this resource under a name; returns the one already there if there is one."""
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
        warn_of_fork()
        device_id = self.device_id  # type: ignore[attr-defined]
        if self.is_mapped:  # type: ignore[attr-defined]
            return _rebuild_resource, (type(self), self._uuid, device_id, None)
        handle = self.allocation_handle
        return _rebuild_resource, (type(self), self._uuid, device_id, handle)


def _rebuild_resource(cls: Any, uuid: Any, device_id: int, handle: Any) -> Any:
    known = _registry.get(uuid)
    if known is not None:
        return known
    if handle is None:
        return cls.from_registry(uuid)
    return cls.from_allocation_handle(device_id, handle) if device_id >= 0 else cls.from_allocation_handle(handle)


# ---- buffers between processes


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


def _rebuild_buffer(mr: Any, descriptor: IPCBufferDescriptor) -> Any:
    return import_buffer(mr, descriptor, _core.Device().default_stream)


def reduce_buffer(buffer: Any) -> tuple[Any, ...]:
    descriptor = buffer.ipc_descriptor
    return _rebuild_buffer, (buffer.memory_resource if descriptor._kind == "pool" else None, descriptor)
