# SPDX-License-Identifier: Apache-2.0
"""Functions, kernels, libraries, linker, occupancy and deprecated launches; complements test_driver_functions."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest
from cuda.bindings import driver as d

SOURCE = r"""
__managed__ int shared_count = 3;
extern "C" __global__ void add(int* p, int n) { atomicAdd(p, n); }
extern "C" __global__ void mixed(double a, char b, int* p) { *p = a + b; }
"""


@pytest.fixture
def ptx(context: Any, compile_ptx: Any) -> bytes:
    return compile_ptx(SOURCE)


@pytest.fixture
def library(ptx: bytes, check: Any) -> Any:
    made = check(d.cuLibraryLoadData(ptx, [], [], 0, [], [], 0))
    yield made
    check(d.cuLibraryUnload(made))


@pytest.fixture
def module(ptx: bytes, check: Any) -> Any:
    made = check(d.cuModuleLoadData(ptx))
    yield made
    check(d.cuModuleUnload(made))


def test_library_is_loaded_from_a_file(ptx: bytes, context: Any, check: Any, tmp_path: Path) -> None:
    file = tmp_path / "code.ptx"
    file.write_bytes(ptx.rstrip(b"\0"))
    library = check(d.cuLibraryLoadFromFile(str(file).encode(), [], [], 0, [], [], 0))
    assert check(d.cuLibraryGetKernelCount(library)) == 2
    check(d.cuLibraryUnload(library))
    code, nothing = d.cuLibraryLoadFromFile(str(tmp_path / "none").encode(), [], [], 0, [], [], 0)
    assert code == d.CUresult.CUDA_ERROR_FILE_NOT_FOUND and nothing is None


def test_managed_variable_is_readable_on_the_host(library: Any, device: Any, check: Any) -> None:
    pointer, size = check(d.cuLibraryGetManaged(library, b"shared_count"))
    assert size == 4 and ctypes.c_int.from_address(int(pointer)).value == 3
    assert d.cuLibraryGetManaged(library, b"none")[0] == d.CUresult.CUDA_ERROR_NOT_FOUND
    code, function = d.cuLibraryGetUnifiedFunction(library, b"add")  # the host cannot call a kernel
    assert function is None and code in (
        d.CUresult.CUDA_ERROR_NOT_FOUND, d.CUresult.CUDA_ERROR_INVALID_VALUE, d.CUresult.CUDA_ERROR_NOT_SUPPORTED
    )  # fmt: skip


def test_a_module_is_loaded_with_options(ptx: bytes, context: Any, check: Any) -> None:
    log, option = bytearray(512), d.CUjit_option
    options = [
        option.CU_JIT_INFO_LOG_BUFFER,
        option.CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
        option.CU_JIT_OPTIMIZATION_LEVEL,
    ]
    module = check(d.cuModuleLoadDataEx(ptx, 3, options, [log, len(log), 2]))
    assert check(d.cuModuleGetFunctionCount(module)) == 2
    check(d.cuModuleUnload(module))
    with pytest.raises(ValueError, match="optionValues has 1 elements, but numOptions is 3"):
        d.cuModuleLoadDataEx(ptx, 3, options, [log])


def test_export_table_is_not_found(context: Any) -> None:
    code, table = d.cuGetExportTable(d.CUuuid())
    assert code != 0 and table is None


def test_parameter_info_has_offset_and_size(library: Any, since: Any, check: Any) -> None:
    kernel = check(d.cuLibraryGetKernel(library, b"mixed"))
    function = check(d.cuKernelGetFunction(kernel))
    assert check(d.cuFuncGetParamInfo(function, 2)) == (16, 8)
    since(13020)
    assert check(d.cuKernelGetParamCount(kernel)) == check(d.cuFuncGetParamCount(function)) == 3


def test_kernel_and_function_attributes_are_set(library: Any, device: Any, check: Any) -> None:
    kernel = check(d.cuLibraryGetKernel(library, b"add"))
    function = check(d.cuKernelGetFunction(kernel))
    check(d.cuKernelSetCacheConfig(kernel, d.CUfunc_cache.CU_FUNC_CACHE_PREFER_L1, device))
    check(d.cuFuncSetSharedMemConfig(function, d.CUsharedconfig.CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE))
    carveout = d.CUfunction_attribute.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
    check(d.cuFuncSetAttribute(function, carveout, 50))
    assert check(d.cuFuncGetAttribute(carveout, function)) == 50


def test_occupancy_with_flags_and_clusters_returns_launchable_sizes(library: Any, device: Any, check: Any) -> None:
    function = check(d.cuKernelGetFunction(check(d.cuLibraryGetKernel(library, b"add"))))
    plain = check(d.cuOccupancyMaxPotentialBlockSize(function, None, 0, 0))
    assert check(d.cuOccupancyMaxPotentialBlockSizeWithFlags(function, None, 0, 0, 0)) == plain
    grid, block = check(d.cuOccupancyMaxPotentialBlockSizeWithFlags(function, lambda n: 0, 0, 64, 0))
    assert grid >= 1 and block <= 64
    if not check(d.cuDeviceGetAttribute(d.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, device)):
        pytest.skip("no clusters")
    cluster = d.CUlaunchAttribute()
    cluster.id = d.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    cluster.value.clusterDim.x, cluster.value.clusterDim.y, cluster.value.clusterDim.z = 2, 1, 1
    config = d.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = 4, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = 64, 1, 1
    config.attrs, config.numAttrs = [cluster], 1
    assert check(d.cuOccupancyMaxActiveClusters(function, config)) >= 1
    assert check(d.cuOccupancyMaxPotentialClusterSize(function, config)) >= 2


def test_linker_adds_a_file(ptx: bytes, context: Any, check: Any, tmp_path: Path) -> None:
    file = tmp_path / "code.ptx"
    file.write_bytes(ptx.rstrip(b"\0"))
    log = bytearray(256)
    option = d.CUjit_option
    link = check(
        d.cuLinkCreate(2, [option.CU_JIT_INFO_LOG_BUFFER, option.CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES], [log, len(log)])
    )
    check(d.cuLinkAddFile(link, d.CUjitInputType.CU_JIT_INPUT_PTX, str(file).encode(), 0, [], []))
    image, size = check(d.cuLinkComplete(link))
    module = check(d.cuModuleLoadData(ctypes.string_at(image, size)))
    assert check(d.cuFuncGetName(check(d.cuModuleGetFunction(module, b"mixed")))) == b"mixed"
    check(d.cuModuleUnload(module))
    check(d.cuLinkDestroy(link))
    missing = check(d.cuLinkCreate(0, [], []))
    assert d.cuLinkAddFile(missing, d.CUjitInputType.CU_JIT_INPUT_PTX, b"/no/such/file.ptx", 0, [], [])[0] != 0
    check(d.cuLinkDestroy(missing))


def test_deprecated_launch_functions_work(module: Any, memory: Any, stream: Any, ints: Any, check: Any) -> None:
    function = check(d.cuModuleGetFunction(module, b"add"))
    check(d.cuFuncSetBlockShape(function, 32, 1, 1))
    check(d.cuFuncSetSharedSize(function, 0))
    pointer = ctypes.c_uint64(int(memory))
    check(d.cuParamSetv(function, 0, ctypes.addressof(pointer), 8))
    check(d.cuParamSeti(function, 8, 5))
    check(d.cuParamSetSize(function, 12))
    check(d.cuLaunch(function))
    check(d.cuLaunchGrid(function, 2, 1))
    check(d.cuLaunchGridAsync(function, 1, 1, stream))
    check(d.cuStreamSynchronize(stream))
    check(d.cuCtxSynchronize())
    assert ints(memory, 1) == [32 * 5 * 4]
    mixed = check(d.cuModuleGetFunction(module, b"mixed"))
    check(d.cuParamSetf(mixed, 0, 0.0))
    check(
        d.cuParamSetf(mixed, 4, 2.125)
    )  # the value (upper half of the double 5.0 x 2^30) does not matter, only that it is accepted


def test_multi_device_cooperative_launch_runs(module: Any, memory: Any, stream: Any, ints: Any, check: Any) -> None:
    function = check(d.cuModuleGetFunction(module, b"add"))
    launch = d.CUDA_LAUNCH_PARAMS()
    launch.function, launch.hStream = function, stream
    for axis in "XYZ":
        setattr(launch, f"gridDim{axis}", 1)
        setattr(launch, f"blockDim{axis}", 1)
    launch.kernelParams = ((memory, 5), (None, ctypes.c_int))
    code = d.cuLaunchCooperativeKernelMultiDevice([launch], 1, 0)[0]
    if code == d.CUresult.CUDA_ERROR_NOT_SUPPORTED:
        pytest.skip("this driver has dropped it")
    assert code == 0
    check(d.cuStreamSynchronize(stream))
    assert ints(memory, 1) == [5]
