# SPDX-License-Identifier: Apache-2.0
"""A GPU as NVML sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from .._readonly import ReadOnly
from . import _parts
from ._nvml import initialized
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


def _ask(function: str, doc: str, convert: Callable[[Any], T]) -> ReadOnly[T]:
    """A property that calls one of NVML's functions with the device's handle."""

    return ReadOnly(lambda self: convert(getattr(initialized(), function)(self._handle)), doc)


def _bits(words: Any) -> list[int]:
    """The numbers of the bits set in 64-bit words; one word alone comes as an int."""
    words = [words] if isinstance(words, int) else words
    return [64 * i + bit for i, word in enumerate(words) for bit in range(64) if int(word) >> bit & 1]


# Words of NVML's brands that are not written like words; the others are ("Tesla").
_BRANDS = {
    **{word: word for word in ("DLA", "GRID", "NPU", "NVIDIA", "NVS", "RTX")},
    "GEFORCE": "GeForce", "VAPPS": "vApps", "VCS": "vCS", "VPC": "vPC", "VWS": "vWS", "VGAMEDEV": "vGameDev", "VGAMING": "vGaming",
}  # fmt: skip


class Device:
    """A GPU by index, UUID or PCI bus id. Indices are NVML's: CUDA_VISIBLE_DEVICES does not change them.

    >>> system.Device(0).memory_info.total > 0
    True
    >>> device.to_system_device().to_cuda_device() == device
    True
    """

    __module__ = "cuda.core.system"
    __slots__ = ("__weakref__", "_handle")

    def __init__(
        self, index: int | None = None, *, uuid: bytes | str | None = None, pci_bus_id: bytes | str | None = None
    ) -> None:
        given = [value for value in (index, uuid, pci_bus_id) if value is not None]
        if len(given) != 1:
            raise ValueError("give one of index, uuid and pci_bus_id")
        nvml = initialized()
        if index is not None:
            self._handle = nvml.device_get_handle_by_index_v2(index)
        elif uuid is not None:
            text = _text(uuid)
            self._handle = nvml.device_get_handle_by_uuid(text if text.startswith(("GPU-", "MIG-")) else f"GPU-{text}")
        else:
            self._handle = nvml.device_get_handle_by_pci_bus_id_v2(_text(pci_bus_id))

    @classmethod
    def _of_handle(cls, handle: int) -> Device:
        self = object.__new__(cls)
        self._handle = handle
        return self

    @classmethod
    def _of_cuda(cls, number: int, uuid: str) -> Device:
        """The GPU behind a cuda.core.Device."""
        try:
            return cls(uuid=f"GPU-{uuid}")
        except initialized().NvmlError:
            return cls(uuid=f"MIG-{uuid}")

    @classmethod
    def get_device_count(cls) -> int:
        """How many GPUs the system has."""
        from . import get_num_devices

        return get_num_devices()

    @classmethod
    def get_all_devices(cls) -> Iterable[Device]:
        """All GPUs."""
        for index in range(cls.get_device_count()):
            yield cls(index)

    @classmethod
    def get_all_devices_with_cpu_affinity(cls, cpu_index: int) -> Iterable[Device]:
        """The GPUs near a CPU."""
        for handle in initialized().system_get_topology_gpu_set(cpu_index):
            yield cls._of_handle(handle)

    def to_cuda_device(self) -> Any:
        """The same GPU as a cuda.core.Device."""
        from .. import _core

        wanted = self.uuid_without_prefix.lower()
        for device in _core.Device.get_all_devices():
            if device.uuid.lower() == wanted:
                return device
        raise RuntimeError("CUDA does not see this GPU (is CUDA_VISIBLE_DEVICES set?)")

    # ---- who it is

    index = _ask("device_get_index", "NVML's number of the GPU.", int)
    name = _ask("device_get_name", "The GPU's name.", _text)
    uuid = _ask("device_get_uuid", "The same for this GPU everywhere, with its prefix GPU- or MIG-.", _text)
    serial = _ask("device_get_serial", "The board's serial number.", _text)
    minor_number = _ask("device_get_minor_number", "The number in /dev/nvidia<n>.", int)
    module_id = _ask("device_get_module_id", "The GPU's place on its baseboard.", int)
    numa_node_id = _ask("device_get_numa_node_id", "The NUMA node of its memory.", int)

    @property
    def uuid_without_prefix(self) -> str:
        """The UUID as cuda.core.Device.uuid has it."""
        return self.uuid.split("-", 1)[1]

    @property
    def arch(self) -> Any:
        """The GPU's generation."""
        nvml = initialized()
        return nvml.DeviceArch(nvml.device_get_architecture(self._handle))

    @property
    def brand(self) -> str:
        """What the GPU is sold as."""
        nvml = initialized()
        name = nvml.BrandType(nvml.device_get_brand(self._handle)).name
        return " ".join(_BRANDS.get(word, word.capitalize()) for word in name.removeprefix("BRAND_").split("_"))

    @property
    def cuda_compute_capability(self) -> tuple[int, int]:
        """(major, minor)"""
        major, minor = initialized().device_get_cuda_compute_capability(self._handle)
        return major, minor

    @property
    def pci_info(self) -> _parts.PciInfo:
        """The GPU on the PCI bus."""
        return _parts.PciInfo(initialized().device_get_pci_info_ext(self._handle), self._handle)

    @property
    def pci_bus_id(self) -> str:
        """domain:bus:device.function"""
        return _text(self.pci_info.bus_id)

    # ---- memory and load

    memory_info = _ask("device_get_memory_info_v2", "Device memory in bytes.", _parts.MemoryInfo)
    bar1_memory_info = _ask("device_get_bar1_memory_info", "The host's window to it.", _parts.BAR1MemoryInfo)
    utilization = _ask("device_get_utilization_rates", "How busy the GPU is.", _parts.Utilization)
    attributes = _ask("device_get_attributes_v2", "What a MIG device has.", _parts.DeviceAttributes)
    dynamic_pstates_info = _ask(
        "device_get_dynamic_pstates_info", "How busy its parts are.", _parts.GpuDynamicPstatesInfo
    )

    @property
    def compute_running_processes(self) -> list[_parts.ProcessInfo]:
        """The processes that run kernels on it."""
        found = initialized().device_get_compute_running_processes_v3(self._handle)
        return [_parts.ProcessInfo(self, found[i]) for i in range(len(found))]

    # ---- clocks, heat, state

    performance_state = _ask("device_get_performance_state", "0 is the fastest.", int)
    cooler = _ask("device_get_cooler_info", "How it is cooled.", _parts.CoolerInfo)
    num_fans = _ask("device_get_num_fans", "How many fans it has.", int)
    is_display_active = _ask("device_get_display_active", "True when something is shown.", bool)
    is_display_connected = _ask("device_get_display_mode", "True when a display is connected.", bool)

    @property
    def supported_pstates(self) -> list[int]:
        """The performance states it has."""
        return [int(p) for p in initialized().device_get_supported_performance_states(self._handle) if int(p) != 32]

    @property
    def current_clock_event_reasons(self) -> list[ClocksEventReasons]:
        """Why its clocks are not at their highest."""
        return members_of(ClocksEventReasons, initialized().device_get_current_clocks_event_reasons(self._handle))

    @property
    def supported_clock_event_reasons(self) -> list[ClocksEventReasons]:
        """The reasons it can give."""
        return members_of(ClocksEventReasons, initialized().device_get_supported_clocks_event_reasons(self._handle))

    @property
    def is_auto_boosted_clocks_enabled(self) -> tuple[bool, bool]:
        """(now, by default)"""
        now, default = initialized().device_get_auto_boosted_clocks_enabled(self._handle)
        return bool(now), bool(default)

    @property
    def is_persistence_mode_enabled(self) -> bool:
        """True when the driver stays loaded without users; can be set."""
        return bool(initialized().device_get_persistence_mode(self._handle))

    @is_persistence_mode_enabled.setter
    def is_persistence_mode_enabled(self, value: bool) -> None:
        initialized().device_set_persistence_mode(self._handle, int(bool(value)))

    @property
    def is_c2c_enabled(self) -> bool:
        """True when a chip-to-chip link joins it to the CPU."""
        return bool(initialized().device_get_c2c_mode_info_v(self._handle).is_c2c_enabled)

    @property
    def addressing_mode(self) -> AddressingMode | None:
        """How it reaches host memory; None when in no particular way."""
        value = int(initialized().device_get_addressing_mode(self._handle).value)
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
        if not 0 <= fan < self.num_fans:
            raise ValueError(f"fan must be at least 0 and below {self.num_fans}, not {fan}")
        return _parts.FanInfo(self._handle, fan)

    # ---- fields, links, neighbours

    def get_field_values(self, field_ids: list[int | tuple[int, int]]) -> _parts.FieldValues:
        """Ask several of NVML's fields at once: ids, or (id, scope) pairs."""
        return _parts.FieldValues(initialized().device_get_field_values(self._handle, field_ids))

    def clear_field_values(self, field_ids: list[int | tuple[int, int]]) -> None:
        """Set counters back."""
        initialized().device_clear_field_values(self._handle, field_ids)

    def get_nvlink(self, link: int) -> _parts.NvlinkInfo:
        """An NVLink by number."""
        count = self.get_nvlink_count()
        if not 0 <= link < count:
            raise ValueError(f"link must be at least 0 and below {count}, not {link}")
        return _parts.NvlinkInfo(self._handle, link)

    def get_nvlink_count(self) -> int:
        """How many NVLinks it has."""
        return int(self.get_field_values([91])[0].value)

    def get_nvlinks(self) -> Iterable[_parts.NvlinkInfo]:
        """All its NVLinks."""
        for link in range(self.get_nvlink_count()):
            yield _parts.NvlinkInfo(self._handle, link)

    def get_topology_nearest_gpus(self, level: GpuTopologyLevel | str) -> Iterable[Device]:
        """The GPUs with no more than this between them and this one."""
        for handle in initialized().device_get_topology_nearest_gpus(self._handle, number_of(GpuTopologyLevel, level)):
            yield Device._of_handle(handle)

    def get_cpu_affinity(self, scope: AffinityScope | str = AffinityScope.NODE) -> list[int]:
        """The numbers of the CPUs near it."""
        import os

        words = -(-(os.cpu_count() or 1) // 64)
        number = number_of(AffinityScope, scope)
        return _bits(initialized().device_get_cpu_affinity_within_scope(self._handle, words, number))

    def get_memory_affinity(self, scope: AffinityScope | str = AffinityScope.NODE) -> list[int]:
        """The numbers of the NUMA nodes near it."""
        import os

        words = -(-(os.cpu_count() or 1) // 64)
        return _bits(initialized().device_get_memory_affinity(self._handle, words, number_of(AffinityScope, scope)))

    def set_cpu_affinity(self) -> None:
        """Run this thread near the GPU."""
        initialized().device_set_cpu_affinity(self._handle)

    def clear_cpu_affinity(self) -> None:
        """Run this thread anywhere again."""
        initialized().device_clear_cpu_affinity(self._handle)

    # ---- events

    def get_supported_event_types(self) -> list[EventType]:
        """The events it can report."""
        return members_of(EventType, initialized().device_get_supported_event_types(self._handle))

    def register_events(self, events: Any) -> Any:
        """Collect events from now on; ``wait`` on what is returned."""
        from . import DeviceEvents

        return DeviceEvents(self._handle, events)

    def __repr__(self) -> str:
        return f"<system.Device {self.index} ({self.name})>"
