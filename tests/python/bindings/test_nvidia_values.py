# SPDX-License-Identifier: Apache-2.0
"""Values as NVIDIA's bindings give them: unsigned wrappers, enums, structs, counts that are not shown, arrays of nothing."""

from __future__ import annotations

import ctypes
import gc
import pickle
import subprocess
import sys
from typing import Any

import pytest
from cuda.bindings import driver, nvfatbin, nvml, nvrtc, nvvm, runtime


@pytest.mark.parametrize("name", ["cuuint32_t", "VdpDevice", "GLenum", "GLuint", "CUlogicalEndpointId"])
def test_unsigned_wrappers_hold_32_bits_and_no_sign(name: str) -> None:
    cls = getattr(driver, name)
    assert int(cls(0xFFFFFFFF)) == 0xFFFFFFFF
    with pytest.raises(OverflowError):
        cls(-1)


@pytest.mark.parametrize("name", ["CUdevice", "EGLint"])
def test_signed_wrappers_refuse_what_would_wrap(name: str) -> None:
    with pytest.raises(OverflowError):
        getattr(driver, name)(1 << 31)


def test_on_off_settings_of_core_dumps_are_bools(context: Any, check: Any) -> None:
    setting = driver.CUcoredumpSettings.CU_COREDUMP_TRIGGER_HOST
    before = check(driver.cuCoredumpGetAttribute(setting))
    assert isinstance(before, bool)
    for value in (False, True):
        check(driver.cuCoredumpSetAttribute(setting, value))
        assert check(driver.cuCoredumpGetAttribute(setting)) is value
    check(driver.cuCoredumpSetAttribute(setting, before))


@pytest.mark.parametrize(
    ("module", "cls", "graph"),
    [
        (driver, "CUDA_CONDITIONAL_NODE_PARAMS", "CUgraph"),
        (runtime, "cudaConditionalNodeParams", "cudaGraph_t"),
    ],
)
def test_the_graphs_of_a_conditional_node_are_null_until_it_is_added(module: Any, cls: str, graph: str) -> None:
    params = getattr(module, cls)()
    assert params.phGraph_out == []
    params.size = 2
    assert [int(g) for g in params.phGraph_out] == [0, 0]
    assert all(isinstance(g, getattr(module, graph)) for g in params.phGraph_out)


def test_the_place_of_a_number_converts_to_an_address() -> None:
    params = driver.CUmemDecompressParams()
    assert int(params.dstActBytes) == 0
    number = ctypes.c_uint32()
    params.dstActBytes = ctypes.addressof(number)
    assert int(params.dstActBytes) == ctypes.addressof(number)


def test_an_array_set_through_a_second_wrapper_lives_with_the_struct() -> None:
    config = driver.CUlaunchConfig()
    other = driver.CUlaunchConfig(_ptr=config.getPtr())
    attribute = driver.CUlaunchAttribute()
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PRIORITY
    attribute.value.priority = 3
    other.attrs, other.numAttrs = [attribute], 1
    del other, attribute
    gc.collect()
    junk = [bytes(64) for _ in range(1000)]
    assert [(a.id, a.value.priority) for a in config.attrs] == [
        (driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PRIORITY, 3)
    ]
    del junk


def test_an_enum_is_called_with_one_value() -> None:
    assert driver.CUresult(0) is driver.CUresult.CUDA_SUCCESS
    with pytest.raises(TypeError):
        driver.CUresult(0, 1)


def test_enum_members_have_docstrings() -> None:
    text = driver.CUevent_flags.CU_EVENT_BLOCKING_SYNC.__doc__
    assert text == "CUevent_flags.CU_EVENT_BLOCKING_SYNC (1): blocking sync."
    assert "invalid value" in (runtime.cudaError_t.cudaErrorInvalidValue.__doc__ or "")
    assert "Also called" in (driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK.__doc__ or "")
    assert "CUevent_flags" in (driver.CUevent_flags.__doc__ or "")
    for module in (driver, runtime, nvrtc, nvml):
        for name in dir(module):
            enum = getattr(module, name)
            if isinstance(enum, type(driver.CUresult)):
                assert all(member.__doc__ for member in enum)
    again = pickle.loads(pickle.dumps(driver.CUevent_flags.CU_EVENT_DEFAULT))
    assert again is driver.CUevent_flags.CU_EVENT_DEFAULT


def test_an_older_driver_is_told_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
import warnings
from cuda.bindings import driver, utils
driver.cuDriverGetVersion = lambda: (driver.CUresult.CUDA_SUCCESS, 11000)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(3):
        utils.warn_if_cuda_major_version_mismatch()
print(len([w for w in caught if "CUDA 11" in str(w.message)]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "1"


def test_pointers_to_pointers_print_as_numbers() -> None:
    text = str(driver.CUDA_KERNEL_NODE_PARAMS())
    assert "kernelParams : 0\n" in text and "extra : 0\n" in text


# ---- NVML, nvFatbin, NVVM


def test_a_count_that_belongs_to_an_array_is_not_shown() -> None:
    status = nvml.ClkMonStatus()
    assert not hasattr(status, "clk_mon_list_size") and len(status.clk_mon_list) == 0
    faults = nvml.ClkMonFaultInfo(2)
    faults[0].clk_api_domain, faults[1].clk_api_domain = 5, 6
    status.clk_mon_list = faults
    assert len(status.clk_mon_list) == 2 and [f.clk_api_domain for f in status.clk_mon_list] == [5, 6]
    assert status.clk_mon_list.clk_api_domain == [5, 6]  # a column
    status.clk_mon_list = []
    assert len(status.clk_mon_list) == 0
    with pytest.raises(ValueError, match="at most 32"):
        status.clk_mon_list = nvml.ClkMonFaultInfo(33)
    assert "clk_mon_list_size" not in str(status)


def test_counted_bytes_have_the_length_in_use() -> None:
    certificate = nvml.ConfComputeGpuCertificate()
    assert certificate.cert_chain == b""
    certificate.cert_chain = b"chain"
    assert certificate.cert_chain == b"chain" and certificate.attestation_cert_chain == b""
    with pytest.raises(ValueError, match="4096"):
        certificate.cert_chain = bytes(4097)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("BridgeChipHierarchy", "bridge_chip_info"), ("GridLicensableFeatures", "grid_licensable_features"),
        ("NvlinkFirmwareInfo", "firmware_version"), ("NvlinkSupportedBwModes_v1", "bw_modes"),
        ("PerfMetricsSample", "controller_data"), ("PerfMetricsSamples_v1", "samples"),
        ("PwrModelMetricsDlppm1xDramclkEstimates", "estimated_metrics"), ("PwrModelMetricsPfpp1x", "estimated_metrics"),
        ("ConfComputeGpuAttestationReport", "attestation_report"), ("NvlinkNvlePrivateInfo_v1", "data_"),
    ],
)  # fmt: skip
def test_arrays_with_a_count_are_empty_when_fresh(name: str, array: str) -> None:
    assert len(getattr(getattr(nvml, name)(), array)) == 0


def test_arrays_of_records_may_be_empty_and_take_assignments() -> None:
    empty = nvml.FieldValue(0)
    assert len(empty) == 0 and list(empty) == [] and empty.field_id == []
    empty.field_id = 7  # nobody to assign it to
    with pytest.raises(IndexError):
        empty[0]
    values = nvml.FieldValue(3)
    one = nvml.FieldValue(1)
    one.field_id = 42
    values[1] = one
    values[-1] = one
    assert values.field_id == [0, 42, 42]
    values.field_id = [1, 2, 3]
    assert values.field_id == [1, 2, 3]
    values.scope_id = 9
    assert values.scope_id == [9, 9, 9]
    with pytest.raises(IndexError):
        values[3] = one
    with pytest.raises(TypeError, match="FieldValue"):
        values[0] = 5
    with pytest.raises(ValueError, match="3 values"):
        values.field_id = [1]
    with pytest.raises(ValueError, match="one element"):
        values[0] = values


def test_asking_for_no_fields_answers_none() -> None:
    nvml.init_v2()
    device = nvml.device_get_handle_by_index_v2(0)
    assert len(nvml.device_get_field_values(device, nvml.FieldValue(0))) == 0
    nvml.shutdown()


PLAIN = {  # function -> the type of what it returns, where NVIDIA unpacks a struct
    "device_get_capabilities": int, "device_get_pdi": int, "device_get_performance_modes": str,
    "device_get_current_clock_freqs": str, "device_get_hostname_v1": str, "device_get_margin_temperature": int,
    "device_get_unrepairable_memory_flag_v1": int, "device_get_vgpu_heterogeneous_mode": int,
}  # fmt: skip


@pytest.mark.parametrize("name", PLAIN)
def test_a_struct_with_one_value_comes_back_as_the_value(name: str) -> None:
    nvml.init_v2()
    try:
        value = getattr(nvml, name)(nvml.device_get_handle_by_index_v2(0))
    except nvml.NvmlError as error:
        pytest.skip(f"this device does not tell: {error}")
    finally:
        nvml.shutdown()
    assert type(value) is PLAIN[name]


def test_no_error_has_an_empty_text() -> None:
    assert nvfatbin.get_error_string(0) == ""
    assert nvfatbin.get_error_string(1)


@pytest.mark.parametrize("name", ["add_module_to_program", "lazy_add_module_to_program"])
def test_no_module_is_refused_before_the_call(name: str) -> None:
    program = nvvm.create_program()
    with pytest.raises(ValueError, match="buffer"):
        getattr(nvvm, name)(program, None, 0, "module")
    nvvm.destroy_program(program)


@pytest.mark.cpu_only  # about the codes of the CPU device, which are a GPU driver's
def test_an_address_inside_registered_memory_is_no_registration(context: Any, check: Any) -> None:
    import mmap

    memory = mmap.mmap(-1, 8192)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    check(driver.cuMemHostRegister(address, 8192, 0))
    assert driver.cuMemHostUnregister(address + 4096)[0] == driver.CUresult.CUDA_ERROR_INVALID_VALUE
    check(driver.cuMemHostUnregister(address))
    assert driver.cuMemHostUnregister(address)[0] == driver.CUresult.CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED


def test_shared_memory_that_a_kernel_has_not_opted_in_to_is_not_available(context: Any, check: Any) -> None:
    source = b'extern "C" __global__ void f(int* p) { *p = 1; }'
    program = check(nvrtc.nvrtcCreateProgram(source, b"f.cu", 0, [], []))
    check(nvrtc.nvrtcCompileProgram(program, 1, [b"-arch=compute_75"]))
    module = check(driver.cuModuleLoadData(check(nvrtc.nvrtcGetPTX(program, check(nvrtc.nvrtcGetPTXSize(program))))))
    kernel = check(driver.cuModuleGetFunction(module, b"f"))
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    limit = check(driver.cuFuncGetAttribute(attribute, kernel))
    assert check(driver.cuOccupancyAvailableDynamicSMemPerBlock(kernel, 1, 128)) == limit
    check(driver.cuModuleUnload(module))
    check(nvrtc.nvrtcDestroyProgram(program))


def filling(monkeypatch: pytest.MonkeyPatch, symbol: str, fill: Any) -> None:
    """Calls of the C function `symbol` call `fill` with the address of the struct instead."""

    def call(name: str, *arguments: int) -> None:
        assert name == symbol
        fill(arguments[-1])

    monkeypatch.setattr(nvml, "_call", call)


def test_port_counters_come_back_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    counters = nvml.PRMCounter_v1(2)
    counters[1].counter_id = 301

    def fill(address: int) -> None:
        count, array = ctypes.c_uint.from_address(address), ctypes.c_void_p.from_address(address + 8)
        assert (count.value, array.value) == (2, counters.ptr)
        counters[1].counter_id = 302

    filling(monkeypatch, "nvmlDeviceReadPRMCounters_v1", fill)
    assert nvml.device_read_prm_counters_v1(1, counters) is counters
    assert counters[1].counter_id == 302


def test_register_access_returns_the_status_and_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(address: int) -> None:
        size, status = (ctypes.c_uint.from_address(address + at) for at in (0, 4))
        assert ctypes.string_at(address + 8, size.value) == b"question"
        size.value, status.value = 6, 9
        ctypes.memmove(address + 8, b"answer", 6)

    filling(monkeypatch, "nvmlDeviceReadWritePRM_v1", fill)
    assert nvml.device_read_write_prm_v1(1, b"question") == (9, b"answer")


def test_waiting_for_system_events_returns_those_that_came(monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(address: int) -> None:
        version, timeout = (ctypes.c_uint.from_address(address + at).value for at in (0, 4))
        size, count = (ctypes.c_uint.from_address(address + at) for at in (24, 28))
        assert (version, timeout, size.value) == (16777248, 5, 3)
        events = nvml.SystemEventData_v1.from_ptr(ctypes.c_void_p.from_address(address + 16).value, 3)
        events[0].gpu_id, events[1].gpu_id = 7, 8
        count.value = 2

    filling(monkeypatch, "nvmlSystemEventSetWait", fill)
    events = nvml.system_event_set_wait(1, 5, 3)
    assert type(events) is nvml.SystemEventData_v1 and len(events) == 2 and list(events.gpu_id) == [7, 8]
