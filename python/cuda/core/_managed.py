# SPDX-License-Identifier: Apache-2.0
"""Buffers in managed memory."""

from __future__ import annotations

from collections.abc import Iterator, MutableSet

from . import _core
from ._location import place_of

TYPE_CHECKING = False  # importing typing would cost more than this module
if TYPE_CHECKING:
    from typing import Any

Buffer = _core.Buffer


class AccessedBySetProxy(MutableSet):  # type: ignore[type-arg]
    """The set of devices (and the host) that keep a mapping of a managed buffer.

    A live view: reads query the driver, changes take effect immediately."""

    def __init__(self, buf: ManagedBuffer) -> None:
        self._buffer = buf

    @classmethod
    def _from_iterable(cls, it: Any) -> set[Any]:
        return set(it)

    def _members(self) -> list[Any]:
        return [place_of(found) for found in _core.managed_accessed_by(self._buffer)]

    def __contains__(self, location: object) -> bool:
        return location in self._members()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._members())

    def __len__(self) -> int:
        return len(self._members())

    def add(self, location: Any) -> None:
        _core.managed_set_accessed_by(self._buffer, location, True)

    def discard(self, location: Any) -> None:
        _core.managed_set_accessed_by(self._buffer, location, False)

    def clear(self) -> None:
        _core.managed_assign_accessed_by(self._buffer, [])

    def __repr__(self) -> str:
        return f"{{{', '.join(repr(m) for m in self)}}}"


class ManagedBuffer(Buffer):
    """A buffer in managed memory, which the driver migrates between host and devices. Made by ManagedMemoryResource.

    >>> with ManagedMemoryResource().allocate(64, stream=stream) as managed:
    ...     stream.sync()
    ...     memoryview(managed)[:2] = b"hi"
    ...     managed.prefetch(device, stream=stream)
    ...     stream.sync()
    ...     bytes(managed)[:2]
    b'hi'
    """

    __module__ = "cuda.core"
    __slots__ = ()

    @classmethod
    def from_handle(
        cls, ptr: Any, size: int, mr: Any = None, owner: object | None = None, *, stream: Any = None
    ) -> Buffer:
        """Create a buffer from the address of managed memory.

        close() frees the memory through ``mr``, if given. ``owner`` is kept alive until the buffer is closed.
        """
        return _core.buffer_from_handle(cls, ptr, size, mr, owner, stream)

    @property
    def read_mostly(self) -> bool:
        """True if devices may hold read-only copies of the memory (``CU_MEM_ADVISE_SET_READ_MOSTLY``)."""
        return _core.managed_read_mostly(self)

    @read_mostly.setter
    def read_mostly(self, value: bool) -> None:
        _core.managed_set_read_mostly(self, bool(value))

    @property
    def preferred_location(self) -> Any:
        """The preferred location of the memory: a Device, a Host or None."""
        found = _core.managed_preferred_location(self)
        return None if found is None else place_of(found)

    @preferred_location.setter
    def preferred_location(self, place: Any) -> None:
        _core.managed_set_preferred_location(self, place)

    @property
    def accessed_by(self) -> AccessedBySetProxy:
        """The set of devices that keep a mapping of the memory. Change it in place or assign to it."""
        return AccessedBySetProxy(self)

    @accessed_by.setter
    def accessed_by(self, places: Any) -> None:
        _core.managed_assign_accessed_by(self, list(places))

    def prefetch(self, location: Any, *, stream: Any) -> None:
        """Prefetch the memory to a device or the host, in stream order."""
        _core.managed_prefetch(self, location, stream)

    def discard(self, *, stream: Any) -> None:
        """Discard the contents, in stream order. Prefetch the buffer before you write to it again."""
        from ._copy import discard_batch

        discard_batch(stream, [self])

    def discard_prefetch(self, location: Any, *, stream: Any) -> None:
        """Discard the contents and prefetch the memory to a location, in stream order."""
        from ._copy import discard_prefetch_batch

        discard_prefetch_batch(stream, [self], location)
