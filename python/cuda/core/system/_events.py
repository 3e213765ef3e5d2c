# SPDX-License-Identifier: Apache-2.0
"""NVML events of devices and of the system."""

from __future__ import annotations

import functools
import operator
from typing import Any

from ._device import Device
from ._nvml import device_of, native
from .typing import EventType, SystemEventType, member_of, number_of


def _numbers(cls: Any, events: Any) -> list[int]:
    return [number_of(cls, event) for event in ([events] if isinstance(events, str) else events)]


def _mask(cls: Any, events: Any) -> int:
    return functools.reduce(operator.or_, _numbers(cls, events), 0)


class EventData:
    """An event of a device."""

    __slots__ = ("_raw",)

    def __init__(self, event_data: Any) -> None:
        self._raw = event_data

    @property
    def device(self) -> Device:
        """The GPU of the event."""
        return Device._of_native(self._raw.device)

    @property
    def event_type(self) -> EventType:
        """The type of the event."""
        return member_of(EventType, int(self._raw.event_type))

    @property
    def event_data(self) -> int:
        """The Xid error code; 0 for other events."""
        return int(self._raw.event_data)

    @property
    def gpu_instance_id(self) -> int:
        """The GPU instance ID of a MIG device."""
        return int(self._raw.gpu_instance_id)

    @property
    def compute_instance_id(self) -> int:
        """The compute instance ID of a MIG device."""
        return int(self._raw.compute_instance_id)


class DeviceEvents:
    """A registration for events of a device."""

    __slots__ = ("__weakref__", "_set")

    def __init__(self, device_handle: int, events: Any) -> None:
        self._set = native._SystemDeviceEvents(device_of(device_handle), _mask(EventType, events))

    def wait(self, timeout_ms: int = 0) -> EventData:
        """Wait for the next event. Raises NVML's TimeoutError if there is none in time."""
        return EventData(self._set.wait(timeout_ms))


class SystemEvent:
    """A GPU was bound to the driver or unbound from it."""

    __slots__ = ("_raw",)

    def __init__(self, event_data: Any) -> None:
        self._raw = event_data

    @property
    def event_type(self) -> SystemEventType:
        """The type of the event: bind or unbind."""
        return member_of(SystemEventType, int(self._raw.event_type))

    @property
    def gpu_id(self) -> int:
        """The GPU's PCI location, encoded as an integer."""
        return int(self._raw.gpu_id)

    @property
    def device(self) -> Device:
        """The GPU of the event."""
        return Device._of_native(self._raw.device)


class SystemEvents:
    """The events that a wait returned."""

    __slots__ = ("_raw",)

    def __init__(self, event_data: Any) -> None:
        self._raw = event_data

    def __len__(self) -> int:
        return len(self._raw)

    def __getitem__(self, index: int) -> SystemEvent:
        return SystemEvent(self._raw[index])


class RegisteredSystemEvents:
    """A registration for events of the system."""

    __slots__ = ("__weakref__", "_set")

    def __init__(self, events: Any) -> None:
        self._set = native._SystemEvents(_numbers(SystemEventType, events))

    def wait(self, timeout_ms: int = 0, buffer_size: int = 1) -> SystemEvents:
        """Wait for events. Return at most ``buffer_size`` of them."""
        return SystemEvents(self._set.wait(timeout_ms, buffer_size))


def register_events(events: Any) -> RegisteredSystemEvents:
    """Register for events of the system. Return an object whose ``wait`` returns them."""
    return RegisteredSystemEvents(events)
