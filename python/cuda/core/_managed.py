# SPDX-License-Identifier: Apache-2.0
"""Managed memory: places it can live, and buffers of it."""

from __future__ import annotations

from collections.abc import Iterator, MutableSet

from . import _core

TYPE_CHECKING = False  # importing typing would cost more than this module
if TYPE_CHECKING:
    from typing import Any

Buffer = _core.Buffer
Device = _core.Device

# The driver's numbers of kinds of places.
_DEVICE, _HOST, _HOST_NUMA, _HOST_NUMA_CURRENT = 1, 2, 3, 4


class Host:
    """Host memory as a place: ``Host()``, ``Host(numa_id=1)``, or ``Host.numa_current()``. Equal ones are one object.

    >>> Host() is Host(), Host(numa_id=0)
    (True, Host(numa_id=0))
    """

    __module__ = "cuda.core"
    __slots__ = ("__weakref__", "_is_numa_current", "_numa_id")
    _instances: dict[Any, Host] = {}
    _numa_id: int | None
    _is_numa_current: bool

    def __new__(cls, numa_id: int | None = None, *, is_numa_current: bool = False) -> Host:
        if is_numa_current and numa_id is not None:
            raise ValueError("Host: give numa_id or is_numa_current, not both")
        if numa_id is not None:
            if not isinstance(numa_id, int):
                raise TypeError(f"Host: numa_id must be an int or None, not {type(numa_id).__name__}")
            if isinstance(numa_id, bool) or numa_id < 0:
                raise ValueError(f"Host: numa_id must be the number of a node, 0 or more, not {numa_id}")
        key = (numa_id, bool(is_numa_current))
        self = cls._instances.get(key)
        if self is None:
            self = object.__new__(cls)
            self._numa_id = numa_id
            self._is_numa_current = bool(is_numa_current)
            self = cls._instances.setdefault(key, self)
        return self

    @classmethod
    def numa_current(cls) -> Host:
        """The NUMA node of the thread that uses it."""
        return cls(is_numa_current=True)

    @property
    def numa_id(self) -> int | None:
        """The NUMA node, None for wherever the host likes."""
        return self._numa_id

    @property
    def is_numa_current(self) -> bool:
        """True for the node of the thread that asks."""
        return self._is_numa_current

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Host):
            return NotImplemented
        return (self._numa_id, self._is_numa_current) == (other._numa_id, other._is_numa_current)

    def __hash__(self) -> int:
        return hash((Host, self._numa_id, self._is_numa_current))

    def __repr__(self) -> str:
        if self._is_numa_current:
            return "Host.numa_current()"
        return "Host()" if self._numa_id is None else f"Host(numa_id={self._numa_id})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Host.numa_current, ()) if self._is_numa_current else (Host, (self._numa_id,))


def location_of(place: Any) -> tuple[int, int]:
    """A Device or Host as the driver's (kind, number)."""
    if isinstance(place, Host):
        if place.is_numa_current:
            return _HOST_NUMA_CURRENT, 0
        return (_HOST, 0) if place.numa_id is None else (_HOST_NUMA, place.numa_id)
    if isinstance(place, Device) or (isinstance(place, int) and not isinstance(place, bool)):
        if isinstance(place, int) and place == -1:
            return _HOST, 0
        return _DEVICE, int(Device(place))
    raise TypeError(f"a location must be a Device or a Host, not {type(place).__name__}")


def place_of(location: tuple[int, int]) -> Any:
    """The driver's (kind, number) as a Device or Host."""
    kind, number = location
    if kind == _DEVICE:
        return Device(number)
    if kind == _HOST_NUMA:
        return Host(numa_id=number)
    return Host.numa_current() if kind == _HOST_NUMA_CURRENT else Host()


class AccessedBySetProxy(MutableSet):  # type: ignore[type-arg]
    """The devices (and the host) that keep a mapping of a managed buffer. Live: looks ask, changes act at once."""

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
        _core.managed_set_accessed_by(self._buffer, location_of(location), True)

    def discard(self, location: Any) -> None:
        _core.managed_set_accessed_by(self._buffer, location_of(location), False)

    def clear(self) -> None:
        for member in self._members():
            self.discard(member)

    def __repr__(self) -> str:
        return f"{{{', '.join(repr(m) for m in self)}}}"


class ManagedBuffer(Buffer):
    """A buffer that moves between host and devices by itself: made by ManagedMemoryResource.

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
        """Use managed memory by its address: mr takes it back when the buffer goes, or owner is kept alive meanwhile."""
        return _core.buffer_from_handle(cls, ptr, size, mr, owner, stream)

    @property
    def read_mostly(self) -> bool:
        """True when readers are given copies of their own."""
        return _core.managed_read_mostly(self)

    @read_mostly.setter
    def read_mostly(self, value: bool) -> None:
        _core.managed_set_read_mostly(self, bool(value))

    @property
    def preferred_location(self) -> Any:
        """The Device or Host the memory likes to be on, or None."""
        found = _core.managed_preferred_location(self)
        return None if found is None else place_of(found)

    @preferred_location.setter
    def preferred_location(self, place: Any) -> None:
        _core.managed_set_preferred_location(self, None if place is None else location_of(place))

    @property
    def accessed_by(self) -> AccessedBySetProxy:
        """The set of devices that keep a mapping; change it in place or assign to it."""
        return AccessedBySetProxy(self)

    @accessed_by.setter
    def accessed_by(self, places: Any) -> None:
        proxy = AccessedBySetProxy(self)
        wanted = set(places)
        for member in set(proxy) - wanted:
            proxy.discard(member)
        for member in wanted - set(proxy):
            proxy.add(member)

    def prefetch(self, location: Any, *, stream: Any) -> None:
        """Move the memory to a device or the host before it is used there."""
        _core.managed_prefetch(self, location_of(location), stream)

    def discard(self, *, stream: Any) -> None:
        """Say that the contents are not needed any more; prefetch before you write again."""
        from ._copy import discard_batch

        discard_batch(stream, [self])

    def discard_prefetch(self, location: Any, *, stream: Any) -> None:
        """Move the memory without its contents."""
        from ._copy import discard_prefetch_batch

        discard_prefetch_batch(stream, [self], location)
