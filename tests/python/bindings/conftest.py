# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the tests of cuda.bindings: a current context on the device of CUCORE_DEVICE, a compiler, a result checker."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cuda.bindings import driver, nvrtc


def checked(result: tuple[Any, ...]) -> Any:
    """Returns the values of a result tuple; an error code fails the test."""
    code, *values = result
    assert code == 0, f"{code!r}"
    if not values:
        return None
    return values[0] if len(values) == 1 else tuple(values)


@pytest.fixture
def check() -> Callable[[tuple[Any, ...]], Any]:
    return checked


@pytest.fixture
def since(device: Any) -> Callable[[int], None]:
    """since(version): skips the rest of a test if the driver is older than the CUDA version."""
    version = checked(driver.cuDriverGetVersion())

    def need(wanted: int) -> None:
        if version < wanted:
            pytest.skip(
                f"new in CUDA {wanted // 1000}.{wanted // 10 % 100}; the driver is {version // 1000}.{version // 10 % 100}"
            )

    return need


@pytest.fixture
def ints(context: Any) -> Callable[[Any, int], list[int]]:
    """ints(pointer, n): reads n integers from device memory."""

    def read(pointer: Any, n: int) -> list[int]:
        back = (ctypes.c_int * n)()
        checked(driver.cuMemcpyDtoH(back, pointer, ctypes.sizeof(back)))
        return list(back)

    return read


@pytest.fixture
def memory(context: Any) -> Iterator[Any]:
    """A page of zeros on the device."""
    made = checked(driver.cuMemAlloc(4096))
    checked(driver.cuMemsetD8(made, 0, 4096))
    yield made
    checked(driver.cuMemFree(made))


@pytest.fixture
def device() -> Any:
    checked(driver.cuInit(0))
    return checked(driver.cuDeviceGet(0))


@pytest.fixture
def context(device: Any) -> Iterator[Any]:
    made = checked(driver.cuDevicePrimaryCtxRetain(device))
    checked(driver.cuCtxSetCurrent(made))
    yield made
    checked(driver.cuCtxSynchronize())
    checked(driver.cuDevicePrimaryCtxRelease(device))


@pytest.fixture
def stream(context: Any) -> Iterator[Any]:
    made = checked(driver.cuStreamCreate(0))
    yield made
    checked(driver.cuStreamDestroy(made))


@pytest.fixture
def compile_ptx() -> Callable[..., bytes]:
    """compile_ptx(source, architecture): PTX; the default architecture runs on every current device."""

    def build(source: str | bytes, architecture: str = "compute_75") -> bytes:
        text = source.encode() if isinstance(source, str) else source
        program = checked(nvrtc.nvrtcCreateProgram(text, b"test.cu", 0, [], []))
        checked(nvrtc.nvrtcCompileProgram(program, 1, [f"--gpu-architecture={architecture}"]))
        code = bytes(checked(nvrtc.nvrtcGetPTX(program, checked(nvrtc.nvrtcGetPTXSize(program)))))
        checked(nvrtc.nvrtcDestroyProgram(program))
        return code

    return build


@pytest.fixture
def compile_kernel(context: Any, device: Any, compile_ptx: Any) -> Callable[[str, str], Any]:
    """compile_kernel(source, name): a CUfunction."""
    attribute = driver.CUdevice_attribute

    def build(source: str, name: str) -> Any:
        major = checked(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
        minor = checked(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))
        ptx = compile_ptx(source, f"compute_{major}{minor}")
        return checked(driver.cuModuleGetFunction(checked(driver.cuModuleLoadData(ptx)), name.encode()))

    return build


@pytest.fixture
def timeline_file() -> tuple[int, mmap.mmap]:
    """A timeline semaphore of the CPU device: a file whose first eight bytes are the counter, and its mapping."""
    fd = os.memfd_create("timeline")
    os.ftruncate(fd, 4096)
    return fd, mmap.mmap(fd, 4096)


@pytest.fixture
def fence() -> Callable[[Any, int], Any]:
    """fence(cls, value): parameters of the driver or the runtime with a timeline value."""

    def params(cls: Any, value: int) -> Any:
        made = cls()
        made.params.fence.value = value
        return made

    return params
