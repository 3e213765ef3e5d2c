# SPDX-License-Identifier: Apache-2.0
"""How buffers, views, streams and events are pickled.

A buffer of a pool with ``ipc_enabled=True`` goes by reference to processes on this machine. Any other buffer goes by value:
its contents are an out-of-band buffer of pickle protocol 5, which for pinned and managed memory is the memory itself.
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

IN_PLACE_BYTES = 1 << 20  # received pinned memory of at least this size is registered where it lies; less is copied

_resources: dict[str, Any] = {}


def _resource(kind: str) -> Any:
    """Where received memory of a kind comes from. Device memory comes from the current device, as arrays of CuPy do."""
    if kind == "device":
        return _default_device_resource(int(_core.Device()))
    if kind not in _resources:
        _resources.setdefault(kind, {"pinned": PinnedMemoryResource, "managed": ManagedMemoryResource}[kind]())
    return _resources[kind]


# ---- buffers


def reduce_buffer(buffer: Any, protocol: int, is_of_a_graph: bool) -> tuple[Any, ...]:
    """``Buffer.__reduce_ex__`` for memory of this process."""
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
    """Memory of the host that devices may use while this lives."""

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
    """A buffer that is the received memory itself. Objects of one store may be received more than once."""
    address = _core.host_address(view, False)
    place = address, view.nbytes, view.readonly
    registered = _registered.get(place)
    if registered is None:
        registered = _registered.setdefault(place, _Registered(view))
    return _core.buffer_in_place(address, view.nbytes, registered, view.readonly)


def load_value(kind: str, data: Any) -> Any:
    """A buffer of this process with the contents of one that was pickled."""
    view = memoryview(data).cast("B")
    if kind == "pinned" and view.nbytes >= IN_PLACE_BYTES:
        try:
            return _in_place(view)
        except CUDAError:  # pages of other objects, or a driver that does not register such memory
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
    """A stream arrives as a new stream of the same device, with the same options; default streams as themselves."""
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
    """An event goes by reference to processes on this machine."""
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
