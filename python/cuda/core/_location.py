# SPDX-License-Identifier: Apache-2.0
"""Where memory lies: devices, the host and its NUMA nodes."""

from __future__ import annotations

from . import _core

TYPE_CHECKING = False  # importing typing would cost more than this module
if TYPE_CHECKING:
    from typing import Any

Device = _core.Device


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
                raise ValueError(f"Host: numa_id must be an int of at least 0, not {numa_id}")
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
            return _core.CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0
        return (
            (_core.CU_MEM_LOCATION_TYPE_HOST, 0)
            if place.numa_id is None
            else (_core.CU_MEM_LOCATION_TYPE_HOST_NUMA, place.numa_id)
        )
    if isinstance(place, Device) or (isinstance(place, int) and not isinstance(place, bool)):
        if isinstance(place, int) and place == -1:
            return _core.CU_MEM_LOCATION_TYPE_HOST, 0
        return _core.CU_MEM_LOCATION_TYPE_DEVICE, int(Device(place))
    raise TypeError(f"a location must be a Device or a Host, not {type(place).__name__}")


def place_of(location: tuple[int, int]) -> Any:
    """The driver's (kind, number) as a Device or Host."""
    kind, number = location
    if kind == _core.CU_MEM_LOCATION_TYPE_DEVICE:
        return Device(number)
    if kind == _core.CU_MEM_LOCATION_TYPE_HOST_NUMA:
        return Host(numa_id=number)
    return Host.numa_current() if kind == _core.CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT else Host()
