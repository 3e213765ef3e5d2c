# SPDX-License-Identifier: Apache-2.0
"""Import statements of released packages work: the names that numba-cuda, cuda-cccl, nvmath-python and others import."""

from __future__ import annotations

import importlib

import pytest

# module -> names, and the packages that import them
IMPORTED = {
    "cuda.bindings._internal": ("_fast_enum nvjitlink nvvm utils", "numba-cuda 0.20 to 0.30, numba-cuda-mlir 0.6"),
    "cuda.bindings._internal.nvvm": ("_inspect_function_pointer", "numba-cuda 0.30"),
    "cuda.bindings._internal.utils": ("NotSupportedError", "numba-cuda 0.20 to 0.30, numba-cuda-mlir 0.6"),
    "cuda.bindings.utils": ("get_cuda_native_handle", "numba-cuda 0.24 to 0.30, nvshmem4py 0.4"),
    "cuda.core": (
        "Buffer Device Event Kernel LaunchConfig Linker LinkerOptions MemoryResource ObjectCode Program ProgramOptions Stream "
        "__version__ launch system",
        "nvmath-python 1.0, numba-cuda 0.24 to 0.30, cuda-cccl 1.2, dask-cuda 26.10, ucxx 0.52",
    ),
    "cuda.core._memoryview": ("StridedMemoryView", "numba-cuda-mlir 0.6"),
    "cuda.core._utils.cuda_utils": ("CUDAError NVRTCError handle_return", "numba-cuda 0.24 to 0.30, cuda-cccl 1.2"),
    "cuda.core.experimental": (
        "Device LaunchConfig Linker LinkerOptions ObjectCode Program ProgramOptions Stream launch system",
        "numba-cuda 0.20 to 0.24, cuda-cccl 0.4, dask-cuda 26.10, cudnn-frontend 1.32",
    ),
    "cuda.core.experimental._utils.cuda_utils": (
        "CUDAError NVRTCError handle_return",
        "numba-cuda 0.24, cuda-cccl 0.4",
    ),
    "cuda.core.graph": ("GraphBuilder", "numba-cuda 0.30"),
    "cuda.core.utils": ("StridedMemoryView", "numba-cuda 0.30, nvmath-python 1.0"),
    "cuda.pathfinder": ("find_nvidia_header_directory load_nvidia_dynamic_lib", "cuda-cccl 1.2, nvshmem4py 0.4"),
}
NAMES = [(module, name) for module, (names, _) in IMPORTED.items() for name in names.split()]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(("module", "name"), NAMES, ids=[f"{m}.{n}" for m, n in NAMES])
def test_name_that_released_packages_import_exists(module: str, name: str) -> None:
    found = importlib.import_module(module)
    if not hasattr(found, name):  # a submodule
        importlib.import_module(f"{module}.{name}")
