# SPDX-License-Identifier: Apache-2.0
"""nvJitLink, NVVM, nvFatbin, NVML and cuFile: bare values, exceptions, structs that may be arrays."""

from __future__ import annotations

import contextlib
import pickle
from typing import Any

import pytest
from cuda.bindings import cufile, nvfatbin, nvjitlink, nvml, nvvm

PTX = b".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n"


def needs(version: Any) -> None:
    try:
        version()
    except RuntimeError as error:
        pytest.skip(str(error).splitlines()[0])


def test_nvjitlink_links_ptx_to_a_cubin() -> None:
    needs(nvjitlink.version)
    linker = nvjitlink.create(1, ["-arch=sm_90"])
    assert type(linker) is int
    nvjitlink.add_data(linker, nvjitlink.InputType.PTX, PTX, len(PTX), "k.ptx")
    nvjitlink.complete(linker)
    size = nvjitlink.get_linked_cubin_size(linker)
    cubin = bytearray(size)
    assert nvjitlink.get_linked_cubin(linker, cubin) is None
    assert cubin[:4] == b"\x7fELF"
    assert nvjitlink.get_linked_cubin(linker, size) == cubin
    with pytest.raises(ValueError, match=f"but the call uses {size}"):
        nvjitlink.get_linked_cubin(linker, bytearray(4))
    nvjitlink.destroy(linker)


def test_nvjitlink_error_has_its_status() -> None:
    needs(nvjitlink.version)
    with pytest.raises(nvjitlink.nvJitLinkError) as caught:
        nvjitlink.create(1, ["-no-such-option"])
    assert caught.value.status is nvjitlink.Result.ERROR_UNRECOGNIZED_OPTION
    assert str(caught.value) == "ERROR_UNRECOGNIZED_OPTION (1)"
    assert pickle.loads(pickle.dumps(caught.value)).status is caught.value.status


def test_nvvm_compiles_a_module_and_keeps_the_log() -> None:
    needs(nvvm.version)
    program = nvvm.create_program()
    nvvm.add_module_to_program(program, "not a module", 12, "bad")
    with pytest.raises(nvvm.nvvmError):
        nvvm.compile_program(program, 0, [])
    size = nvvm.get_program_log_size(program)
    assert b"bad" in nvvm.get_program_log(program, size)
    with pytest.raises(ValueError, match="buffer has 1 bytes, but the call uses 50"):
        nvvm.add_module_to_program(program, "x", 50, "short")
    nvvm.destroy_program(program)


def test_nvfatbin_wraps_ptx() -> None:
    needs(nvfatbin.version)
    fatbin = nvfatbin.create(["-64"], 1)
    nvfatbin.add_ptx(fatbin, PTX, len(PTX) + 1, "90", "k", "")
    data = nvfatbin.get(fatbin, nvfatbin.size(fatbin))
    assert int.from_bytes(data[:4], "little") == 0xBA55ED50
    nvfatbin.destroy(fatbin)


def test_nvml_has_an_exception_for_each_code() -> None:
    assert issubclass(nvml.NotFoundError, nvml.NvmlError)
    assert nvml.NvmlTimeoutError is nvml.TimeoutError
    error = nvml.NotFoundError(6)
    assert error.status is nvml.Return.ERROR_NOT_FOUND
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is nvml.NotFoundError
    with pytest.raises(nvml.NotSupportedError):
        nvml.check_status(3)
    nvml.check_status_size(7)


def test_nvml_struct_has_its_version() -> None:
    memory = nvml.Memory_v2()
    assert memory.version == (2 << 24) | 40
    memory.total = 5
    assert memory == nvml.Memory_v2.from_buffer(memoryview(memory))
    assert int(memory) == memory.ptr
    view = nvml.Memory_v2.from_ptr(memory.ptr, owner=memory)
    view.total = 6
    assert memory.total == 6


def test_views_of_memory_take_the_arguments_of_nvidias_by_place_and_by_name() -> None:
    memory = nvml.Memory_v2()
    memory.total = 5
    for view in (
        nvml.Memory_v2.from_ptr(memory.ptr, False, memory),  # NVIDIA's: ptr, readonly, owner
        nvml.Memory_v2.from_ptr(memory.ptr, True),
        nvml.Memory_v2.from_ptr(ptr=memory.ptr, readonly=False, owner=memory),
        nvml.ProcessInfo.from_ptr(memory.ptr, 1, False, memory),  # an array's: ptr, size, readonly, owner
    ):
        assert view.ptr == memory.ptr and len(memoryview(view)) > 0
    assert nvml.Memory_v2.from_ptr(memory.ptr, False, memory).total == 5
    assert nvml.Memory_v2.from_buffer(buffer=memoryview(memory)) == memory
    assert nvml.Memory_v2.from_data(data=memoryview(memory)) == memory


def test_nvml_structs_may_be_arrays() -> None:
    processes = nvml.ProcessInfo(3)
    assert len(processes) == 3
    processes[1].pid = 42
    assert processes.pid == [0, 42, 0]
    with pytest.raises(IndexError):
        processes[3]
    assert len(nvml.ProcessInfo(0)) == 0
    with pytest.raises(ValueError, match="size must be between 0 and"):
        nvml.ProcessInfo(1 << 21)


def test_dtypes_have_the_layout_of_the_structs() -> None:
    pytest.importorskip("numpy")
    assert nvml.memory_v2_dtype.itemsize == 40
    assert nvml.memory_v2_dtype.fields["used"][1] == 32
    assert cufile.io_vec_dtype.names is not None


def test_nvml_queries_work_with_a_driver() -> None:
    try:
        nvml.init_v2()
    except (RuntimeError, nvml.NvmlError) as error:
        pytest.skip(str(error).splitlines()[0])
    try:
        count = nvml.device_get_count_v2()
        assert count >= 1
        device = nvml.device_get_handle_by_index_v2(0)
        assert isinstance(nvml.device_get_name(device), str)
        assert nvml.device_get_memory_info_v2(device).total > 0
        with contextlib.suppress(nvml.NotSupportedError):  # a device without a sensor raises an error
            assert nvml.device_get_temperature_v(device, nvml.TemperatureSensors.TEMPERATURE_GPU) > 0
        with pytest.raises(nvml.InvalidArgumentError):
            nvml.device_get_handle_by_index_v2(9999)
    finally:
        nvml.shutdown()
