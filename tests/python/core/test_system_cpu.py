# SPDX-License-Identifier: Apache-2.0
"""cuda.core.system and cuda.bindings.nvml with the NVML of the CPU device, which is consistent with its driver."""

import os
import subprocess
import sys

import pytest
from cuda.bindings import nvml
from cuda.core import Device, system

pytestmark = pytest.mark.cpu_only


@pytest.fixture(scope="module")
def other() -> system.Device:
    return system.Device(0)


def test_nvml_versions_of_the_cpu_device():
    assert system.get_nvml_version()[0] == 13
    assert system.get_kernel_mode_driver_version() >= (580,)  # programs gate on the branch
    assert system.get_driver_branch() == "cucore"
    assert nvml.system_get_cuda_driver_version_v2() == 13040


def test_nvml_device_equals_the_drivers(other, device):
    cuda = other.to_cuda_device()
    assert (other.index, other.name) == (0, cuda.name)
    assert other.pci_bus_id.upper().endswith(cuda.pci_bus_id.upper())
    assert system.Device(pci_bus_id=cuda.pci_bus_id).uuid == other.uuid
    assert other.memory_info.total == device.total_memory
    assert other.get_clock("sm").get_current_mhz() * 1000 == device.properties.clock_rate
    assert other.is_persistence_mode_enabled and not other.is_display_active
    assert other.num_fans == 0 and other.performance_state == 0 and 0 in other.supported_pstates
    assert list(other.get_topology_nearest_gpus("system")) == []
    assert set(other.get_cpu_affinity()) == os.sched_getaffinity(0)


def test_memory_and_processes_are_counted(other, device):
    def mine():  # other processes start and end during the test
        return [p.used_gpu_memory for p in other.compute_running_processes if p.pid == os.getpid()]

    device.set_current()
    device.allocate(4096).close()
    before = mine()
    buffer = device.allocate(64 << 20)
    device.sync()
    now = other.memory_info
    assert now.used >= 64 << 20 and now.used + now.free == now.total
    assert len(before) == 1 and len(mine()) == 1 and mine()[0] >= before[0] + (64 << 20)
    assert os.path.basename(system.get_process_name(os.getpid())).startswith("python")
    assert 0 <= other.utilization.gpu <= 100
    buffer.close()


def test_other_process_is_listed_until_it_exits(other):
    program = """
import sys
from cuda.core import Device
d = Device(); d.set_current()
b = d.allocate(32 << 20); d.sync()
print("ready", flush=True)
sys.stdin.readline()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None and child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        found = {p.pid: p.used_gpu_memory for p in other.compute_running_processes}
        assert found[child.pid] >= 32 << 20
        child.stdin.write("\n")
        child.stdin.flush()
        child.wait()
    assert child.pid not in {p.pid for p in other.compute_running_processes}  # an ended process is not listed


def test_unsupported_query_raises_not_supported(other):
    with pytest.raises(nvml.NotSupportedError):
        _ = other.serial
    with pytest.raises(nvml.NotSupportedError):
        nvml.device_get_power_usage(nvml.device_get_handle_by_index_v2(0))
    with pytest.raises(nvml.InvalidArgumentError):
        nvml.device_get_handle_by_index_v2(99)
    with pytest.raises(nvml.NotFoundError):
        nvml.device_get_handle_by_uuid("GPU-00000000-0000-0000-0000-000000000000")


def test_settings_that_it_has_not_are_refused_as_to_a_user(other):
    handle = nvml.device_get_handle_by_index_v2(0)
    assert nvml.device_get_virtualization_mode(handle) == nvml.GpuVirtualizationMode.NONE
    assert nvml.device_get_capabilities(handle) == 0
    licenses = nvml.device_get_grid_licensable_features_v4(handle)
    assert not licenses.is_grid_license_supported and len(licenses.grid_licensable_features) == 0
    nvml.device_set_compute_mode(handle, nvml.ComputeMode.COMPUTEMODE_DEFAULT)
    nvml.device_set_persistence_mode(handle, 1)
    with pytest.raises(nvml.NoPermissionError):
        nvml.device_set_compute_mode(handle, nvml.ComputeMode.COMPUTEMODE_PROHIBITED)
    with pytest.raises(nvml.NoPermissionError):
        nvml.device_set_persistence_mode(handle, 0)


def test_no_event_ever_comes(other):
    made = nvml.event_set_create()
    handle = nvml.device_get_handle_by_index_v2(0)
    nvml.device_register_events(handle, nvml.device_get_supported_event_types(handle), made)
    with pytest.raises(nvml.NotSupportedError):
        nvml.device_register_events(handle, 1, made)
    with pytest.raises(nvml.TimeoutError):
        nvml.event_set_wait_v2(made, 1)
    nvml.event_set_free(made)


def test_the_brand_is_text_and_processes_have_no_instances(other):
    assert other.brand == "Unknown"
    device = Device(0)
    device.set_current()
    buffer = device.allocate(1 << 20)
    mine = next(p for p in other.compute_running_processes if p.pid == os.getpid())
    for name in ("gpu_instance_id", "compute_instance_id"):
        with pytest.raises(nvml.NotSupportedError):
            getattr(mine, name)
    buffer.close()


def test_devices_are_counted_before_cuda_visible_devices():
    program = "from cuda.core import Device, system; print(system.get_num_devices(), len(Device.get_all_devices()))"
    environment = {**os.environ, "CUCORE_CPU_DEVICES": "4", "CUDA_VISIBLE_DEVICES": "2"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.stdout == "4 1\n", done.stderr


def test_nvml_of_the_cpu_device_is_found_by_soname():
    program = (
        "import ctypes; n = ctypes.CDLL('libnvidia-ml.so.1'); c = ctypes.c_uint();"
        "assert n.nvmlDeviceGetCount_v2(ctypes.byref(c)) == 1; n.nvmlInit_v2();"
        "n.nvmlDeviceGetCount_v2(ctypes.byref(c)); print(c.value)"
    )
    command = [sys.executable, "-m", "cucore", "run", "--cpu", "--devices", "3", sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "3\n", done.stderr


def test_system_device_converts_back_to_the_same_device(device):
    assert device.to_system_device().to_cuda_device() == device == Device(0)
