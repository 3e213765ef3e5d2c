"""SAXPY through cuda.bindings: the C APIs of NVRTC and the driver, one Python call per C call.

Every function returns a tuple whose first item is the result code; `check` turns a failure into an exception.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from cuda.bindings import driver, nvrtc

SOURCE = b"""
extern "C" __global__ void saxpy(float a, const float* x, float* y, size_t n) {
  size_t i = threadIdx.x + size_t{blockIdx.x} * blockDim.x;
  if (i < n) y[i] += a * x[i];
}
"""


def check(result: tuple[Any, ...]) -> Any:
    """The values of a call without its result code, or an exception that names it."""
    code, *values = result
    if isinstance(code, driver.CUresult) and code != driver.CUresult.CUDA_SUCCESS:
        _, text = driver.cuGetErrorString(code)
        raise RuntimeError(f"{code.name}: {text.decode()}")
    if isinstance(code, nvrtc.nvrtcResult) and code != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise RuntimeError(code.name)
    return values[0] if len(values) == 1 else tuple(values)


def compile_ptx(source: bytes, arch: bytes) -> bytes:
    program = check(nvrtc.nvrtcCreateProgram(source, b"saxpy.cu", 0, [], []))
    options = [b"--gpu-architecture=" + arch]
    (code,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if code != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        log = bytearray(check(nvrtc.nvrtcGetProgramLogSize(program)))
        check(nvrtc.nvrtcGetProgramLog(program, log))
        raise RuntimeError(log.decode())
    ptx = bytearray(check(nvrtc.nvrtcGetPTXSize(program)))
    check(nvrtc.nvrtcGetPTX(program, ptx))
    check(nvrtc.nvrtcDestroyProgram(program))
    return bytes(ptx)


def main(n: int = 4096) -> None:
    check(driver.cuInit(0))
    device = check(driver.cuDeviceGet(0))
    context = check(driver.cuDevicePrimaryCtxRetain(device))
    check(driver.cuCtxSetCurrent(context))
    attribute = driver.CUdevice_attribute
    major = check(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
    minor = check(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))

    module = check(driver.cuModuleLoadData(compile_ptx(SOURCE, b"compute_%d%d" % (major, minor))))
    saxpy = check(driver.cuModuleGetFunction(module, b"saxpy"))
    stream = check(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))

    a, x, y = np.float32(2.0), np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    expected = a * x + y
    x_dev = check(driver.cuMemAlloc(x.nbytes))
    y_dev = check(driver.cuMemAlloc(y.nbytes))
    check(driver.cuMemcpyHtoDAsync(x_dev, x.ctypes.data, x.nbytes, stream))
    check(driver.cuMemcpyHtoDAsync(y_dev, y.ctypes.data, y.nbytes, stream))

    # Arguments as (values, types); None stands for an object that knows its own address or value.
    arguments = ((a, x_dev, y_dev, n), (ctypes.c_float, None, None, ctypes.c_size_t))
    check(driver.cuLaunchKernel(saxpy, (n + 255) // 256, 1, 1, 256, 1, 1, 0, stream, arguments, 0))
    check(driver.cuMemcpyDtoHAsync(y.ctypes.data, y_dev, y.nbytes, stream))
    check(driver.cuStreamSynchronize(stream))
    assert np.array_equal(y, expected)

    for address in (x_dev, y_dev):
        check(driver.cuMemFree(address))
    check(driver.cuStreamDestroy(stream))
    check(driver.cuModuleUnload(module))
    check(driver.cuDevicePrimaryCtxRelease(device))
    print(f"sm_{major}{minor}: {n} elements, equal to NumPy's")


if __name__ == "__main__":
    main()
