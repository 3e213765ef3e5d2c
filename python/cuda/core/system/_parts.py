"""What cuda.core.system.Device hands back: snapshots of NVML's structures, and parts that ask when looked at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ._nvml import initialized
from .typing import (
    ClockId,
    ClockType,
    CoolerControl,
    CoolerTarget,
    FanControlPolicy,
    InforomObject,
    TemperatureThresholds,
    ThermalController,
    ThermalTarget,
    member_of,
    number_of,
)


class _Record:
    """Reads fields of one of NVML's structures; ``_fields`` maps a name to NVML's, where they differ."""

    __slots__ = ("_raw",)
    _fields: dict[str, str] = {}

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def __repr__(self) -> str:
        names = [n for n in dir(type(self)) if isinstance(getattr(type(self), n), property)]
        return f"{type(self).__name__}({', '.join(f'{n}={getattr(self, n)!r}' for n in names)})"


def _field(name: str, doc: str = "") -> property:
    return property(lambda self: getattr(self._raw, name), doc=doc)


class MemoryInfo(_Record):
    """Device memory in bytes."""

    __slots__ = ()
    free = _field("free")
    total = _field("total")
    used = _field("used")
    reserved = property(lambda self: getattr(self._raw, "reserved", 0))


class BAR1MemoryInfo(MemoryInfo):
    """The window through which the host reaches device memory, in bytes."""

    __slots__ = ()
    free = _field("bar1_free")
    total = _field("bar1_total")
    used = _field("bar1_used")


class Utilization(_Record):
    """Per cent of the time the GPU and its memory were busy."""

    __slots__ = ()
    gpu = _field("gpu")
    memory = _field("memory")


class DeviceAttributes(_Record):
    """What a MIG device has of its GPU."""

    __slots__ = ()
    compute_instance_slice_count = _field("compute_instance_slice_count")
    gpu_instance_slice_count = _field("gpu_instance_slice_count")
    memory_size_mb = _field("memory_size_mb")
    multiprocessor_count = _field("multiprocessor_count")
    shared_copy_engine_count = _field("shared_copy_engine_count")
    shared_decoder_count = _field("shared_decoder_count")
    shared_encoder_count = _field("shared_encoder_count")
    shared_jpeg_count = _field("shared_jpeg_count")
    shared_ofa_count = _field("shared_ofa_count")


class ProcessInfo(_Record):
    """A process that uses the GPU."""

    __slots__ = ()

    def __init__(self, device: Any, process_info: Any) -> None:
        super().__init__(process_info)

    pid = _field("pid")
    used_gpu_memory = _field("used_gpu_memory")
    gpu_instance_id = _field("gpu_instance_id")
    compute_instance_id = _field("compute_instance_id")


class RepairStatus(_Record):
    """Repairs that wait for a reset."""

    __slots__ = ()

    def __init__(self, handle: int) -> None:
        super().__init__(initialized().device_get_repair_status(handle))

    channel_repair_pending = property(lambda self: bool(self._raw.b_channel_repair_pending))
    tpc_repair_pending = property(lambda self: bool(self._raw.b_tpc_repair_pending))


class CoolerInfo(_Record):
    """How a cooler is controlled, and what it cools."""

    __slots__ = ()

    @property
    def signal_type(self) -> CoolerControl:
        return member_of(CoolerControl, int(self._raw.signal_type))

    @property
    def target(self) -> CoolerTarget:
        return member_of(CoolerTarget, int(self._raw.target))


class ClockOffsets(_Record):
    """How far a clock is, and can be, moved, in MHz."""

    __slots__ = ()
    clock_offset_mhz = _field("clock_offset_m_hz")
    max_offset_mhz = _field("max_clock_offset_m_hz")
    min_offset_mhz = _field("min_clock_offset_m_hz")


class ThermalSensor(_Record):
    """One sensor."""

    __slots__ = ()
    current_temp = _field("current_temp")
    default_max_temp = _field("default_max_temp")
    default_min_temp = _field("default_min_temp")

    def __init__(self, ptr: Any, owner: object = None) -> None:
        super().__init__(ptr)

    @property
    def controller(self) -> ThermalController:
        return member_of(ThermalController, int(self._raw.controller))

    @property
    def target(self) -> ThermalTarget:
        return member_of(ThermalTarget, int(self._raw.target))


class _List(_Record):
    __slots__ = ()

    def _items(self) -> list[Any]:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self._items())

    def __getitem__(self, index: Any) -> Any:
        return self._items()[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items())


class ThermalSettings(_List):
    """The sensors of a target."""

    __slots__ = ()

    def _items(self) -> list[ThermalSensor]:
        sensors = self._raw.sensor
        return [ThermalSensor(sensors[i], self) for i in range(self._raw.count)]


class GpuDynamicPstatesUtilization(_Record):
    """How busy one part of the GPU is."""

    __slots__ = ()

    def __init__(self, ptr: Any, owner: object = None) -> None:
        super().__init__(ptr)

    is_present = property(lambda self: bool(self._raw.b_is_present))
    percentage = _field("percentage")
    inc_threshold = _field("inc_threshold")
    dec_threshold = _field("dec_threshold")


class GpuDynamicPstatesInfo(_List):
    """How busy the parts of the GPU are."""

    __slots__ = ()

    def _items(self) -> list[GpuDynamicPstatesUtilization]:
        raw = self._raw.utilization
        return [GpuDynamicPstatesUtilization(raw[i], self) for i in range(len(raw))]


class FieldValue(_Record):
    """The answer to one of NVML's field queries."""

    __slots__ = ()
    field_id = _field("field_id")
    scope_id = _field("scope_id")
    timestamp = _field("timestamp")
    latency_usec = _field("latency_usec")

    @property
    def value(self) -> int | float:
        """Raises where NVML could not answer."""
        initialized().check_status(int(self._raw.nvml_return))
        value = self._raw.value
        names = ("d_val", "ui_val", "ul_val", "ull_val", "sll_val", "si_val", "us_val")
        kind = int(self._raw.value_type)
        return getattr(value, names[kind]) if kind < len(names) and hasattr(value, names[kind]) else value


class FieldValues(_List):
    """The answers to several field queries."""

    __slots__ = ()

    def _items(self) -> list[FieldValue]:
        return [FieldValue(self._raw[i]) for i in range(len(self._raw))]

    def get_all_values(self) -> list[int | float]:
        """All values; raises where NVML could not answer."""
        return [item.value for item in self._items()]

    def validate(self) -> None:
        """Raise the first error among the answers."""
        for item in self._items():
            initialized().check_status(int(item._raw.nvml_return))


class _Live:
    """A part of a device that asks NVML when looked at."""

    __slots__ = ("_handle",)

    def __init__(self, handle: int) -> None:
        self._handle = handle


class PciInfo(_Live):
    """The device on the PCI bus."""

    __slots__ = ("_raw",)

    def __init__(self, pci_info_ext: Any, handle: int) -> None:
        super().__init__(handle)
        self._raw = pci_info_ext

    bus = _field("bus")
    bus_id = _field("bus_id")
    device = _field("device_")
    device_id = property(lambda self: self._raw.pci_device_id >> 16)
    vendor_id = property(lambda self: self._raw.pci_device_id & 0xFFFF)
    domain = _field("domain")
    subsystem_id = _field("pci_sub_system_id")
    base_class = _field("base_class")
    sub_class = _field("sub_class")
    max_link_generation = property(lambda self: initialized().device_get_max_pcie_link_generation(self._handle))
    link_generation = property(lambda self: initialized().device_get_gpu_max_pcie_link_generation(self._handle))
    max_link_width = property(lambda self: initialized().device_get_max_pcie_link_width(self._handle))
    current_link_generation = property(lambda self: initialized().device_get_curr_pcie_link_generation(self._handle))
    current_link_width = property(lambda self: initialized().device_get_curr_pcie_link_width(self._handle))
    replay_counter = property(lambda self: initialized().device_get_pcie_replay_counter(self._handle))
    tx_throughput = property(lambda self: initialized().device_get_pcie_throughput(self._handle, 0))
    rx_throughput = property(lambda self: initialized().device_get_pcie_throughput(self._handle, 1))


class ClockInfo(_Live):
    """A clock of the device, in MHz."""

    __slots__ = ("_type",)

    def __init__(self, handle: int, clock_type: ClockType | str) -> None:
        super().__init__(handle)
        self._type = number_of(ClockType, clock_type)

    def get_current_mhz(self, clock_id: ClockId | str = ClockId.CURRENT) -> int:
        return initialized().device_get_clock(self._handle, self._type, number_of(ClockId, clock_id))

    def get_max_mhz(self) -> int:
        return initialized().device_get_max_clock_info(self._handle, self._type)

    def get_max_customer_boost_mhz(self) -> int:
        return initialized().device_get_max_customer_boost_clock(self._handle, self._type)

    def get_min_max_clock_of_pstate_mhz(self, pstate: int) -> tuple[int, int]:
        low, high = initialized().device_get_min_max_clock_of_p_state(self._handle, self._type, pstate)
        return low, high

    def get_offsets(self, pstate: int) -> ClockOffsets:
        return ClockOffsets(initialized().device_get_clock_offsets(self._handle, self._type, pstate))


class FanInfo(_Live):
    """A fan of the device."""

    __slots__ = ("_fan",)

    def __init__(self, handle: int, fan: int) -> None:
        super().__init__(handle)
        self._fan = fan

    @property
    def speed(self) -> int:
        """Per cent of the highest; can be set."""
        return initialized().device_get_fan_speed_v2(self._handle, self._fan)

    @speed.setter
    def speed(self, value: int) -> None:
        initialized().device_set_fan_speed_v2(self._handle, self._fan, value)

    @property
    def speed_rpm(self) -> int:
        return initialized().device_get_fan_speed_rpm(self._handle, self._fan)

    @property
    def target_speed(self) -> int:
        return initialized().device_get_target_fan_speed(self._handle, self._fan)

    @property
    def min_max_speed(self) -> tuple[int, int]:
        low, high = initialized().device_get_min_max_fan_speed(self._handle)
        return low, high

    @property
    def control_policy(self) -> FanControlPolicy:
        return member_of(FanControlPolicy, int(initialized().device_get_fan_control_policy_v2(self._handle, self._fan)))

    def set_default_speed(self) -> None:
        initialized().device_set_default_fan_speed_v2(self._handle, self._fan)


class Temperature(_Live):
    """The device's temperatures in degrees Celsius."""

    __slots__ = ()

    def get_sensor(self) -> int:
        return initialized().device_get_temperature_v(self._handle, 0)

    def get_threshold(self, threshold_type: TemperatureThresholds | str) -> int:
        number = number_of(TemperatureThresholds, threshold_type)
        return initialized().device_get_temperature_threshold(self._handle, number)

    def get_thermal_settings(self, sensor_index: ThermalTarget | str) -> ThermalSettings:
        number = number_of(ThermalTarget, sensor_index)
        return ThermalSettings(initialized().device_get_thermal_settings(self._handle, number))

    @property
    def margin(self) -> int:
        """How far it is from slowing down."""
        return initialized().device_get_margin_temperature(self._handle)


class InforomInfo:
    """The device's own record of itself."""

    __slots__ = ("_device",)

    def __init__(self, device: Any) -> None:
        self._device = device

    @property
    def image_version(self) -> str:
        return initialized().device_get_inforom_image_version(self._device._handle)

    @property
    def configuration_checksum(self) -> int:
        return initialized().device_get_inforom_configuration_checksum(self._device._handle)

    @property
    def board_part_number(self) -> str:
        return initialized().device_get_board_part_number(self._device._handle)

    @property
    def bbx_flush_time(self) -> Any:
        return initialized().device_get_last_bbx_flush_time(self._device._handle)

    def get_version(self, inforom: InforomObject | str) -> str:
        return initialized().device_get_inforom_version(self._device._handle, number_of(InforomObject, inforom))

    def validate(self) -> None:
        """Raise where the record is corrupt."""
        initialized().device_validate_inforom(self._device._handle)


class MigInfo:
    """How a GPU is divided into MIG devices."""

    __slots__ = ("_device",)

    def __init__(self, device: Any) -> None:
        self._device = device

    @property
    def is_mig_device(self) -> bool:
        return bool(initialized().device_is_mig_device_handle(self._device._handle))

    @property
    def mode(self) -> bool:
        """True when the GPU can be divided; can be set, for after a reset."""
        return bool(initialized().device_get_mig_mode(self._device._handle)[0])

    @mode.setter
    def mode(self, value: bool) -> None:
        initialized().device_set_mig_mode(self._device._handle, int(bool(value)))

    @property
    def pending_mode(self) -> bool:
        return bool(initialized().device_get_mig_mode(self._device._handle)[1])

    @property
    def device_count(self) -> int:
        return initialized().device_get_max_mig_device_count(self._device._handle)

    @property
    def parent(self) -> Any:
        """The GPU a MIG device is part of."""
        handle = initialized().device_get_device_handle_from_mig_device_handle(self._device._handle)
        return type(self._device)._of_handle(handle)

    def get_device_by_index(self, index: int) -> Any:
        handle = initialized().device_get_mig_device_handle_by_index(self._device._handle, index)
        return type(self._device)._of_handle(handle)

    def get_all_devices(self) -> Iterable[Any]:
        """The MIG devices there are."""
        nvml = initialized()
        for index in range(self.device_count):
            try:
                yield self.get_device_by_index(index)
            except nvml.NotFoundError:
                continue


class _NvlinkInfo(_Live):
    __slots__ = ("_link",)

    def __init__(self, handle: int, link: int) -> None:
        super().__init__(handle)
        self._link = link


class NvlinkInfo(_NvlinkInfo):
    """One NVLink of the device."""

    __slots__ = ()

    @property
    def state(self) -> bool:
        """True when the link is up."""
        return bool(initialized().device_get_nvlink_state(self._handle, self._link))

    @property
    def version(self) -> Any:
        return initialized().device_get_nvlink_version(self._handle, self._link)
