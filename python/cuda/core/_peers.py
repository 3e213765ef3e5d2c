# SPDX-License-Identifier: Apache-2.0
"""The set of devices that can use a memory resource's memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSet

from . import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._memory import DeviceMemoryResource

Device = _core.Device


class PeerAccessibleBySetProxy(MutableSet):  # type: ignore[type-arg]
    """Live: every look asks the driver, every change is made at once."""

    def __init__(self, mr: DeviceMemoryResource) -> None:
        self._mr = mr

    def _numbers(self) -> list[int]:
        own = self._mr.device_id
        others = (int(d) for d in Device.get_all_devices())
        return [n for n in others if n != own and self._mr._native.access(n) != _core.CU_MEM_ACCESS_FLAGS_PROT_NONE]

    def _assign(self, devices: Iterable[Any]) -> None:
        wanted = {int(Device(d)) for d in devices} - {self._mr.device_id}
        have = set(self._numbers())
        for n in sorted(wanted - have):
            self.add(n)
        for n in sorted(have - wanted):
            self.discard(n)

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> set[Any]:
        return set(it)

    def __contains__(self, value: object) -> bool:
        try:
            return int(Device(value)) in self._numbers()  # type: ignore[arg-type]  # raises where it is none
        except (TypeError, ValueError):
            return False

    def __iter__(self) -> Iterator[Device]:
        return iter([Device(n) for n in self._numbers()])

    def __len__(self) -> int:
        return len(self._numbers())

    def add(self, value: Any) -> None:
        """Let a device use the memory."""
        number = int(Device(value))
        if number == self._mr.device_id:
            return
        if not Device(number).can_access_peer(self._mr.device_id):
            raise ValueError(f"device {number} cannot access the memory of device {self._mr.device_id}")
        self._mr._native.set_access(number, _core.CU_MEM_ACCESS_FLAGS_PROT_READWRITE)

    def discard(self, value: Any) -> None:
        """Take the right back; a device that has none is no error."""
        number = int(Device(value))
        if number != self._mr.device_id:
            self._mr._native.set_access(number, _core.CU_MEM_ACCESS_FLAGS_PROT_NONE)

    def clear(self) -> None:
        self._assign(())

    def update(self, *others: Iterable[Any]) -> None:
        """Let all these devices use the memory."""
        for other in others:
            for value in other:
                self.add(value)

    def difference_update(self, *others: Iterable[Any]) -> None:
        for other in others:
            for value in other:
                self.discard(value)

    def intersection_update(self, *others: Iterable[Any]) -> None:
        keep = set(self._numbers())
        for other in others:
            keep &= {int(Device(value)) for value in other}
        self._assign(keep)

    def symmetric_difference_update(self, other: Iterable[Any]) -> None:
        self._assign(set(self._numbers()) ^ {int(Device(value)) for value in other})

    def __repr__(self) -> str:
        return f"{{{', '.join(repr(d) for d in self)}}}"
