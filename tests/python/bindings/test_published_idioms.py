# SPDX-License-Identifier: Apache-2.0
"""Spellings of published programs that use cuda.bindings: buffers of bytes for NVRTC, cubins, grid sizes made with "/"."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import pytest
from cuda.bindings import driver, nvjitlink, nvrtc

KERNEL = b'extern "C" __global__ void put(int* p, int value) { *p = value; }'


@pytest.fixture
def program(check: Any) -> Any:
    made = check(nvrtc.nvrtcCreateProgram(KERNEL, b"source.cu", 0, [], []))
    check(nvrtc.nvrtcCompileProgram(made, 1, [b"--gpu-architecture=sm_90"]))
    yield made
    check(nvrtc.nvrtcDestroyProgram(made))


def test_the_log_of_a_clean_compilation_fits_one_byte(program: Any, check: Any) -> None:
    size = check(nvrtc.nvrtcGetProgramLogSize(program))
    assert size == 1
    log = b" " * size
    assert nvrtc.nvrtcGetProgramLog(program, log) == (nvrtc.nvrtcResult.NVRTC_SUCCESS,)


def test_shared_one_byte_objects_stay_as_they_are(program: Any) -> None:
    for byte in range(256):
        one = bytes([byte])
        nvrtc.nvrtcGetProgramLog(program, one)
        assert one == bytes([byte]) and one[0] == byte
    assert chr(32).encode() == b" " and ord(b" ") == 32


def test_a_longer_bytes_object_is_filled_in_place(program: Any, check: Any) -> None:
    size = check(nvrtc.nvrtcGetPTXSize(program))
    ptx = b" " * size
    check(nvrtc.nvrtcGetPTX(program, ptx))
    assert b".entry put(" in ptx


def test_a_bytes_object_that_is_too_short_is_refused(program: Any) -> None:
    with pytest.raises(ValueError, match="uses"):
        nvrtc.nvrtcGetPTX(program, b" ")
    with pytest.raises(ValueError, match="uses"):
        nvrtc.nvrtcGetPTX(program, b"")


def test_an_address_in_place_of_a_buffer_is_a_type_error(program: Any) -> None:
    room = ctypes.create_string_buffer(16)
    with pytest.raises(TypeError, match="writable buffer or a size"):
        nvrtc.nvrtcGetProgramLog(program, ctypes.addressof(room))


def run(check: Any, module: Any) -> int:
    kernel = check(driver.cuModuleGetFunction(module, b"put"))
    memory = check(driver.cuMemAlloc(4))
    arguments = ((int(memory), 42), (ctypes.c_void_p, ctypes.c_int))
    check(driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, arguments, 0))
    host = bytearray(4)
    check(driver.cuMemcpyDtoH(host, memory, 4))
    check(driver.cuMemFree(memory))
    return int.from_bytes(host, sys.byteorder)


def test_a_cubin_for_sm_90_loads_and_runs(context: Any, program: Any, check: Any) -> None:
    if check(driver.cuDeviceComputeCapability(0))[0] != 9:
        pytest.skip("the cubin is for another device")
    size = check(nvrtc.nvrtcGetCUBINSize(program))
    cubin = b" " * size
    check(nvrtc.nvrtcGetCUBIN(program, cubin))
    module = check(driver.cuModuleLoadData(cubin))
    assert run(check, module) == 42
    check(driver.cuModuleUnload(module))


@pytest.mark.cpu_only  # a GPU's cubin holds machine code alone
def test_a_cubin_is_the_container_that_cuda_core_makes(context: Any, program: Any, check: Any) -> None:
    from cuda.core import Program, ProgramOptions

    size = check(nvrtc.nvrtcGetCUBINSize(program))
    cubin = check(nvrtc.nvrtcGetCUBIN(program, size))
    theirs = Program(KERNEL.decode(), "c++", ProgramOptions(arch="sm_90", name="source.cu")).compile("cubin")
    assert cubin[:4] == b"\x7fELF" and b".cucore.ptx" in cubin and b".entry put(" in cubin
    assert b".cucore.ptx" in theirs.code and len(theirs.code) == len(cubin)


@pytest.mark.cpu_only  # the limit of a cubin's machine code is not visible in bytes
def test_a_register_limit_reaches_the_container(context: Any, check: Any) -> None:
    for options in ([b"-arch=sm_90", b"-maxrregcount=32"], [b"-arch=sm_90", b"--maxrregcount", b"32"]):
        made = check(nvrtc.nvrtcCreateProgram(KERNEL, b"source.cu", 0, [], []))
        check(nvrtc.nvrtcCompileProgram(made, len(options), options))
        assert b".maxnreg 32" in check(nvrtc.nvrtcGetCUBIN(made, check(nvrtc.nvrtcGetCUBINSize(made))))
        check(nvrtc.nvrtcDestroyProgram(made))


def compiled(check: Any, *options: bytes) -> bytes:
    made = check(nvrtc.nvrtcCreateProgram(KERNEL, b"source.cu", 0, [], []))
    check(nvrtc.nvrtcCompileProgram(made, len(options), list(options)))
    if b"-dlto" in options:
        code = check(nvrtc.nvrtcGetLTOIR(made, check(nvrtc.nvrtcGetLTOIRSize(made))))
    else:
        code = check(nvrtc.nvrtcGetPTX(made, check(nvrtc.nvrtcGetPTXSize(made))))
    check(nvrtc.nvrtcDestroyProgram(made))
    return bytes(code)


@pytest.mark.parametrize("kind", ["LTOIR", "PTX", "ANY"])
def test_a_linked_cubin_loads_and_runs(context: Any, check: Any, kind: str) -> None:
    major, minor = check(driver.cuDeviceComputeCapability(0))
    arch = f"{major}{minor}".encode()
    lto = kind == "LTOIR"
    code = compiled(check, b"-arch=compute_" + arch, *([b"-dlto"] if lto else []))
    options = [f"-arch=sm_{arch.decode()}", *(["-lto"] if lto else [])]
    handle = nvjitlink.create(len(options), options)
    nvjitlink.add_data(handle, nvjitlink.InputType[kind], code, len(code), "piece")
    nvjitlink.complete(handle)
    cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
    nvjitlink.get_linked_cubin(handle, cubin)
    nvjitlink.destroy(handle)
    module = check(driver.cuModuleLoadData(bytes(cubin)))
    assert run(check, module) == 42
    check(driver.cuModuleUnload(module))


@pytest.mark.cpu_only
def test_a_linked_cubin_links_again(context: Any, check: Any, tmp_path: Any) -> None:
    code = compiled(check, b"-arch=compute_90", b"-dlto")
    for again in ("data", "file"):
        handle = nvjitlink.create(2, ["-arch=sm_90", "-lto"])
        nvjitlink.add_data(handle, nvjitlink.InputType.LTOIR, code, len(code), "piece")
        nvjitlink.complete(handle)
        cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, cubin)
        nvjitlink.destroy(handle)
        second = nvjitlink.create(1, ["-arch=sm_90"])
        if again == "file":
            path = tmp_path / "linked.cubin"
            path.write_bytes(cubin)
            nvjitlink.add_file(second, nvjitlink.InputType.CUBIN, str(path))
        else:
            nvjitlink.add_data(second, nvjitlink.InputType.CUBIN, bytes(cubin), len(cubin), "linked")
        nvjitlink.complete(second)
        cubin = bytearray(nvjitlink.get_linked_cubin_size(second))
        nvjitlink.get_linked_cubin(second, cubin)
        nvjitlink.destroy(second)
        module = check(driver.cuModuleLoadData(bytes(cubin)))
        assert run(check, module) == 42
        check(driver.cuModuleUnload(module))


def test_a_grid_size_with_a_fraction_loses_it(context: Any, check: Any) -> None:
    module = check(driver.cuModuleLoadData(compiled(check, b"-arch=compute_75")))
    kernel = check(driver.cuModuleGetFunction(module, b"put"))
    memory = check(driver.cuMemAlloc(4))
    arguments = ((int(memory), 7), (ctypes.c_void_p, ctypes.c_int))
    check(driver.cuLaunchKernel(kernel, (300 + 255) / 256, 1.9, 1, 1, 1, 1, 0, 0, arguments, 0))
    check(driver.cuCtxSynchronize())
    check(driver.cuMemFree(memory))
    check(driver.cuModuleUnload(module))
    for wrong in (float("nan"), float("inf")):
        with pytest.raises(TypeError, match="integer"):
            driver.cuMemAlloc(wrong)
    with pytest.raises(OverflowError):
        driver.cuMemAlloc(-1.5)


def test_a_struct_in_place_of_a_pointer_argument_passes_its_address(context: Any, check: Any) -> None:
    source = b'extern "C" __global__ void put(unsigned long long* p, void* q) { *p = (unsigned long long)q; }'
    made = check(nvrtc.nvrtcCreateProgram(source, b"source.cu", 0, [], []))
    check(nvrtc.nvrtcCompileProgram(made, 1, [b"-arch=compute_75"]))
    module = check(driver.cuModuleLoadData(check(nvrtc.nvrtcGetPTX(made, check(nvrtc.nvrtcGetPTXSize(made))))))
    kernel = check(driver.cuModuleGetFunction(module, b"put"))
    memory = check(driver.cuMemAlloc(8))

    class Mine:
        def getPtr(self) -> int:
            return 4096

    struct = driver.CUDA_MEMCPY3D()
    for value, address in ((struct, struct.getPtr()), (Mine(), 4096)):
        arguments = ((int(memory), value), (ctypes.c_void_p, ctypes.c_void_p))
        check(driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, arguments, 0))
        host = bytearray(8)
        check(driver.cuMemcpyDtoH(host, memory, 8))
        assert int.from_bytes(host, sys.byteorder) == address
    check(driver.cuMemFree(memory))
    check(driver.cuModuleUnload(module))
    check(nvrtc.nvrtcDestroyProgram(made))
