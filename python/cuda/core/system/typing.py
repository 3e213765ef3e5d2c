# SPDX-License-Identifier: Apache-2.0
"""Types for annotations of cuda.core.system: string enums."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from .._strenum import StrEnum

if TYPE_CHECKING:
    from cuda.bindings.nvml import DeviceArch, FieldId

T = TypeVar("T", bound=StrEnum)

__all__ = [
    "AddressingMode",
    "AffinityScope",
    "ClockId",
    "ClockType",
    "ClocksEventReasons",
    "CoolerControl",
    "CoolerTarget",
    "DeviceArch",
    "EventType",
    "FanControlPolicy",
    "FieldId",
    "GpuP2PCapsIndex",
    "GpuP2PStatus",
    "GpuTopologyLevel",
    "InforomObject",
    "SystemEventType",
    "TemperatureThresholds",
    "ThermalController",
    "ThermalTarget",
]


class AddressingMode(StrEnum):
    """The addressing mode of a GPU for host memory."""

    HMM = "hmm"
    ATS = "ats"


class AffinityScope(StrEnum):
    """The scope of an affinity query."""

    NODE = "node"
    SOCKET = "socket"


class ClockId(StrEnum):
    """The kind of clock value to query."""

    CURRENT = "current"
    CUSTOMER_BOOST_MAX = "customer_boost_max"


class ClockType(StrEnum):
    """A clock domain."""

    GRAPHICS = "graphics"
    SM = "sm"
    MEMORY = "memory"
    VIDEO = "video"


class ClocksEventReasons(StrEnum):
    """A reason why clocks are below their maximum."""

    NONE = "none"
    GPU_IDLE = "gpu_idle"
    APPLICATIONS_CLOCKS_SETTING = "applications_clocks_setting"
    SW_POWER_CAP = "sw_power_cap"
    HW_SLOWDOWN = "hw_slowdown"
    SYNC_BOOST = "sync_boost"
    SW_THERMAL_SLOWDOWN = "sw_thermal_slowdown"
    HW_THERMAL_SLOWDOWN = "hw_thermal_slowdown"
    HW_POWER_BRAKE_SLOWDOWN = "hw_power_brake_slowdown"
    DISPLAY_CLOCK_SETTING = "display_clock_setting"
    BOARD_LIMIT = "board_limit"
    RELIABILITY = "reliability"


class CoolerControl(StrEnum):
    """The control signal of a cooler."""

    TOGGLE = "toggle"
    VARIABLE = "variable"


class CoolerTarget(StrEnum):
    """The component that a cooler cools."""

    NONE = "none"
    GPU = "gpu"
    MEMORY = "memory"
    POWER_SUPPLY = "power_supply"


class EventType(StrEnum):
    """The type of a device event."""

    NONE = "none"
    SINGLE_BIT_ECC_ERROR = "single_bit_ecc_error"
    DOUBLE_BIT_ECC_ERROR = "double_bit_ecc_error"
    PSTATE = "pstate"
    XID_CRITICAL_ERROR = "xid_critical_error"
    CLOCK = "clock"
    POWER_SOURCE_CHANGE = "power_source_change"
    MIG_CONFIG_CHANGE = "mig_config_change"
    SINGLE_BIT_ECC_ERROR_STORM = "single_bit_ecc_error_storm"
    DRAM_RETIREMENT_EVENT = "dram_retirement_event"
    DRAM_RETIREMENT_FAILURE = "dram_retirement_failure"
    NON_FATAL_POISON_ERROR = "non_fatal_poison_error"
    FATAL_POISON_ERROR = "fatal_poison_error"
    GPU_UNAVAILABLE_ERROR = "gpu_unavailable_error"
    GPU_RECOVERY_ACTION = "gpu_recovery_action"


class FanControlPolicy(StrEnum):
    """The control policy of a fan."""

    TEMPERATURE_CONTROLLED = "temperature_controlled"
    MANUAL = "manual"


class GpuP2PCapsIndex(StrEnum):
    """A peer-to-peer capability between two GPUs."""

    READ = "read"
    WRITE = "write"
    NVLINK = "nvlink"
    ATOMICS = "atomics"
    PROP = "prop"
    PCI = "pci"
    UNKNOWN = "unknown"


class GpuP2PStatus(StrEnum):
    """The status of a peer-to-peer capability: supported, or the reason why not."""

    OK = "ok"
    CHIPSET_NOT_SUPPORTED = "chipset not supported"
    GPU_NOT_SUPPORTED = "GPU not supported"
    IOH_TOPOLOGY_NOT_SUPPORTED = "IOH topology not supported"
    DISABLED_BY_REGKEY = "disabled by regkey"
    NOT_SUPPORTED = "not supported"
    UNKNOWN = "unknown"


class GpuTopologyLevel(StrEnum):
    """The level of the common ancestor of two GPUs in the system's topology."""

    INTERNAL = "internal"
    SINGLE = "single"
    MULTIPLE = "multiple"
    HOSTBRIDGE = "hostbridge"
    NODE = "node"
    SYSTEM = "system"


class InforomObject(StrEnum):
    """An object of the InfoROM."""

    OEM = "oem"
    ECC = "ecc"
    POWER = "power"
    DEN = "den"


class SystemEventType(StrEnum):
    """The type of a system event."""

    UNBIND = "unbind"
    BIND = "bind"


class TemperatureThresholds(StrEnum):
    """A temperature threshold."""

    SHUTDOWN = "shutdown"
    SLOWDOWN = "slowdown"
    MEM_MAX = "mem_max"
    GPU_MAX = "gpu_max"
    ACOUSTIC_MIN = "acoustic_min"
    ACOUSTIC_CURR = "acoustic_curr"
    ACOUSTIC_MAX = "acoustic_max"
    GPS_CURR = "gps_curr"


class ThermalController(StrEnum):
    """The controller of a thermal sensor."""

    UNKNOWN = "unknown"
    GPU_INTERNAL = "gpu_internal"
    ADM1032 = "adm1032"
    ADT7461 = "adt7461"
    MAX6649 = "max6649"
    MAX1617 = "max1617"
    LM99 = "lm99"
    LM89 = "lm89"
    LM64 = "lm64"
    G781 = "g781"
    ADT7473 = "adt7473"
    SBMAX6649 = "sbmax6649"
    VBIOSEVT = "vbiosevt"
    OS = "os"
    NVSYSCON_CANOAS = "nvsyscon_canoas"
    NVSYSCON_E551 = "nvsyscon_e551"
    MAX6649R = "max6649r"
    ADT7473S = "adt7473s"


class ThermalTarget(StrEnum):
    """The component whose temperature a sensor measures."""

    NONE = "none"
    GPU = "gpu"
    MEMORY = "memory"
    POWER_SUPPLY = "power_supply"
    BOARD = "board"
    VCD_BOARD = "vcd_board"
    VCD_INLET = "vcd_inlet"
    VCD_OUTLET = "vcd_outlet"
    ALL = "all"


# Values of NVML's enums.
_NUMBERS: dict[type[StrEnum], dict[Any, int]] = {
    AddressingMode: dict(zip(AddressingMode, (1, 2), strict=True)),
    AffinityScope: dict(zip(AffinityScope, (0, 1), strict=True)),
    ClockId: dict(zip(ClockId, (0, 3), strict=True)),
    ClockType: dict(zip(ClockType, (0, 1, 2, 3), strict=True)),
    ClocksEventReasons: dict(zip(ClocksEventReasons, (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024), strict=True)),
    CoolerControl: dict(zip(CoolerControl, (1, 2), strict=True)),
    CoolerTarget: dict(zip(CoolerTarget, (1, 2, 4, 8), strict=True)),
    EventType: dict(
        zip(EventType, (0, 1, 2, 4, 8, 16, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768), strict=True)
    ),
    FanControlPolicy: dict(zip(FanControlPolicy, (0, 1), strict=True)),
    GpuP2PCapsIndex: dict(zip(GpuP2PCapsIndex, (0, 1, 2, 3, 4, 4, 5), strict=True)),
    GpuP2PStatus: dict(zip(GpuP2PStatus, (0, 1, 2, 3, 4, 5, 6), strict=True)),
    GpuTopologyLevel: dict(zip(GpuTopologyLevel, (0, 10, 20, 30, 40, 50), strict=True)),
    InforomObject: dict(zip(InforomObject, (0, 1, 2, 3), strict=True)),
    SystemEventType: dict(zip(SystemEventType, (1, 2), strict=True)),
    TemperatureThresholds: dict(zip(TemperatureThresholds, (0, 1, 2, 3, 4, 5, 6, 7), strict=True)),
    ThermalController: dict(
        zip(ThermalController, (-1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17), strict=True)
    ),
    ThermalTarget: dict(zip(ThermalTarget, (0, 1, 2, 4, 8, 9, 10, 11, 15), strict=True)),
}


def number_of(cls: Any, member: Any) -> int:
    """Converts a member or its string to the value of NVML's enum."""
    try:
        return _NUMBERS[cls][cls(member)]
    except ValueError:
        known = ", ".join(repr(m.value) for m in cls)
        raise ValueError(f"{member!r} is not a {cls.__name__}: use one of {known}") from None


def member_of(cls: type[T], number: int) -> T:
    """Converts a value of NVML's enum to a member. Returns the number itself if there is no member for it."""
    found: Any = getattr(cls, "UNKNOWN", number)
    for member, value in _NUMBERS[cls].items():
        if value == number:
            found = member
            break
    answer: T = found
    return answer


def members_of(cls: Any, mask: int) -> list[Any]:
    """Returns the members whose bits are set in ``mask``."""
    return [member for member, value in _NUMBERS[cls].items() if value and mask & value == value]


def __getattr__(name: str) -> Any:
    if name in ("DeviceArch", "FieldId"):  # enums of cuda.bindings.nvml
        from cuda.bindings import nvml

        value = getattr(nvml, name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
