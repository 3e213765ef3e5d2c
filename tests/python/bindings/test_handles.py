# SPDX-License-Identifier: Apache-2.0
"""Handles, None and integers are interchangeable; handles of different types are not."""

from __future__ import annotations

import ctypes
import os
import pickle
import subprocess
import sys

import pytest
from cuda.bindings import driver, runtime


def test_handle_has_a_number_and_a_type() -> None:
    handle = driver.CUstream(7)
    assert int(handle) == 7
    assert handle == driver.CUstream(7)
    assert handle != 7
    assert hash(handle) == hash(7)
    assert repr(handle) == "<CUstream 0x7>"
    assert repr(driver.CUdevice(3)) == "<CUdevice 3>"


def test_handle_hash_and_repr_follow_its_number() -> None:
    for number in (0, 1, 2**61 - 2, 2**61 - 1, 2**61, 2**64 - 1):
        handle = driver.CUdeviceptr(number)
        assert hash(handle) == hash(number) and handle == driver.CUdeviceptr(init_value=number)
        assert repr(handle) == f"<CUdeviceptr {number}>"
    assert hash(driver.CUdevice(-1)) == hash(-1) and repr(driver.CUdevice(-7)) == "<CUdevice -7>"
    handle = driver.CUstream(7)
    assert not handle == None and handle != None and not handle == 7.0  # noqa: E711, SIM201
    assert handle != "7" and handle != driver.CUevent(7) and {handle: 1}[driver.CUstream(7)] == 1


def test_get_ptr_is_the_address_of_the_value() -> None:
    handle = driver.CUdeviceptr(0x1234)
    assert ctypes.c_uint64.from_address(handle.getPtr()).value == 0x1234


def test_ptr_argument_reads_the_handle_from_memory() -> None:
    memory = ctypes.c_uint64(99)
    handle = driver.CUevent(_ptr=ctypes.addressof(memory))
    memory.value = 100
    assert int(handle) == 100


def test_runtime_handles_derive_from_driver_handles() -> None:
    assert issubclass(runtime.cudaStream_t, driver.CUstream)
    assert runtime.cudaStream_t(5) == driver.CUstream(5)


def test_stream_handle_implements_the_stream_protocol() -> None:
    assert driver.CUstream(9).__cuda_stream__() == (0, 9)


def test_handles_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(driver.CUstream(3))) == driver.CUstream(3)


def test_none_zero_and_handle_mean_the_same_stream(context: object) -> None:
    for stream in (None, 0, driver.CUstream(0), driver.CUstream(), runtime.cudaStream_t(0)):
        assert driver.cuStreamSynchronize(stream) == (0,)


def test_handle_of_another_type_raises() -> None:
    with pytest.raises(TypeError, match=r"cuStreamQuery\(\): hStream must be CUstream, not .*CUevent"):
        driver.cuStreamQuery(driver.CUevent(0))


def test_an_object_with_the_stream_protocol_is_a_stream(context: object) -> None:
    class Stream:
        def __cuda_stream__(self) -> tuple[int, int]:
            return (0, 0)

    assert driver.cuStreamSynchronize(Stream()) == (0,)


@pytest.mark.parametrize("value", [-1, 1 << 64])
def test_handle_value_out_of_range_raises(value: int) -> None:
    with pytest.raises(OverflowError, match="init_value"):
        driver.CUstream(value)


def test_handle_constructor_accepts_every_argument_form() -> None:
    assert int(driver.CUstream()) == int(driver.CUstream(None)) == 0
    assert int(driver.CUstream(init_value=7)) == int(driver.CUstream(driver.CUstream(7))) == 7
    memory = ctypes.c_uint64(9)
    assert int(driver.CUevent(5, ctypes.addressof(memory))) == 9
    for wrong in (
        lambda: driver.CUstream(1, 2, 3),
        lambda: driver.CUstream(value=1),
        lambda: driver.CUDA_MEMCPY3D(1, 2),
    ):
        with pytest.raises(TypeError):
            wrong()
    extent = runtime.make_cudaExtent(2, 3, 4)
    assert runtime.cudaExtent(_ptr=extent.getPtr()).height == runtime.cudaExtent(extent.getPtr()).height == 3
    assert driver.CUtensorMap().getPtr() % 64 == 0


def test_user_class_can_derive_from_a_handle_or_a_struct() -> None:
    class Mine(driver.CUstream):
        def __init__(self, value: int, name: str = "") -> None:
            self.name = name

        def __new__(cls, value: int, name: str = "") -> Mine:
            return super().__new__(cls, value)

    made = Mine(7, name="seven")
    assert (int(made), made.name, isinstance(made, driver.CUstream)) == (7, "seven", True)

    class Extent(runtime.cudaExtent):
        @property
        def volume(self) -> int:
            return self.width * self.height * self.depth

    extent = Extent()
    extent.width, extent.height, extent.depth = 2, 3, 4
    assert extent.volume == 24


@pytest.mark.cpu_only  # NVIDIA's driver dereferences such a handle
def test_destroyed_handle_raises_an_error_that_names_the_function(context: object) -> None:
    from cuda.bindings.driver import raising as cu

    pool = driver.CUmemPoolProps()
    pool.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    pool.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    made = [
        (cu.cuStreamCreate(0), cu.cuStreamDestroy, cu.cuStreamQuery),
        (cu.cuEventCreate(0), cu.cuEventDestroy, cu.cuEventQuery),
        (cu.cuGraphCreate(0), cu.cuGraphDestroy, cu.cuGraphClone),
        (cu.cuMemPoolCreate(pool), cu.cuMemPoolDestroy, lambda p: cu.cuMemPoolTrimTo(p, 0)),
    ]
    for handle, destroy, use in made:
        destroy(handle)
        for call in (use, destroy):
            with pytest.raises(cu.CUDABindingsError, match=r"^cu\w+: CUDA_ERROR_(INVALID|CONTEXT)"):
                call(handle)


@pytest.mark.cpu_only
@pytest.mark.parametrize("call", ["driver.cuInit(0)", "runtime.cudaFree(0)", "nvml.init_v2()"])
def test_missing_library_raises_an_error_that_says_where_to_look(call: str) -> None:
    program = f"from cuda.bindings import driver, nvml, runtime\nprint({call})"
    environment = {**os.environ, "CUCORE_DEVICE": "gpu"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 0 and call.startswith("runtime"):
        assert "cudaErrorInsufficientDriver" in done.stdout or "cudaErrorNoDevice" in done.stdout
        return
    if done.returncode == 0:
        pytest.skip("the library is here")
    assert done.returncode == 1 and "Error: " in done.stderr
    assert ("cucore info --why nvml" if call.startswith("nvml") else "libcuda.so") in done.stderr, done.stderr


@pytest.mark.parametrize("name", ["cuuint32_t", "VdpDevice", "GLenum", "GLuint", "CUlogicalEndpointId"])
def test_unsigned_integers_of_32_bits_keep_their_value(name: str) -> None:
    cls = getattr(driver, name)
    largest = cls(4294967295)
    assert int(largest) == 4294967295 and "4294967295" in repr(largest)
    assert largest == cls(4294967295) and hash(largest) == hash(4294967295)
    assert pickle.loads(pickle.dumps(largest)) == largest
    for wrong in (-1, 1 << 32):
        with pytest.raises(OverflowError, match="between 0 and 4294967295"):
            cls(wrong)


@pytest.mark.parametrize("name", ["CUdevice", "EGLint"])
def test_signed_integers_of_32_bits_do_not_wrap(name: str) -> None:
    cls = getattr(driver, name)
    assert int(cls(-2)) == -2 and int(cls(2147483647)) == 2147483647
    for wrong in (1 << 31, -(1 << 31) - 1):
        with pytest.raises(OverflowError, match="between -2147483648 and 2147483647"):
            cls(wrong)


def test_device_number_out_of_range_raises() -> None:
    with pytest.raises(OverflowError, match="2147483648"):
        driver.cuDeviceGetName(16, 1 << 31)


def test_an_unsigned_field_of_a_struct_keeps_its_value() -> None:
    op = driver.CUstreamBatchMemOpParams()
    op.waitValue.value = 4294967295
    assert int(op.waitValue.value) == 4294967295
    op.waitValue.value = driver.cuuint32_t(4294967294)
    assert int(op.waitValue.value) == 4294967294
