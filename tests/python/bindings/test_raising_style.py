# SPDX-License-Identifier: Apache-2.0
"""The raising style: functions raise errors and return bare values."""

from __future__ import annotations

import importlib
import inspect
import pickle
from typing import Any

import pytest
from cuda.bindings import driver, nvrtc, runtime
from cuda.bindings.driver import raising
from cuda.bindings.nvrtc import raising as raising_nvrtc
from cuda.bindings.runtime import raising as raising_runtime

PAIRS = [(driver, raising), (runtime, raising_runtime), (nvrtc, raising_nvrtc)]
IDS = ["driver", "runtime", "nvrtc"]


@pytest.mark.parametrize(("plain", "raises"), PAIRS, ids=IDS)
def test_raising_module_has_every_function_with_its_signature(plain: Any, raises: Any) -> None:
    functions = [name for name in plain.__all__ if inspect.isbuiltin(getattr(plain, name))]
    assert len(functions) > 20
    for name in functions:
        one, other = getattr(plain, name), getattr(raises, name)
        assert one is not other and inspect.signature(one) == inspect.signature(other)
        before, _, results = other.__doc__.partition("\n\nReturns:")
        assert one.__doc__ == before + (f"\n\nReturns after the result code:{results}" if results else "")
        assert other.__module__ == raises.__name__


@pytest.mark.parametrize(("plain", "raises"), PAIRS, ids=IDS)
def test_types_are_shared_by_both_styles(plain: Any, raises: Any) -> None:
    classes = [name for name in plain.__all__ if inspect.isclass(getattr(plain, name))]
    assert classes and all(getattr(plain, name) is getattr(raises, name) for name in classes)


def test_raising_functions_return_bare_values(context: Any) -> None:
    assert raising.cuCtxSynchronize() is None
    memory = raising.cuMemAlloc(64)
    assert isinstance(memory, driver.CUdeviceptr)
    free, total = raising.cuMemGetInfo()
    assert 0 < free <= total
    back = bytearray(64)
    raising.cuMemsetD8(memory, 7, 64)
    raising.cuMemcpyDtoH(back, memory, 64)
    assert back == b"\7" * 64
    assert raising.cuMemFree(memory) is None


def test_error_names_the_function_and_the_code(context: Any) -> None:
    with pytest.raises(raising.CUDABindingsError, match=r"^cuDeviceGet: CUDA_ERROR_INVALID_DEVICE \(101\): ") as caught:
        raising.cuDeviceGet(9999)
    assert (caught.value.code, caught.value.function) == (driver.CUresult.CUDA_ERROR_INVALID_DEVICE, "cuDeviceGet")
    assert isinstance(caught.value, RuntimeError)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.code, again.function, str(again)) == (caught.value.code, "cuDeviceGet", str(caught.value))


def test_runtime_and_nvrtc_errors_have_their_code(context: Any) -> None:
    with pytest.raises(raising_runtime.CUDABindingsError) as caught:
        raising_runtime.cudaSetDevice(9999)
    assert caught.value.code is runtime.cudaError_t.cudaErrorInvalidDevice
    runtime.cudaGetLastError()
    program = raising_nvrtc.nvrtcCreateProgram(b"nonsense", b"bad.cu", 0, [], [])
    with pytest.raises(raising_nvrtc.CUDABindingsError, match="NVRTC_ERROR_COMPILATION") as caught:
        raising_nvrtc.nvrtcCompileProgram(program, 0, [])
    log = raising_nvrtc.nvrtcGetProgramLog(program, raising_nvrtc.nvrtcGetProgramLogSize(program))
    assert b"bad.cu" in bytes(log)
    raising_nvrtc.nvrtcDestroyProgram(program)


def test_program_in_the_raising_style_runs(context: Any, device: Any, stream: Any) -> None:
    source = b'extern "C" __global__ void put(int* p, int v) { *p = v; }'
    program = raising_nvrtc.nvrtcCreateProgram(source, b"put.cu", 0, [], [])
    raising_nvrtc.nvrtcCompileProgram(program, 1, ["--gpu-architecture=compute_75"])
    ptx = raising_nvrtc.nvrtcGetPTX(program, raising_nvrtc.nvrtcGetPTXSize(program))
    library = raising.cuLibraryLoadData(ptx, [], [], 0, [], [], 0)
    kernel = raising.cuLibraryGetKernel(library, b"put")
    memory = raising.cuMemAlloc(4)
    ctypes = importlib.import_module("ctypes")
    function = driver.CUfunction(int(kernel))
    raising.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, ((memory, 42), (None, ctypes.c_int)), 0)
    raising.cuStreamSynchronize(stream)
    value = ctypes.c_int()
    raising.cuMemcpyDtoH(value, memory, 4)
    assert value.value == 42
    raising.cuMemFree(memory)
    raising.cuLibraryUnload(library)
    raising_nvrtc.nvrtcDestroyProgram(program)
