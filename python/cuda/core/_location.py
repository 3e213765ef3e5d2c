# SPDX-License-Identifier: Apache-2.0
"""Memory locations: devices, the host and its NUMA nodes."""

from __future__ import annotations

from . import _core

TYPE_CHECKING = False  # importing typing would cost more than this module
if TYPE_CHECKING:
    from typing import Any

Device = _core.Device


class Host:
    """The host as a memory location: ``Host()``, ``Host(numa_id=1)`` or ``Host.numa_current()``.

    Equal locations are the same object.

    >>> Host() is Host(), Host(numa_id=0)
    (True, Host(numa_id=0))
    """

    __module__ = "cuda.core"
    __slots__ = ("__weakref__", "_location")
    _instances: dict[Any, Host] = {}
    _location: _core._Location

    def __new__(cls, numa_id: int | None = None, *, is_numa_current: bool = False) -> Host:
        return cls._at(_core._Location.host(numa_id, bool(is_numa_current)))

    @classmethod
    def _at(cls, location: Any) -> Host:
        self = object.__new__(cls)
        self._location = location
        return cls._instances.setdefault(location, self)

    @classmethod
    def numa_current(cls) -> Host:
        """Return the location that stands for the NUMA node closest to the calling thread."""
        return cls(is_numa_current=True)

    @property
    def numa_id(self) -> int | None:
        """The ID of the NUMA node; None for any node."""
        return self._location.numa_id

    @property
    def is_numa_current(self) -> bool:
        """True if the location is the NUMA node of the calling thread (``Host.numa_current()``)."""
        return self._location.is_numa_current

    def __eq__(self, other: object) -> bool:
        return self._location == other._location if isinstance(other, Host) else NotImplemented

    def __hash__(self) -> int:
        return hash((Host, self._location))

    def __repr__(self) -> str:
        return self._location.text

    def __reduce__(self) -> tuple[Any, ...]:
        return (Host.numa_current, ()) if self.is_numa_current else (Host, (self.numa_id,))


def place_of(location: Any) -> Any:
    """Converts a C++ location to a Device or Host."""
    return Device(location.id) if location.is_device else Host._at(location)
