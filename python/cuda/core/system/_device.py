# SPDX-License-Identifier: Apache-2.0
"""NVML devices."""

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
    """Creates a property that reads an attribute of the C++ device."""
    return ReadOnly(lambda self: getattr(self._native, name), doc)


def _part(name: str, doc: str, convert: Callable[[Any], T]) -> ReadOnly[T]:
    """Creates a property that converts an attribute of the C++ device to a class of _parts."""
    return ReadOnly(lambda self: convert(getattr(self._native, name)), doc)


def _pairs(field_ids: list[int | tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns (field, scope) pairs. The scope is 0 if only the field is given."""
    return [(id, 0) if isinstance(id, int) else id for id in field_ids]


class Device:
    """A GPU, identified by NVML index, UUID or PCI bus ID. CUDA_VISIBLE_DEVICES does not affect NVML indices.

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
        """Returns the NVML device of a CUDA device ordinal."""
        return cls._of_native(native._SystemDevice.of_cuda(number))

    @property
    def _handle(self) -> int:
        handle: int = self._native.handle
        return handle

    @classmethod
    def get_device_count(cls) -> int:
        """Return the number of GPUs of the system."""
        from . import get_num_devices

        return get_num_devices()

    @classmethod
    def get_all_devices(cls) -> Iterable[Device]:
        """Return all GPUs of the system."""
        return map(cls._of_native, native._SystemDevice.all())

    @classmethod
    def get_all_devices_with_cpu_affinity(cls, cpu_index: int) -> Iterable[Device]:
        """Return the GPUs with an affinity to a CPU."""
        return map(cls._of_native, native._SystemDevice.near_cpu(cpu_index))

    def to_cuda_device(self) -> Any:
        """Return the cuda.core.Device of this GPU."""
        from .. import _core

        return _core.Device(self._native.cuda_device_id())

    # ---- identification

    index = _get("index", "NVML index of the GPU.", int)
    name = _get("name", "Product name.", str)
    uuid = _get("uuid", "Universally unique ID, with the prefix GPU- or MIG-.", str)
    serial = _get("serial", "The board's serial number.", str)
    minor_number = _get("minor_number", "Minor number: the n of /dev/nvidia<n>.", int)
    module_id = _get("module_id", "Module ID: the position of the GPU on its baseboard.", int)
    numa_node_id = _get("numa_node_id", "NUMA node of the device memory.", int)

    uuid_without_prefix = _get("uuid_without_prefix", "UUID without prefix, as cuda.core.Device.uuid.", str)
    brand = _get("brand", "Brand.", str)
    pci_bus_id = _get("pci_bus_id", "domain:bus:device.function", str)

    @property
    def arch(self) -> Any:
        """The architecture of the GPU."""
        from .typing import DeviceArch

        return DeviceArch(self._native.architecture)

    @property
    def cuda_compute_capability(self) -> tuple[int, int]:
        """The compute capability (major, minor)."""
        capability: tuple[int, int] = self._native.cuda_compute_capability
        return capability

    @property
    def pci_info(self) -> _parts.PciInfo:
        """The PCI attributes of the GPU."""
        return _parts.PciInfo(self._native.pci_info, self._handle)

    # ---- memory and utilization

    memory_info = _part("memory_info", "Sizes of the device memory in bytes.", _parts.MemoryInfo)
    bar1_memory_info = _part(
        "bar1_memory_info", "Sizes of BAR1 memory, which maps device memory for the host.", _parts.BAR1MemoryInfo
    )
    utilization = _part("utilization", "Utilization of the GPU and its memory in percent.", _parts.Utilization)
    attributes = _part("attributes", "Resources of a MIG device.", _parts.DeviceAttributes)
    dynamic_pstates_info = _part(
        "dynamic_pstates_info",
        "Utilization per domain (graphics, frame buffer, video, bus).",
        _parts.GpuDynamicPstatesInfo,
    )

    @property
    def compute_running_processes(self) -> list[_parts.ProcessInfo]:
        """The processes with a compute context on the GPU."""
        return [_parts.ProcessInfo(self, found) for found in self._native.compute_running_processes]

    # ---- clocks, temperature, state

    performance_state = _get("performance_state", "0 is the fastest.", int)
    cooler = _part("cooler", "Cooler information.", _parts.CoolerInfo)
    num_fans = _get("num_fans", "Number of fans.", int)
    is_display_active = _get("is_display_active", "True if a display is active on the GPU.", bool)
    is_display_connected = _get("is_display_connected", "True if a display is connected.", bool)

    @property
    def supported_pstates(self) -> list[int]:
        """The supported performance states."""
        states: list[int] = self._native.supported_pstates
        return states

    @property
    def current_clock_event_reasons(self) -> list[ClocksEventReasons]:
        """The current reasons why the clocks are below their maximum."""
        return members_of(ClocksEventReasons, self._native.current_clock_event_reasons)

    @property
    def supported_clock_event_reasons(self) -> list[ClocksEventReasons]:
        """The clock event reasons that the GPU can report."""
        return members_of(ClocksEventReasons, self._native.supported_clock_event_reasons)

    @property
    def is_auto_boosted_clocks_enabled(self) -> tuple[bool, bool]:
        """Whether auto-boosted clocks are enabled: (now, by default)."""
        enabled: tuple[bool, bool] = self._native.is_auto_boosted_clocks_enabled
        return enabled

    @property
    def is_persistence_mode_enabled(self) -> bool:
        """True in persistence mode: the driver stays loaded without clients. Can be set."""
        return bool(self._native.is_persistence_mode_enabled)

    @is_persistence_mode_enabled.setter
    def is_persistence_mode_enabled(self, value: bool) -> None:
        self._native.set_persistence_mode(bool(value))

    @property
    def is_c2c_enabled(self) -> bool:
        """True if a chip-to-chip (C2C) link to the CPU is enabled."""
        return bool(self._native.is_c2c_enabled)

    @property
    def addressing_mode(self) -> AddressingMode | None:
        """The addressing mode for host memory; None if there is none."""
        value = self._native.addressing_mode
        return member_of(AddressingMode, value) if value else None

    @property
    def temperature(self) -> _parts.Temperature:
        """The temperatures of the GPU."""
        return _parts.Temperature(self._handle)

    @property
    def inforom(self) -> _parts.InforomInfo:
        """The InfoROM of the GPU."""
        return _parts.InforomInfo(self)

    @property
    def mig(self) -> _parts.MigInfo:
        """The MIG configuration of the GPU."""
        return _parts.MigInfo(self)

    @property
    def repair_status(self) -> _parts.RepairStatus:
        """The repairs of memory channels and TPCs that are pending until the next reset."""
        return _parts.RepairStatus(self._handle)

    def get_clock(self, clock_type: Any) -> _parts.ClockInfo:
        """Return a clock: "graphics", "sm", "memory" or "video"."""
        return _parts.ClockInfo(self._handle, clock_type)

    def get_fan(self, fan: int = 0) -> _parts.FanInfo:
        """Return a fan by its index."""
        self._native.get_fan(fan)  # raises if there is no such fan
        return _parts.FanInfo(self._handle, fan)

    # ---- fields, NVLink, topology

    def get_field_values(self, field_ids: list[int | tuple[int, int]]) -> _parts.FieldValues:
        """Query several NVML fields, given by IDs or (ID, scope) pairs."""
        return _parts.FieldValues(self._native.get_field_values(_pairs(field_ids)))

    def clear_field_values(self, field_ids: list[int | tuple[int, int]]) -> None:
        """Reset the counters of NVML fields."""
        self._native.clear_field_values(_pairs(field_ids))

    def get_nvlink(self, link: int) -> _parts.NvlinkInfo:
        """Return an NVLink by its index."""
        self._native.get_nvlink(link)  # raises if there is no such link
        return _parts.NvlinkInfo(self._handle, link)

    def get_nvlink_count(self) -> int:
        """Return the number of NVLinks of the GPU."""
        return int(self._native.nvlink_count)

    def get_nvlinks(self) -> Iterable[_parts.NvlinkInfo]:
        """Return all NVLinks of the GPU."""
        return (_parts.NvlinkInfo(self._handle, link) for link in range(self.get_nvlink_count()))

    def get_topology_nearest_gpus(self, level: GpuTopologyLevel | str) -> Iterable[Device]:
        """Return the GPUs that are connected to this GPU at the given topology level or closer."""
        return map(Device._of_native, self._native.topology_nearest_gpus(number_of(GpuTopologyLevel, level)))

    def get_cpu_affinity(self, scope: AffinityScope | str = AffinityScope.NODE) -> list[int]:
        """Return the indices of the CPUs with an affinity to the GPU."""
        cpus: list[int] = self._native.cpu_affinity(number_of(AffinityScope, scope))
        return cpus

    def get_memory_affinity(self, scope: AffinityScope | str = AffinityScope.NODE) -> list[int]:
        """Return the indices of the NUMA nodes with an affinity to the GPU."""
        nodes: list[int] = self._native.memory_affinity(number_of(AffinityScope, scope))
        return nodes

    def set_cpu_affinity(self) -> None:
        """Set the CPU affinity of the calling thread to the CPUs of the GPU."""
        self._native.set_cpu_affinity()

    def clear_cpu_affinity(self) -> None:
        """Clear the CPU affinity of the calling thread."""
        self._native.clear_cpu_affinity()

    # ---- events

    def get_supported_event_types(self) -> list[EventType]:
        """Return the event types that the GPU supports."""
        return members_of(EventType, self._native.supported_event_types)

    def register_events(self, events: Any) -> Any:
        """Register for events. Return an object whose ``wait`` returns them."""
        from . import DeviceEvents

        return DeviceEvents(self._handle, events)

    def __repr__(self) -> str:
        return f"<system.Device {self.index} ({self.name})>"
