# SPDX-License-Identifier: Apache-2.0
"""NVML queries, with the CPU device's library or NVIDIA's: every query returns a value or a documented error."""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Iterator

import pytest
from cuda.bindings import nvml

# Errors that a query may return instead of a value if the machine lacks the feature.
ABSENT = (
    nvml.NotSupportedError, nvml.NotFoundError, nvml.NoPermissionError, nvml.InvalidArgumentError, nvml.FunctionNotFoundError,
    nvml.ArgumentVersionMismatchError, nvml.NoDataError, nvml.InvalidStateError, nvml.UnknownError, nvml.InsufficientSizeError,
    nvml.GpuNotFoundError, nvml.DeprecatedError,
)  # fmt: skip
# "get" functions that wait or collect data for a long time.
SLOW = {"device_perf_metrics_get_samples_v1", "device_get_nv_link_telemetry_samples_v1"}


@pytest.fixture(scope="module")
def device() -> Iterator[int]:
    try:
        nvml.init_with_flags(0)
    except (RuntimeError, nvml.NvmlError) as error:
        pytest.skip(str(error).splitlines()[0])
    yield nvml.device_get_handle_by_index_v2(0)
    nvml.shutdown()


def queries(signature: str) -> list[str]:
    made = ((name, getattr(nvml, name)) for name in nvml.__all__ if "_get_" in name and name not in SLOW)
    return [name for name, f in made if inspect.isbuiltin(f) and str(inspect.signature(f)) == signature]


@pytest.mark.parametrize("name", queries("(device)"))
def test_device_query_returns_a_value_or_a_reason(device: int, name: str) -> None:
    try:
        value = getattr(nvml, name)(device)
    except ABSENT:
        return
    except RuntimeError as error:
        assert "not found" in str(error)  # an older library
        return
    assert value is not None


@pytest.mark.parametrize("name", queries("()"))
def test_system_query_returns_a_value_or_a_reason(device: int, name: str) -> None:
    try:
        value = getattr(nvml, name)()
    except ABSENT:
        return
    except RuntimeError as error:
        assert "not found" in str(error)
        return
    assert value is not None


def test_device_is_found_by_each_of_its_identifiers(device: int) -> None:
    assert nvml.device_get_index(device) == 0 and nvml.device_get_minor_number(device) >= 0
    place = nvml.device_get_pci_info_v3(device)
    assert nvml.device_get_handle_by_pci_bus_id_v2(place.bus_id) == device
    assert nvml.device_get_handle_by_uuid(nvml.device_get_uuid(device)) == device
    assert nvml.device_on_same_board(device, device) in (0, 1)
    with pytest.raises(nvml.NvmlError):
        nvml.device_get_handle_by_uuid("GPU-none")
    with pytest.raises(nvml.NvmlError):
        nvml.device_get_handle_by_serial("no such serial")


def test_device_values_are_consistent(device: int) -> None:
    assert nvml.device_get_cuda_compute_capability(device)[0] >= 7
    memory = nvml.device_get_memory_info_v2(device)
    assert 0 < memory.used + memory.free <= memory.total
    bar = nvml.device_get_bar1_memory_info(device)
    assert 0 <= bar.bar1_used <= bar.bar1_total
    rates = nvml.device_get_utilization_rates(device)
    assert 0 <= rates.gpu <= 100 and 0 <= rates.memory <= 100
    assert nvml.device_get_num_gpu_cores(device) > 0 and nvml.device_get_memory_bus_width(device) > 0
    assert nvml.device_get_compute_mode(device) in [int(mode) for mode in nvml.ComputeMode]
    assert 0 <= nvml.device_get_performance_state(device) <= 32


def test_running_processes_are_listed(device: int) -> None:
    processes = nvml.device_get_compute_running_processes_v3(device)
    assert all(pid > 0 for pid in (p.pid for p in processes))
    with contextlib.suppress(*ABSENT):
        assert nvml.system_get_process_name(os.getpid())


def test_system_versions_are_consistent(device: int) -> None:
    assert nvml.system_get_cuda_driver_version() == nvml.system_get_cuda_driver_version_v2() >= 12000
    assert nvml.system_get_driver_version() and nvml.system_get_nvml_version()
    assert "success" in nvml.error_string(0).lower()
    assert nvml.unit_get_count() >= 0


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("device_get_clock_info", (0,)), ("device_get_max_clock_info", (0,)), ("device_get_temperature_threshold", (0,)),
        ("device_get_pcie_throughput", (0,)), ("device_get_total_ecc_errors", (0, 0)), ("device_get_nvlink_state", (0,)),
        ("device_get_nvlink_version", (0,)), ("device_get_mig_device_handle_by_index", (0,)), ("device_get_fan_speed_v2", (0,)),
        ("device_get_encoder_capacity", (0,)), ("device_get_api_restriction", (0,)), ("device_get_inforom_version", (0,)),
        ("device_get_gpu_instance_profile_info_v", (0,)), ("device_get_vgpu_capabilities", (0,)), ("device_get_clock", (0, 0)),
        ("device_get_thermal_settings", (0,)), ("device_get_accounting_stats", (1,)), ("device_get_memory_error_counter", (0, 0, 0)),
    ],
)  # fmt: skip
def test_query_with_an_enum_argument_returns_a_value_or_a_reason(
    device: int, name: str, arguments: tuple[int, ...]
) -> None:
    try:
        value = getattr(nvml, name)(device, *arguments)
    except ABSENT:
        value = 0
    assert value is not None


def test_event_set_wait_times_out(device: int) -> None:
    try:
        made = nvml.event_set_create()
    except nvml.NotSupportedError:
        pytest.skip("no events")
    try:
        nvml.device_register_events(device, 0, made)
        nvml.event_set_wait_v2(made, 1)
    except (nvml.TimeoutError, nvml.NotSupportedError, nvml.InvalidArgumentError):
        pass
    nvml.event_set_free(made)


def test_query_after_shutdown_raises_uninitialized(device: int) -> None:
    nvml.init_v2()  # reference counted: the module's own initialization remains
    nvml.shutdown()
    assert nvml.device_get_count_v2() >= 1
