# SPDX-License-Identifier: Apache-2.0
"""The set of devices with peer access to a memory resource."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSet
from itertools import chain

from . import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._memory import DeviceMemoryResource

Device = _core.Device


def _number(device: Any) -> int:
    return int(Device(device))


class PeerAccessibleBySetProxy(MutableSet):  # type: ignore[type-arg]
    """A live view of the peer access: reads query the driver, changes take effect immediately."""

    def __init__(self, mr: DeviceMemoryResource) -> None:
        self._mr = mr

    def _numbers(self) -> list[int]:
        return self._mr._native.peers()

    def _assign(self, devices: Iterable[Any]) -> None:
        self._mr._native.set_peers(list(map(_number, devices)))

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> set[Any]:
        return set(it)

    def __contains__(self, value: object) -> bool:
        try:
            return _number(value) in self._numbers()  # raises if value is not a device
        except (TypeError, ValueError):
            return False

    def __iter__(self) -> Iterator[Device]:
        return map(Device, self._numbers())

    def __len__(self) -> int:
        return len(self._numbers())

    def add(self, value: Any) -> None:
        """Enable access by a device."""
        self._mr._native.add_peer(_number(value))

    def discard(self, value: Any) -> None:
        """Disable access by a device. No-op if it has none."""
        self._mr._native.remove_peer(_number(value))

    def clear(self) -> None:
        self._assign(())

    def update(self, *others: Iterable[Any]) -> None:
        """Enable access by all these devices."""
        for value in chain.from_iterable(others):
            self.add(value)

    def difference_update(self, *others: Iterable[Any]) -> None:
        for value in chain.from_iterable(others):
            self.discard(value)

    def intersection_update(self, *others: Iterable[Any]) -> None:
        self._assign(set(self._numbers()).intersection(*(map(_number, other) for other in others)))

    def symmetric_difference_update(self, other: Iterable[Any]) -> None:
        self._assign(set(self._numbers()) ^ set(map(_number, other)))

    def __repr__(self) -> str:
        return f"{{{', '.join(repr(d) for d in self)}}}"
