# SPDX-License-Identifier: Apache-2.0
"""IPC descriptors of events and memory. All can be pickled; unpickling makes no driver call."""

from __future__ import annotations

import os

from . import _core

TYPE_CHECKING = False  # importing typing would cost more than this module
if TYPE_CHECKING:
    from typing import Any


class IPCEventDescriptor:
    """Identifies an event of another process. ``Event.from_ipc_descriptor`` opens it."""

    __slots__ = ("_blocking_sync", "_handle")
    _blocking_sync: bool
    _handle: bytes

    def __init__(self, *arg: Any, **kwargs: Any) -> None:
        raise RuntimeError("IPCEventDescriptor objects cannot be instantiated directly: use Event.ipc_descriptor")

    @classmethod
    def _make(cls, handle: bytes, blocking_sync: bool) -> IPCEventDescriptor:
        self = cls.__new__(cls)
        self._handle, self._blocking_sync = _core.ipc_event_parts(bytes(handle), bool(blocking_sync))
        return self

    def __eq__(self, other: object) -> bool:
        return other._handle == self._handle if isinstance(other, IPCEventDescriptor) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._handle)

    def __reduce__(self) -> tuple[Any, ...]:
        return IPCEventDescriptor._make, (self._handle, self._blocking_sync)


class IPCBufferDescriptor:
    """Identifies a buffer of another process. ``Buffer.from_ipc_descriptor`` opens it."""

    __slots__ = ("_kind", "_origin", "_payload", "_size")
    _kind: str
    _origin: tuple[bytes, bytes, int] | None  # (exporter's name, exporter's key, number of the buffer there)
    _payload: bytes
    _size: int

    def __init__(self, *arg: Any, **kwargs: Any) -> None:
        raise RuntimeError("IPCBufferDescriptor objects cannot be instantiated directly: use Buffer.ipc_descriptor")

    @classmethod
    def _make(
        cls, payload: bytes, size: int, kind: str = "pool", origin: tuple[bytes, bytes, int] | None = None
    ) -> IPCBufferDescriptor:
        self = cls.__new__(cls)
        self._payload, self._size, self._kind = _core.ipc_buffer_parts(bytes(payload), int(size), kind)
        self._origin = origin
        return self

    @property
    def size(self) -> int:
        """The size of the buffer in bytes."""
        return self._size

    def __reduce__(self) -> tuple[Any, ...]:
        facts = self._payload, self._size, self._kind
        return IPCBufferDescriptor._make, facts if self._origin is None else (*facts, self._origin)


class IPCAllocationHandle:
    """Owns a file descriptor of a memory resource's pool, to be sent to another process."""

    __slots__ = ("__weakref__", "_fd", "_uuid")
    _fd: int
    _uuid: Any

    def __init__(self, *arg: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            "IPCAllocationHandle objects cannot be instantiated directly: use a memory resource's allocation_handle"
        )

    @classmethod
    def _make(cls, fd: int, uuid: Any) -> IPCAllocationHandle:
        if fd < 0:
            raise ValueError(f"a file descriptor cannot be negative: {fd}")
        self = cls.__new__(cls)
        self._fd = fd
        self._uuid = uuid
        return self

    @property
    def handle(self) -> int:
        """The file descriptor; -1 after close()."""
        return self._fd

    @property
    def uuid(self) -> Any:
        """The UUID under which the memory resource is registered, or None."""
        return self._uuid

    @property
    def is_closed(self) -> bool:
        return self._fd < 0

    def close(self) -> None:
        """Close the file descriptor. Idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __int__(self) -> int:
        if self._fd < 0:
            raise ValueError("the handle is closed: ask the memory resource for its allocation_handle again")
        return self._fd

    def __del__(self) -> None:
        try:  # noqa: SIM105
            self.close()
        except (OSError, AttributeError):
            pass

    def __reduce__(self) -> tuple[Any, ...]:
        # multiprocessing duplicates the file descriptor into the process that unpickles it.
        from multiprocessing import reduction

        warn_of_fork()
        return _rebuild_allocation_handle, (reduction.DupFd(int(self)), self._uuid)


_warned_of_fork = False


def warn_of_fork() -> None:
    """Warns, once per process, if an object is pickled for a forked child process, which cannot use CUDA."""
    global _warned_of_fork
    if _warned_of_fork:
        return
    import multiprocessing
    from multiprocessing.context import get_spawning_popen

    popen: Any = get_spawning_popen()  # set while a process is being started; has its start method
    method = popen.method if popen is not None else multiprocessing.get_start_method(allow_none=True)
    if method is None:
        method = multiprocessing.get_all_start_methods()[0]  # the default comes first
    if method != "fork":
        return
    _warned_of_fork = True
    import warnings

    warnings.warn(
        "multiprocessing forks its children, and a forked child cannot use CUDA: call "
        "multiprocessing.set_start_method('spawn') first",
        UserWarning,
        stacklevel=3,
    )


def register_event_reducer(event_class: Any) -> None:
    """Registers a reducer of IPC-enabled events with multiprocessing. It also warns of forked child processes."""
    from multiprocessing import reduction

    reduction.register(event_class, _reduce_event)


def _reduce_event(event: Any) -> tuple[Any, ...]:
    if not event.is_ipc_enabled:
        raise TypeError("the event cannot be sent to another process: record it with EventOptions(ipc_enabled=True)")
    warn_of_fork()
    return _rebuild_event, (event.ipc_descriptor,)


def _rebuild_event(descriptor: IPCEventDescriptor) -> Any:
    from ._core import Device, Event

    Device().set_current()
    return Event.from_ipc_descriptor(descriptor)


def _rebuild_allocation_handle(duplicate: Any, uuid: Any) -> IPCAllocationHandle:
    return IPCAllocationHandle._make(duplicate.detach(), uuid)
