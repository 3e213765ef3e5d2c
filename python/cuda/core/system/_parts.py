# SPDX-License-Identifier: Apache-2.0
"""Result types of cuda.core.system.Device: snapshots of NVML's structures, and objects that query NVML on access."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .._readonly import ReadOnly
from ._nvml import device_of, native
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
    """A snapshot: reads the members of a C++ structure."""

    __slots__ = ("_raw",)

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def __repr__(self) -> str:
        names = [n for n in dir(type(self)) if isinstance(getattr(type(self), n), (property, ReadOnly))]
        return f"{type(self).__name__}({', '.join(f'{n}={getattr(self, n)!r}' for n in names)})"


def _field(name: str, doc: str) -> ReadOnly[Any]:
    """Creates a property that reads a member of the C++ structure."""
    return ReadOnly(lambda self: getattr(self._raw, name), doc)


class MemoryInfo(_Record):
    """Sizes of device memory in bytes."""

    __slots__ = ()
    free = _field("free", "Unallocated memory in bytes.")
    total = _field("total", "All of it.")
    used = _field("used", "Bytes in use.")
    reserved = _field("reserved", "Memory reserved by the driver, in bytes.")


class BAR1MemoryInfo(MemoryInfo):
    """Sizes of BAR1 memory, which maps device memory for the host, in bytes."""

    __slots__ = ()


class Utilization(_Record):
    """Utilization of the GPU and of its memory, in percent of the sample period."""

    __slots__ = ()
    gpu = _field("gpu", "Percentage of the sample period in which a kernel was running.")
    memory = _field("memory", "Percentage of the sample period in which device memory was read or written.")


class DeviceAttributes(_Record):
    """The share of a GPU's resources that a MIG device has."""

    __slots__ = ()
    compute_instance_slice_count = _field("compute_instance_slice_count", "Number of slices of the compute instance.")
    gpu_instance_slice_count = _field("gpu_instance_slice_count", "Number of slices of the GPU instance.")
    memory_size_mb = _field("memory_size_mb", "Memory in MiB.")
    multiprocessor_count = _field("multiprocessor_count", "Number of multiprocessors.")
    shared_copy_engine_count = _field("shared_copy_engine_count", "Number of shared copy engines.")
    shared_decoder_count = _field("shared_decoder_count", "Number of shared video decoders.")
    shared_encoder_count = _field("shared_encoder_count", "Number of shared video encoders.")
    shared_jpeg_count = _field("shared_jpeg_count", "Number of shared JPEG decoders.")
    shared_ofa_count = _field("shared_ofa_count", "Number of shared optical flow accelerators.")


class ProcessInfo(_Record):
    """A process that uses the GPU."""

    __slots__ = ()

    def __init__(self, device: Any, process_info: Any) -> None:
        super().__init__(process_info)

    pid = _field("pid", "Process ID.")
    used_gpu_memory = _field("used_gpu_memory", "Device memory used by the process, in bytes.")

    gpu_instance_id = _field(
        "gpu_instance_id", "ID of the GPU instance (MIG). Raises NotSupportedError on other devices."
    )
    compute_instance_id = _field(
        "compute_instance_id", "ID of the compute instance (MIG). Raises NotSupportedError on other devices."
    )


class RepairStatus(_Record):
    """Repairs of memory channels and TPCs that are pending until the next reset."""

    __slots__ = ()

    def __init__(self, handle: int) -> None:
        super().__init__(device_of(handle).repair_status)

    channel_repair_pending = _field(
        "channel_repair_pending", "True if the repair of a memory channel is pending until a reset."
    )
    tpc_repair_pending = _field("tpc_repair_pending", "True if the repair of a TPC is pending until a reset.")


class CoolerInfo(_Record):
    """Control signal and target of a cooler."""

    __slots__ = ()

    @property
    def signal_type(self) -> CoolerControl:
        """The control signal of the cooler."""
        return member_of(CoolerControl, int(self._raw.signal_type))

    @property
    def target(self) -> CoolerTarget:
        """The component that the cooler cools."""
        return member_of(CoolerTarget, int(self._raw.target))


class ClockOffsets(_Record):
    """Current, minimum and maximum offset of a clock in MHz."""

    __slots__ = ()
    clock_offset_mhz = _field("clock_offset_mhz", "Current offset in MHz.")
    max_offset_mhz = _field("max_offset_mhz", "Maximum offset in MHz.")
    min_offset_mhz = _field("min_offset_mhz", "Minimum offset in MHz.")


class ThermalSensor(_Record):
    """A thermal sensor."""

    __slots__ = ()
    current_temp = _field("current_temp", "Current temperature in degrees Celsius.")
    default_max_temp = _field("default_max_temp", "Default maximum temperature in degrees Celsius.")
    default_min_temp = _field("default_min_temp", "Default minimum temperature in degrees Celsius.")

    def __init__(self, ptr: Any, owner: object = None) -> None:
        super().__init__(ptr)

    @property
    def controller(self) -> ThermalController:
        """The controller of the sensor."""
        return member_of(ThermalController, int(self._raw.controller))

    @property
    def target(self) -> ThermalTarget:
        """The component whose temperature the sensor measures."""
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
    """The thermal sensors of a target."""

    __slots__ = ()

    def _items(self) -> list[ThermalSensor]:
        return [ThermalSensor(raw, self) for raw in self._raw]


class GpuDynamicPstatesUtilization(_Record):
    """The utilization of one domain of the GPU."""

    __slots__ = ()

    def __init__(self, ptr: Any, owner: object = None) -> None:
        super().__init__(ptr)

    is_present = _field("is_present", "False if the GPU lacks this domain.")
    percentage = _field("percentage", "Utilization in percent.")
    inc_threshold = _field("inc_threshold", "Utilization in percent above which the clocks increase.")
    dec_threshold = _field("dec_threshold", "Utilization in percent below which the clocks decrease.")


class GpuDynamicPstatesInfo(_List):
    """The utilization of each domain of the GPU."""

    __slots__ = ()

    def _items(self) -> list[GpuDynamicPstatesUtilization]:
        return [GpuDynamicPstatesUtilization(raw, self) for raw in self._raw]


class FieldValue(_Record):
    """The result of an NVML field query."""

    __slots__ = ()
    field_id = _field("field_id", "ID of the field.")
    scope_id = _field("scope_id", "ID of the scope.")
    timestamp = _field("timestamp", "Time of the query in microseconds since 1970.")
    latency_usec = _field("latency_usec", "Duration of the query in microseconds.")

    value = _field("value", "Value of the field. Raises an NvmlError if the query failed.")


class FieldValues(_List):
    """The results of several NVML field queries."""

    __slots__ = ()

    def _items(self) -> list[FieldValue]:
        return [FieldValue(raw) for raw in self._raw]

    def get_all_values(self) -> list[int | float]:
        """Return all values. Raises the NVML error of the first query that failed."""
        return [item.value for item in self._items()]

    def validate(self) -> None:
        """Raise the NVML error of the first query that failed."""
        for item in self._items():
            item._raw.validate()


class _Live:
    """A part of a device that queries NVML on access."""

    __slots__ = ("_handle",)

    def __init__(self, handle: int) -> None:
        self._handle = handle


class PciInfo(_Live):
    """PCI attributes of a device."""

    __slots__ = ("_raw",)

    def __init__(self, pci_info_ext: Any, handle: int) -> None:
        super().__init__(handle)
        self._raw = pci_info_ext

    bus = _field("bus", "PCI bus number.")
    bus_id = _field("bus_id", "PCI address as domain:bus:device.function.")
    device = _field("device", "PCI device number.")
    device_id = _field("device_id", "PCI device ID, assigned by the vendor.")
    vendor_id = _field("vendor_id", "PCI vendor ID.")
    domain = _field("domain", "PCI domain number.")
    subsystem_id = _field("subsystem_id", "PCI subsystem vendor and device IDs.")
    base_class = _field("base_class", "PCI base class code.")
    sub_class = _field("sub_class", "PCI subclass code.")
    max_link_generation = _field("max_link_generation", "Maximum PCIe link generation of device and system.")
    link_generation = _field("link_generation", "Maximum PCIe link generation of the device.")
    max_link_width = _field("max_link_width", "Maximum PCIe link width of device and system, in lanes.")
    current_link_generation = _field("current_link_generation", "Current PCIe link generation.")
    current_link_width = _field("current_link_width", "Current PCIe link width in lanes.")
    replay_counter = _field("replay_counter", "PCIe replay counter.")
    tx_throughput = _field("tx_throughput", "Transmit throughput in KB/s, measured over 20 ms.")
    rx_throughput = _field("rx_throughput", "Receive throughput in KB/s, measured over 20 ms.")


class ClockInfo(_Live):
    """A clock domain of the device. All clocks are in MHz."""

    __slots__ = ("_native",)

    def __init__(self, handle: int, clock_type: ClockType | str) -> None:
        super().__init__(handle)
        self._native = device_of(handle).get_clock(number_of(ClockType, clock_type))

    def get_current_mhz(self, clock_id: ClockId | str = ClockId.CURRENT) -> int:
        """Return the current clock, or another one given by ``clock_id``."""
        return int(self._native.get_current_mhz(number_of(ClockId, clock_id)))

    def get_max_mhz(self) -> int:
        """Return the maximum clock."""
        return int(self._native.get_max_mhz())

    def get_max_customer_boost_mhz(self) -> int:
        """Return the maximum clock that a user can set (customer boost)."""
        return int(self._native.get_max_customer_boost_mhz())

    def get_min_max_clock_of_pstate_mhz(self, pstate: int) -> tuple[int, int]:
        """Return the (minimum, maximum) clock in a performance state."""
        low, high = self._native.get_min_max_clock_of_pstate_mhz(pstate)
        return low, high

    def get_offsets(self, pstate: int) -> ClockOffsets:
        """Return the clock offsets in a performance state."""
        return ClockOffsets(self._native.get_offsets(pstate))


class FanInfo(_Live):
    """A fan of the device."""

    __slots__ = ("_native",)

    def __init__(self, handle: int, fan: int) -> None:
        super().__init__(handle)
        self._native = device_of(handle).fan(fan)

    @property
    def speed(self) -> int:
        """The speed in percent of the maximum. Can be set."""
        return int(self._native.speed)

    @speed.setter
    def speed(self, value: int) -> None:
        self._native.set_speed(value)

    @property
    def speed_rpm(self) -> int:
        """The speed in revolutions per minute."""
        return int(self._native.speed_rpm)

    @property
    def target_speed(self) -> int:
        """The target speed in percent of the maximum."""
        return int(self._native.target_speed)

    @property
    def min_max_speed(self) -> tuple[int, int]:
        """The (minimum, maximum) speed that can be set, in percent."""
        low, high = self._native.min_max_speed
        return low, high

    @property
    def control_policy(self) -> FanControlPolicy:
        """The control policy of the fan."""
        return member_of(FanControlPolicy, self._native.control_policy)

    def set_default_speed(self) -> None:
        """Restore the automatic control of the speed."""
        self._native.set_default_speed()


class Temperature(_Live):
    """The device's temperatures in degrees Celsius."""

    __slots__ = ()

    def get_sensor(self) -> int:
        """Return the temperature of the GPU."""
        return int(device_of(self._handle).temperature.get_sensor())

    def get_threshold(self, threshold_type: TemperatureThresholds | str) -> int:
        """Return a temperature threshold."""
        number = number_of(TemperatureThresholds, threshold_type)
        temperature = device_of(self._handle).temperature
        if temperature.is_threshold_deprecated(number):
            import warnings

            warnings.warn(
                f"{TemperatureThresholds(threshold_type).value} thresholds are deprecated on Ada and later GPUs: "
                "ask Device.get_field_values() for the TEMPERATURE_..._TLIMIT fields",
                DeprecationWarning,
                stacklevel=2,
            )
        return int(temperature.get_threshold(number))

    def get_thermal_settings(self, sensor_index: ThermalTarget | str) -> ThermalSettings:
        """Return the thermal sensors of a target."""
        number = number_of(ThermalTarget, sensor_index)
        return ThermalSettings(device_of(self._handle).temperature.get_thermal_settings(number))

    @property
    def margin(self) -> int:
        """The margin to the temperature at which the GPU slows down."""
        return int(device_of(self._handle).temperature.margin)


class _Part:
    """A part of a device; ``_native`` is the C++ object."""

    __slots__ = ("_device", "_native")


def _look(name: str, doc: str) -> ReadOnly[Any]:
    """Creates a property that reads an attribute of the C++ object."""
    return ReadOnly(lambda self: getattr(self._native, name), doc)


class InforomInfo(_Part):
    """The InfoROM of a device: configuration stored on the board."""

    __slots__ = ()

    def __init__(self, device: Any) -> None:
        self._device = device
        self._native = device._native.inforom

    image_version = _look("image_version", "The version of the whole record.")
    configuration_checksum = _look("configuration_checksum", "The same for GPUs that are configured alike.")
    board_part_number = _look("board_part_number", "The board's part number.")
    bbx_flush_time = _look("bbx_flush_time", "When the black box was last written: a time stamp, and how long it took.")

    def get_version(self, inforom: InforomObject | str) -> str:
        """Return the version of an InfoROM object."""
        return str(self._native.get_version(number_of(InforomObject, inforom)))

    def validate(self) -> None:
        """Raise an NVML error if the InfoROM is corrupt."""
        self._native.validate()


class MigInfo(_Part):
    """The MIG (Multi-Instance GPU) configuration of a GPU."""

    __slots__ = ()

    def __init__(self, device: Any) -> None:
        self._device = device
        self._native = device._native.mig

    is_mig_device = _look("is_mig_device", "True for a part of a GPU.")
    pending_mode = _look("pending_mode", "What mode becomes after a reset.")
    device_count = _look("device_count", "The most MIG devices it can have.")

    @property
    def mode(self) -> bool:
        """True if MIG mode is enabled. Can be set; a change takes effect after a reset."""
        return bool(self._native.mode)

    @mode.setter
    def mode(self, value: bool) -> None:
        self._native.mode = bool(value)

    @property
    def parent(self) -> Any:
        """The GPU of a MIG device."""
        return type(self._device)._of_native(self._native.parent)

    def get_device_by_index(self, index: int) -> Any:
        """Return a MIG device by its index. Raises an NVML error if there is none."""
        return type(self._device)._of_native(self._native.get_device_by_index(index))

    def get_all_devices(self) -> Iterable[Any]:
        """Return all MIG devices of the GPU."""
        return map(type(self._device)._of_native, self._native.get_all_devices())


class _NvlinkInfo(_Live):
    __slots__ = ("_link",)

    def __init__(self, handle: int, link: int) -> None:
        super().__init__(handle)
        self._link = link


class NvlinkInfo(_NvlinkInfo):
    """An NVLink of a device."""

    __module__ = "cuda.core.system"
    __slots__ = ()

    @property
    def max_links(self) -> int:
        """The maximum number of links of any GPU. Deprecated: the constant grows with new GPUs."""
        import warnings

        warnings.warn("NvlinkInfo.max_links is deprecated", DeprecationWarning, stacklevel=2)
        return int(native._SystemNvlink.max_links)

    @property
    def state(self) -> bool:
        """True if the link is active."""
        return bool(device_of(self._handle).nvlink(self._link).state)

    @property
    def version(self) -> Any:
        """The NVLink version of the link."""
        return device_of(self._handle).nvlink(self._link).version
