# SPDX-License-Identifier: Apache-2.0
"""A GPU as NVML sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from .._readonly import ReadOnly
from . import _parts
from ._nvml import device_of, native
from .typing import (
    AddressingMode,
    AffinityScope,
    ClocksEventReasons,
    EventType,
    GpuTopologyLevel,
    member_of,
    members_of,
    number_of,
)

T = TypeVar("T")


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _get(name: str, doc: str, _type: type[T]) -> ReadOnly[T]:
    """A property of the C++ library's device."""
    return ReadOnly(lambda self: getattr(self._native, name), doc)


def _part(name: str, doc: str, convert: Callable[[Any], T]) -> ReadOnly[T]:
    """The same as one of the classes of _parts."""
    return ReadOnly(lambda self: convert(getattr(self._native, name)), doc)


def _pairs(field_ids: list[int | tuple[int, int]]) -> list[tuple[int, int]]:
    """(field, scope), the scope 0 where only the field is given."""
    return [(id, 0) if isinstance(id, int) else id for id in field_ids]


class Device:
    """A GPU by index, UUID or PCI bus id. Indices are NVML's: CUDA_VISIBLE_DEVICES does not change them.

    >>> system.Device(0).memory_info.total > 0
    True
    >>> device.to_system_device().to_cuda_device() == device
    True
    """

    __module__ = "cuda.core.system"
    __slots__ = ("__weakref__", "_native")

    def __init__(
        self, index: int | None = None, *, uuid: bytes | str | None = None, pci_bus_id: bytes | str | None = None
    ) -> None:
        given = [value for value in (index, uuid, pci_bus_id) if value is not None]
        if len(given) != 1:
            raise ValueError("give one of index, uuid and pci_bus_id")
        known = native._SystemDevice
        if index is not None:
            self._native = known.of_index(index)
        elif uuid is not None:
            self._native = known.of_uuid(_text(uuid))
        else:
            self._native = known.of_pci_bus_id(_text(pci_bus_id))

    @classmethod
    def _of_native(cls, found: Any) -> Device:
        self = object.__new__(cls)
        self._native = found
        return self

    @classmethod
    def _of_handle(cls, handle: int) -> Device:
        return cls._of_native(device_of(handle))

    @classmethod
    def _of_cuda(cls, number: int) -> Device:
        """The GPU of a cuda.core.Device."""
        return cls._of_native(native._SystemDevice.of_cuda(number))

    @property
    def _handle(self) -> int:
        handle: int = self._native.handle
        return handle

    @classmethod
    def get_device_count(cls) -> int:
        """How many GPUs the system has."""
        from . import get_num_devices

        return get_num_devices()

    @classmethod
    def get_all_devices(cls) -> Iterable[Device]:
        """All GPUs."""
        return map(cls._of_native, native._SystemDevice.all())

    @classmethod
    def get_all_devices_with_cpu_affinity(cls, cpu_index: int) -> Iterable[Device]:
        """The GPUs near a CPU."""
        return map(cls._of_native, native._SystemDevice.near_cpu(cpu_index))

    def to_cuda_device(self) -> Any:
        """The same GPU as a cuda.core.Device."""
        from .. import _core

        return _core.Device(self._native.cuda_device_id())

    # ---- who it is

    index = _get("index", "NVML's number of the GPU.", int)
    name = _get("name", "The GPU's name.", str)
    uuid = _get("uuid", "The same for this GPU everywhere, with its prefix GPU- or MIG-.", str)
    serial = _get("serial", "The board's serial number.", str)
    minor_number = _get("minor_number", "The number in /dev/nvidia<n>.", int)
    module_id = _get("module_id", "The GPU's place on its baseboard.", int)
    numa_node_id = _get("numa_node_id", "The NUMA node of its memory.", int)

    uuid_without_prefix = _get("uuid_without_prefix", "The UUID as cuda.core.Device.uuid has it.", str)
    brand = _get("brand", "What the GPU is sold as.", str)
    pci_bus_id = _get("pci_bus_id", "domain:bus:device.function", str)

    @property
    def arch(self) -> Any:
        """The GPU's generation."""
        from .typing import DeviceArch

        return DeviceArch(self._native.architecture)

    @property
    def cuda_compute_capability(self) -> tuple[int, int]:
        """(major, minor)"""
        capability: tuple[int, int] = self._native.cuda_compute_capability
        return capability

    @property
    def pci_info(self) -> _parts.PciInfo:
        """The GPU on the PCI bus."""
        return _parts.PciInfo(self._native.pci_info, self._handle)

    # ---- memory and load

    memory_info = _part("memory_info", "Device memory in bytes.", _parts.MemoryInfo)
    bar1_memory_info = _part("bar1_memory_info", "The host's window to it.", _parts.BAR1MemoryInfo)
    utilization = _part("utilization", "How busy the GPU is.", _parts.Utilization)
    attributes = _part("attributes", "What a MIG device has.", _parts.DeviceAttributes)
    dynamic_pstates_info = _part("dynamic_pstates_info", "How busy its parts are.", _parts.GpuDynamicPstatesInfo)

    @property
    def compute_running_processes(self) -> list[_parts.ProcessInfo]:
        """The processes that run kernels on it."""
        return [_parts.ProcessInfo(self, found) for found in self._native.compute_running_processes]

    # ---- clocks, heat, state

    performance_state = _get("performance_state", "0 is the fastest.", int)
    cooler = _part("cooler", "How it is cooled.", _parts.CoolerInfo)
    num_fans = _get("num_fans", "How many fans it has.", int)
    is_display_active = _get("is_display_active", "True when something is shown.", bool)
    is_display_connected = _get("is_display_connected", "True when a display is connected.", bool)

    @property
    def supported_pstates(self) -> list[int]:
        """The performance states it has."""
        states: list[int] = self._native.supported_pstates
        return states

    @property
    def current_clock_event_reasons(self) -> list[ClocksEventReasons]:
        """Why its clocks are not at their highest."""
        return members_of(ClocksEventReasons, self._native.current_clock_event_reasons)

    @property
    def supported_clock_event_reasons(self) -> list[ClocksEventReasons]:
        """The reasons it can give."""
        return members_of(ClocksEventReasons, self._native.supported_clock_event_reasons)

    @property
    def is_auto_boosted_clocks_enabled(self) -> tuple[bool, bool]:
        """(now, by default)"""
        enabled: tuple[bool, bool] = self._native.is_auto_boosted_clocks_enabled
        return enabled

    @property
    def is_persistence_mode_enabled(self) -> bool:
        """True when the driver stays loaded without users; can be set."""
        return bool(self._native.is_persistence_mode_enabled)

    @is_persistence_mode_enabled.setter
    def is_persistence_mode_enabled(self, value: bool) -> None:
        self._native.set_persistence_mode(bool(value))

    @property
    def is_c2c_enabled(self) -> bool:
        """True when a chip-to-chip link joins it to the CPU."""
        return bool(self._native.is_c2c_enabled)

    @property
    def addressing_mode(self) -> AddressingMode | None:
        """How it reaches host memory; None when in no particular way."""
        value = self._native.addressing_mode
        return member_of(AddressingMode, value) if value else None

    @property
    def temperature(self) -> _parts.Temperature:
        """Its temperatures."""
        return _parts.Temperature(self._handle)

    @property
    def inforom(self) -> _parts.InforomInfo:
        """Its own record of itself."""
        return _parts.InforomInfo(self)

    @property
    def mig(self) -> _parts.MigInfo:
        """How it is divided."""
        return _parts.MigInfo(self)

    @property
    def repair_status(self) -> _parts.RepairStatus:
        """Repairs that wait for a reset."""
        return _parts.RepairStatus(self._handle)

    def get_clock(self, clock_type: Any) -> _parts.ClockInfo:
        """A clock: "graphics", "sm", "memory" or "video"."""
        return _parts.ClockInfo(self._handle, clock_type)

    def get_fan(self, fan: int = 0) -> _parts.FanInfo:
        """A fan by number."""
        self._native.get_fan(fan)  # raises where there is none
        return _parts.FanInfo(self._handle, fan)

    # ---- fields, links, neighbours

    def get_field_values(self, field_ids: list[int | tuple[int, int]]) -> _parts.FieldValues:
        """Ask several of NVML's fields at once: ids, or (id, scope) pairs."""
        return _parts.FieldValues(self._native.get_field_values(_pairs(field_ids)))

    def clear_field_values(self, field_ids: list[int | tuple[int, int]]) -> None:
        """Set counters back."""
        self._native.clear_field_values(_pairs(field_ids))

    def get_nvlink(self, link: int) -> _parts.NvlinkInfo:
        """An NVLink by number."""
        self._native.get_nvlink(link)  # raises where there is none
        return _parts.NvlinkInfo(self._handle, link)

    def get_nvlink_count(self) -> int:
        """How many NVLinks it has."""
        return int(self._native.nvlink_count)

    def get_nvlinks(self) -> Iterable[_parts.NvlinkInfo]:
        """All its NVLinks."""
        return (_parts.NvlinkInfo(self._handle, link) for link in range(self.get_nvlink_count()))

    def get_topology_nearest_gpus(self, level: GpuTopologyLevel | str) -> Iterable[Device]:
        """The GPUs with no more than this between them and this one."""
        return map(Device._of_native, self._native.topology_nearest_gpus(number_of(GpuTopologyLevel, level)))

    def get_cpu_affinity(self, scope: AffinityScope | str = AffinityScope.NODE) -> list[int]:
        """The numbers of the CPUs near it."""
        cpus: list[int] = self._native.cpu_affinity(number_of(AffinityScope, scope))
        return cpus

    def get_memory_affinity(self, scope: AffinityScope | str = AffinityScope.NODE) -> list[int]:
        """The numbers of the NUMA nodes near it."""
        nodes: list[int] = self._native.memory_affinity(number_of(AffinityScope, scope))
        return nodes

    def set_cpu_affinity(self) -> None:
        """Run this thread near the GPU."""
        self._native.set_cpu_affinity()

    def clear_cpu_affinity(self) -> None:
        """Run this thread anywhere again."""
        self._native.clear_cpu_affinity()

    # ---- events

    def get_supported_event_types(self) -> list[EventType]:
        """The events it can report."""
        return members_of(EventType, self._native.supported_event_types)

    def register_events(self, events: Any) -> Any:
        """Collect events from now on; ``wait`` on what is returned."""
        from . import DeviceEvents

        return DeviceEvents(self._handle, events)

    def __repr__(self) -> str:
        return f"<system.Device {self.index} ({self.name})>"
