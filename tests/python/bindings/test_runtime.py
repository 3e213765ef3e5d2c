# SPDX-License-Identifier: Apache-2.0
"""The runtime bindings: implicit contexts, last error, memory, copies, arrays, textures, libraries."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

from cuda.bindings import driver, nvrtc, runtime

KIND = runtime.cudaMemcpyKind


def test_primary_context_becomes_current_on_first_use_in_every_thread(check: Any) -> None:
    contexts: list[Any] = []

    def work() -> None:
        check(runtime.cudaFree(0))
        contexts.append(int(check(driver.cuCtxGetCurrent())))

    for _ in range(2):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert contexts[0] == contexts[1] != 0


def test_last_error_is_per_thread(check: Any) -> None:
    runtime.cudaGetLastError()
    assert runtime.cudaSetDevice(9999) == (runtime.cudaError_t.cudaErrorInvalidDevice,)
    other: list[Any] = []
    thread = threading.Thread(target=lambda: other.append(runtime.cudaPeekAtLastError()))
    thread.start()
    thread.join()
    assert other == [(0,)]
    assert runtime.cudaPeekAtLastError() == (runtime.cudaError_t.cudaErrorInvalidDevice,)
    assert runtime.cudaGetLastError() == (runtime.cudaError_t.cudaErrorInvalidDevice,)
    assert runtime.cudaGetLastError() == (0,)


def test_errors_have_names_and_descriptions() -> None:
    error = runtime.cudaError_t.cudaErrorInvalidValue
    assert runtime.cudaGetErrorName(error) == (0, b"cudaErrorInvalidValue")
    assert b"invalid" in runtime.cudaGetErrorString(error)[1]


def test_device_properties_equal_attributes(check: Any) -> None:
    prop = check(runtime.cudaGetDeviceProperties(0))
    attribute = runtime.cudaDeviceAttr
    assert prop.name
    assert prop.warpSize == check(runtime.cudaDeviceGetAttribute(attribute.cudaDevAttrWarpSize, 0)) == 32
    assert prop.major == check(runtime.cudaDeviceGetAttribute(attribute.cudaDevAttrComputeCapabilityMajor, 0))
    assert prop.maxThreadsDim[0] >= 512
    assert prop.totalGlobalMem > 0


def test_1d_and_2d_copies_preserve_bytes(check: Any) -> None:
    pointer = check(runtime.cudaMalloc(256))
    assert type(pointer) is int
    data = bytes(range(256))
    check(runtime.cudaMemcpy(pointer, data, 256, KIND.cudaMemcpyHostToDevice))
    back = bytearray(256)
    check(runtime.cudaMemcpy(back, pointer, 256, KIND.cudaMemcpyDefault))
    assert back == data
    corner = bytearray(4 * 8)
    address = (ctypes.c_char * len(corner)).from_buffer(corner)
    check(runtime.cudaMemcpy2D(ctypes.addressof(address), 8, pointer, 16, 8, 4, KIND.cudaMemcpyDeviceToHost))
    assert corner == b"".join(data[16 * row : 16 * row + 8] for row in range(4))
    check(runtime.cudaMemset(pointer, 7, 256))
    check(runtime.cudaMemcpy(back, pointer, 256, KIND.cudaMemcpyDeviceToHost))
    assert back == b"\x07" * 256
    check(runtime.cudaFree(pointer))
    assert runtime.cudaMalloc(0)[1] == 0


def test_wrong_copy_direction_returns_an_error() -> None:
    assert runtime.cudaMemcpy(0, 0, 1, 77) == (runtime.cudaError_t.cudaErrorInvalidMemcpyDirection,)
    assert runtime.cudaGetLastError()[0] == runtime.cudaError_t.cudaErrorInvalidMemcpyDirection


def test_pitched_memory_is_set_and_copied_in_three_dimensions(check: Any) -> None:
    extent = runtime.make_cudaExtent(8, 3, 2)
    pitched = check(runtime.cudaMalloc3D(extent))
    assert pitched.pitch >= 8
    check(runtime.cudaMemset3D(pitched, 5, extent))
    back = (ctypes.c_char * 48)()
    copy = runtime.cudaMemcpy3DParms()
    copy.srcPtr = pitched
    copy.dstPtr = runtime.make_cudaPitchedPtr(ctypes.addressof(back), 8, 8, 3)
    copy.extent = extent
    copy.kind = KIND.cudaMemcpyDeviceToHost
    check(runtime.cudaMemcpy3D(copy))
    assert bytes(back) == b"\x05" * 48
    check(runtime.cudaFree(pitched.ptr))


def test_pointer_attributes_have_the_memory_type(check: Any) -> None:
    device, host = check(runtime.cudaMalloc(16)), check(runtime.cudaMallocHost(16))
    ours = ctypes.create_string_buffer(16)
    kinds = [check(runtime.cudaPointerGetAttributes(p)).type for p in (device, host, ctypes.addressof(ours))]
    memory = runtime.cudaMemoryType
    assert kinds == [memory.cudaMemoryTypeDevice, memory.cudaMemoryTypeHost, memory.cudaMemoryTypeUnregistered]
    check(runtime.cudaFree(device))
    check(runtime.cudaFreeHost(host))


def test_streams_and_events_are_created_and_queried(check: Any) -> None:
    stream, start, end = (
        check(runtime.cudaStreamCreate()),
        check(runtime.cudaEventCreate()),
        check(runtime.cudaEventCreate()),
    )
    assert isinstance(stream, runtime.cudaStream_t)
    check(runtime.cudaEventRecord(start, stream))
    pointer = check(runtime.cudaMallocAsync(64, stream))
    check(runtime.cudaMemsetAsync(pointer, 1, 64, stream))
    check(runtime.cudaFreeAsync(pointer, stream))
    check(runtime.cudaEventRecord(end, stream))
    check(runtime.cudaStreamSynchronize(stream))
    assert runtime.cudaStreamQuery(stream) == (0,)
    assert check(runtime.cudaEventElapsedTime(start, end)) >= 0
    for event in (start, end):
        check(runtime.cudaEventDestroy(event))
    check(runtime.cudaStreamDestroy(stream))


def test_array_returns_its_descriptor(check: Any) -> None:
    desc = check(runtime.cudaCreateChannelDesc(32, 32, 0, 0, runtime.cudaChannelFormatKind.cudaChannelFormatKindFloat))
    array = check(runtime.cudaMallocArray(desc, 4, 2, 0))
    data = bytes(range(64))
    check(runtime.cudaMemcpy2DToArray(array, 0, 0, data, 32, 32, 2, KIND.cudaMemcpyHostToDevice))
    back = bytearray(64)
    check(runtime.cudaMemcpy2DFromArray(back, 32, array, 0, 0, 32, 2, KIND.cudaMemcpyDeviceToHost))
    assert back == data
    got, extent, flags = check(runtime.cudaArrayGetInfo(array))
    assert (got.x, got.y, got.z, got.f) == (32, 32, 0, runtime.cudaChannelFormatKind.cudaChannelFormatKindFloat)
    assert (extent.width, extent.height, flags) == (4, 2, 0)
    check(runtime.cudaFreeArray(array))
    bad = check(runtime.cudaCreateChannelDesc(7, 0, 0, 0, runtime.cudaChannelFormatKind.cudaChannelFormatKindSigned))
    assert runtime.cudaMallocArray(bad, 4, 2, 0)[0] == runtime.cudaError_t.cudaErrorInvalidValue
    runtime.cudaGetLastError()


def test_kernel_of_a_library_launches(check: Any) -> None:
    source = b'extern "C" __global__ void fill(int *p, int v) { p[threadIdx.x] = v + threadIdx.x; }'
    major = check(runtime.cudaDeviceGetAttribute(runtime.cudaDeviceAttr.cudaDevAttrComputeCapabilityMajor, 0))
    minor = check(runtime.cudaDeviceGetAttribute(runtime.cudaDeviceAttr.cudaDevAttrComputeCapabilityMinor, 0))
    program = check(nvrtc.nvrtcCreateProgram(source, b"fill.cu", 0, [], []))
    check(nvrtc.nvrtcCompileProgram(program, 1, [f"--gpu-architecture=compute_{major}{minor}"]))
    ptx = check(nvrtc.nvrtcGetPTX(program, check(nvrtc.nvrtcGetPTXSize(program))))
    library = check(runtime.cudaLibraryLoadData(ptx, None, None, 0, None, None, 0))
    kernel = check(runtime.cudaLibraryGetKernel(library, b"fill"))
    attributes = check(runtime.cudaFuncGetAttributes(kernel))
    assert attributes.maxThreadsPerBlock >= 32
    assert check(runtime.cudaOccupancyMaxActiveBlocksPerMultiprocessor(kernel, 32, 0)) >= 1
    pointer = check(runtime.cudaMalloc(32 * 4))
    grid, block = runtime.dim3(), runtime.dim3()
    block.x = 32
    check(runtime.cudaLaunchKernel(kernel, grid, block, ((pointer, 100), (ctypes.c_void_p, ctypes.c_int)), 0, 0))
    back = (ctypes.c_int * 32)()
    check(runtime.cudaMemcpy(back, pointer, 128, KIND.cudaMemcpyDeviceToHost))
    assert list(back) == list(range(100, 132))
    check(runtime.cudaFree(pointer))
    check(runtime.cudaLibraryUnload(library))


EMPTY_KERNEL = b".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry empty() { ret; }\n"


def test_launch_of_a_wrong_shape_is_an_invalid_value_for_kernels_of_libraries(check: Any) -> None:
    library = check(runtime.cudaLibraryLoadData(EMPTY_KERNEL, None, None, 0, None, None, 0))
    kernel = check(runtime.cudaLibraryGetKernel(library, b"empty"))
    one, none, many = runtime.dim3(), runtime.dim3(), runtime.dim3()
    none.x, many.x = 0, 2048
    wrong = (
        runtime.cudaError_t.cudaErrorInvalidValue
    )  # as NVIDIA's runtime answers; a function of nvcc's has another code
    assert runtime.cudaLaunchKernel(kernel, none, one, 0, 0, 0)[0] == wrong
    assert runtime.cudaLaunchKernel(kernel, one, many, 0, 0, 0)[0] == wrong
    assert runtime.cudaGetLastError()[0] == wrong
    check(runtime.cudaLaunchKernel(kernel, one, one, 0, 0, 0))
    check(runtime.cudaLibraryUnload(library))


def test_kernel_of_an_unloaded_library_is_unknown(check: Any) -> None:
    library = check(runtime.cudaLibraryLoadData(EMPTY_KERNEL, None, None, 0, None, None, 0))
    kernel = check(runtime.cudaLibraryGetKernel(library, b"empty"))
    assert int(check(runtime.cudaGetKernel(int(kernel)))) == int(kernel)
    address = int(kernel)
    check(runtime.cudaLibraryUnload(library))
    assert runtime.cudaGetKernel(address)[0] == runtime.cudaError_t.cudaErrorInvalidDeviceFunction
    runtime.cudaGetLastError()
