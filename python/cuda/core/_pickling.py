# SPDX-License-Identifier: Apache-2.0
"""Pickling of buffers, views, streams and events.

A buffer of a pool with ``ipc_enabled=True`` is pickled by reference, for processes on the same machine. Other buffers
are pickled by value: the contents are an out-of-band buffer of pickle protocol 5. For pinned and managed memory that is
the memory itself, without a copy.
"""

from __future__ import annotations

import pickle
import weakref

from . import _core
from ._errors import CUDAError
from ._memory import LegacyPinnedMemoryResource, ManagedMemoryResource, PinnedMemoryResource, _default_device_resource
from ._sharing import open_shared_buffer, share_buffer, transfer_stream

TYPE_CHECKING = False  # importing typing would cost more than this module
if TYPE_CHECKING:
    from typing import Any

IN_PLACE_BYTES = 1 << 20  # received pinned memory of at least this size is registered in place; smaller is copied

_resources: dict[str, Any] = {}


def _resource(kind: str) -> Any:
    """Returns the memory resource of unpickled buffers. Device memory is on the current device, as in CuPy."""
    if kind == "device":
        return _default_device_resource(int(_core.Device()))
    if kind not in _resources:
        _resources.setdefault(kind, {"pinned": PinnedMemoryResource, "managed": ManagedMemoryResource}[kind]())
    return _resources[kind]


# ---- buffers


def reduce_buffer(buffer: Any, protocol: int, is_of_a_graph: bool) -> tuple[Any, ...]:
    """Implements ``Buffer.__reduce_ex__`` for memory of this process."""
    if buffer.is_closed:
        raise RuntimeError("a closed buffer cannot be pickled: its memory is gone")
    if is_of_a_graph:
        raise TypeError(
            "memory of a graph cannot be pickled: it exists while the graph runs; copy it to a buffer of a memory resource"
        )
    if getattr(buffer.memory_resource, "is_ipc_enabled", False):
        return open_shared, share_buffer(buffer)
    kind = "managed" if buffer.is_managed else "pinned" if buffer.is_host_accessible else "device"
    host = buffer
    if kind == "device":
        host = _resource("pinned").allocate(buffer.size, stream=transfer_stream())
        _core.wait_for_buffer(host)
        _core.fetch_buffer(buffer, host)
    else:
        _core.wait_for_buffer(buffer)
    return load_value, (kind, pickle.PickleBuffer(host) if protocol >= 5 else bytes(host))


def open_shared(mr: Any, descriptor: Any) -> Any:
    return open_shared_buffer(mr, descriptor)


class _Registered:
    """Registers host memory with the driver for its lifetime."""

    __slots__ = ("__weakref__", "_view")

    def __init__(self, view: memoryview) -> None:
        _core.register_host(view, view.readonly)
        self._view: memoryview | None = view

    def __del__(self) -> None:
        view, self._view = getattr(self, "_view", None), None
        if view is not None:
            _core.unregister_host(view)


_registered: weakref.WeakValueDictionary[tuple[int, int, bool], _Registered] = weakref.WeakValueDictionary()


def _in_place(view: memoryview) -> Any:
    """Returns a buffer of the received memory itself. The same memory of an object store may be received repeatedly."""
    address = _core.host_address(view, False)
    place = address, view.nbytes, view.readonly
    registered = _registered.get(place)
    if registered is None:
        registered = _registered.setdefault(place, _Registered(view))
    return _core.buffer_in_place(address, view.nbytes, registered, view.readonly)


def load_value(kind: str, data: Any) -> Any:
    """Unpickles a buffer by value."""
    view = memoryview(data).cast("B")
    if kind == "pinned" and view.nbytes >= IN_PLACE_BYTES:
        try:
            return _in_place(view)
        except CUDAError:  # the pages are registered already, or the driver cannot register such memory
            pass
    try:
        buffer = _resource(kind).allocate(view.nbytes, stream=transfer_stream())
    except CUDAError as error:
        if kind != "pinned" or error.code != _core.CUDA_ERROR_NOT_SUPPORTED:
            raise
        buffer = LegacyPinnedMemoryResource().allocate(view.nbytes)
    _core.store_buffer(buffer, view)
    return buffer


# ---- streams and events


def reduce_stream(stream: Any) -> tuple[Any, ...]:
    """Implements ``Stream.__reduce__``: a new stream with the same options; default streams unpickle as themselves."""
    if stream.is_closed:
        raise RuntimeError("a closed stream cannot be pickled")
    for name in ("LEGACY_DEFAULT_STREAM", "PER_THREAD_DEFAULT_STREAM"):
        if stream == getattr(_core, name):
            return default_stream, (name,)
    return new_stream, (stream.device, stream.is_nonblocking, stream.priority)


def default_stream(name: str) -> Any:
    return getattr(_core, name)


def new_stream(device: Any, nonblocking: bool, priority: int) -> Any:
    from ._options import StreamOptions

    return _core.stream_of(int(device), StreamOptions(nonblocking=nonblocking, priority=priority))


def reduce_event(event: Any) -> tuple[Any, ...]:
    """Implements ``Event.__reduce__``: pickles an IPC-enabled event by reference, for processes on the same machine."""
    if event.is_closed:
        raise RuntimeError("a closed event cannot be pickled")
    if not event.is_ipc_enabled:
        raise TypeError(
            "the event cannot be sent to another process: record it with EventOptions(ipc_enabled=True), or call sync() and "
            "send what it stands for"
        )
    return open_event, (event.ipc_descriptor,)


def open_event(descriptor: Any) -> Any:
    from ._ipc import _rebuild_event

    return _rebuild_event(descriptor)
