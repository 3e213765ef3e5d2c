# SPDX-License-Identifier: Apache-2.0
"""cuda.core.system: versions and devices, with NVML and without."""

import contextlib

import pytest
from cuda.bindings import nvml
from cuda.core import Device, system
from cuda.core.system.typing import ClocksEventReasons, ClockType, GpuP2PCapsIndex, member_of, members_of, number_of


def test_versions_and_device_counts_are_consistent():
    major, minor = system.get_user_mode_driver_version()
    assert major >= 12 and minor >= 0 and system.driver_version == (major, minor)
    assert system.get_num_devices() >= len(Device.get_all_devices()) > 0


def test_device_converts_to_system_device_and_back(device):
    other = device.to_system_device()
    assert isinstance(other, system.Device)
    assert other.name and other.uuid_without_prefix.lower() == device.uuid
    assert other.to_cuda_device() == device
    assert tuple(other.cuda_compute_capability) == tuple(device.compute_capability)
    assert other.memory_info.total > 0
    assert system.Device(uuid=other.uuid).uuid == other.uuid
    with pytest.raises(ValueError, match="one of"):
        system.Device()


def test_enum_names_convert_to_numbers_and_back():
    assert number_of(ClockType, "sm") == 1 and number_of(ClockType, ClockType.MEMORY) == 2
    assert member_of(ClockType, 3) is ClockType.VIDEO
    assert members_of(ClocksEventReasons, 5) == [ClocksEventReasons.GPU_IDLE, ClocksEventReasons.SW_POWER_CAP]
    assert number_of(GpuP2PCapsIndex, "nvlink") == 2
    with pytest.raises(ValueError, match="'graphics'"):
        number_of(ClockType, "grandfather")


@pytest.mark.gpu_only
def test_nvml_queries_return_values():
    device = next(iter(system.Device.get_all_devices()))
    assert system.get_nvml_version() and system.get_kernel_mode_driver_version()
    assert device.utilization.gpu <= 100 and device.memory_info.used <= device.memory_info.total
    assert device.pci_info.bus_id and device.get_clock("sm").get_max_mhz() > 0
    assert device.temperature.get_sensor() > 0 and device.performance_state >= 0
    assert device.get_cpu_affinity()


def test_thresholds_of_old_gpus_are_deprecated():
    other = system.Device(0)
    if other.arch not in ("Ada", "Hopper", "Blackwell") and int(str(other.cuda_compute_capability[0])) < 9:
        pytest.skip("an older GPU")
    with pytest.warns(DeprecationWarning, match="TLIMIT"), contextlib.suppress(nvml.NvmlError):
        other.temperature.get_threshold("shutdown")  # the CPU device has none


def test_the_most_links_is_a_deprecated_constant():
    link = system.NvlinkInfo.__new__(system.NvlinkInfo)
    with pytest.warns(DeprecationWarning):
        assert link.max_links == nvml.NVLINK_MAX_LINKS
