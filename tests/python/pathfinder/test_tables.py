# SPDX-License-Identifier: Apache-2.0
"""The public tables and classes of pathfinder."""

import pickle

import pytest
from cuda import pathfinder


def test_supported_libraries_of_the_toolkit_are_listed():
    names = pathfinder.SUPPORTED_NVIDIA_LIBNAMES
    assert isinstance(names, tuple)
    assert len(names) == 29
    assert names[:5] == ("cudart", "nvfatbin", "nvJitLink", "nvrtc", "nvvm")
    assert names[-3:] == ("cupti", "cudla", "cufile")


def test_headers_table_has_an_identifying_file_for_each_set():
    table = pathfinder.SUPPORTED_HEADERS_CTK
    assert len(table) == 17
    assert table["cccl"] == "cuda/std/version"
    assert table["profiler"] == "cuda_profiler_api.h"


def test_static_bitcode_and_program_tables_are_complete():
    assert pathfinder.SUPPORTED_STATIC_LIBS == ("cudadevrt",)
    assert pathfinder.SUPPORTED_BITCODE_LIBS == ("device", "nccl_device", "nvshmem_device")
    assert pathfinder.SUPPORTED_BINARY_UTILITIES[0] == "nvcc"
    assert len(pathfinder.SUPPORTED_BINARY_UTILITIES) == 16


def test_loaded_dl_compares_by_value_and_repr_shows_fields():
    one = pathfinder.LoadedDL("/a/libx.so", False, 7, "conda")
    assert one == pathfinder.LoadedDL("/a/libx.so", False, 7, "conda")
    assert one != pathfinder.LoadedDL("/a/libx.so", True, 7, "conda")
    assert repr(one) == (
        "LoadedDL(abs_path='/a/libx.so', was_already_loaded_from_elsewhere=False, _handle_uint=7, found_via='conda')"
    )


def test_located_files_are_frozen_hashable_and_picklable():
    one = pathfinder.LocatedStaticLib("cudadevrt", "/a/libcudadevrt.a", "libcudadevrt.a", "CUDA_PATH")
    with pytest.raises(AttributeError):
        one.name = "other"
    assert pickle.loads(pickle.dumps(one)) == one
    assert hash(one) == hash(pickle.loads(pickle.dumps(one)))


def test_unknown_name_raises_the_documented_exception():
    with pytest.raises(pathfinder.DynamicLibUnknownError, match="nothing"):
        pathfinder.load_nvidia_dynamic_lib("nothing")
    with pytest.raises(RuntimeError):
        pathfinder.find_nvidia_header_directory("nothing")
    with pytest.raises(ValueError, match="nothing"):
        pathfinder.find_static_lib("nothing")
    with pytest.raises(ValueError, match="nothing"):
        pathfinder.find_bitcode_lib("nothing")
    with pytest.raises(pathfinder.UnsupportedBinaryError):
        pathfinder.find_nvidia_binary_utility("nothing")


def test_exceptions_have_the_documented_bases():
    assert issubclass(pathfinder.DynamicLibUnknownError, pathfinder.DynamicLibNotFoundError)
    assert issubclass(pathfinder.DynamicLibNotAvailableError, pathfinder.DynamicLibNotFoundError)
    assert issubclass(pathfinder.DynamicLibNotFoundError, RuntimeError)
    assert "win" in str(pathfinder.UnsupportedArchError("win-mips"))
