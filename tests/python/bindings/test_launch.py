# SPDX-License-Identifier: Apache-2.0
"""Kernel arguments in every documented form, and callbacks."""

from __future__ import annotations

import ctypes
import enum
import threading
from typing import Any

import pytest
from cuda.bindings import driver, runtime

SOURCE = """
typedef struct { int value; } testStruct;
extern "C" __global__ void testkernel(int i, int *pi, float f, float *pf, testStruct s, testStruct *ps)
{ *pi = i; *pf = f; ps->value = s.value; }
"""


class testStruct(ctypes.Structure):
    _fields_ = [("value", ctypes.c_int)]


class Number(enum.IntEnum):
    ELEVEN = 11


class Plain(enum.Enum):
    TWELVE = 12


@pytest.fixture
def cells(context: Any, check: Any) -> Any:
    """Three device cells and a function that reads them."""
    made = [check(runtime.cudaMalloc(4)) for _ in range(3)]
    assert all(type(p) is int for p in made)

    def read() -> tuple[int, float, int]:
        values = (ctypes.c_int(), ctypes.c_float(), ctypes.c_int())
        for value, cell in zip(values, made, strict=True):
            check(driver.cuMemcpyDtoH(ctypes.addressof(value), cell, 4))
        return tuple(v.value for v in values)  # type: ignore[return-value]

    yield made, read
    for cell in made:
        check(runtime.cudaFree(cell))


@pytest.fixture
def launch(compile_kernel: Any, stream: Any, check: Any) -> Any:
    kernel = compile_kernel(SOURCE, "testkernel")

    def run(params: Any) -> None:
        check(driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, kernelParams=params, extra=0))
        check(driver.cuStreamSynchronize(stream))

    run.kernel = kernel  # type: ignore[attr-defined]
    return run


TYPES = (ctypes.c_int, ctypes.c_void_p, ctypes.c_float, ctypes.c_void_p, None, ctypes.c_void_p)


def test_kernel_params_accept_a_numpy_array_of_addresses(launch: Any, cells: Any) -> None:
    np = pytest.importorskip("numpy")
    (a, b, c), read = cells
    struct = np.dtype([("value", np.int32)], align=True)
    values = (np.array(1, dtype=np.uint32), np.array([a], dtype=np.intp), np.array(123.5, dtype=np.float32),
              np.array([b], dtype=np.intp), np.array([5], struct), np.array([c], dtype=np.intp))  # fmt: skip
    params = np.array([v.ctypes.data for v in values], dtype=np.intp)
    launch(params)
    assert read() == (1, 123.5, 5)
    values[0][...] = 2
    launch(params.ctypes.data)
    assert read() == (2, 123.5, 5)


def test_kernel_params_accept_ctypes_types_and_none(launch: Any, cells: Any) -> None:
    (a, b, c), read = cells
    launch(((7, a, 2.5, b, testStruct(9), c), TYPES))
    assert read() == (7, 2.5, 9)
    launch(((7, a, 2.5, b, Number.ELEVEN, c), TYPES))
    assert read() == (7, 2.5, 11)
    launch(((7, a, 2.5, b, Plain.TWELVE, c), TYPES))
    assert read() == (7, 2.5, 12)
    pointer = driver.CUdeviceptr(a)
    launch(((driver.CUlimit.CU_LIMIT_SHMEM_SIZE, pointer, 2.5, b, testStruct(1), c), (None, None, *TYPES[2:])))
    assert read() == (int(driver.CUlimit.CU_LIMIT_SHMEM_SIZE), 2.5, 1)
    launch(((ctypes.c_int(3), ctypes.c_void_p(a), ctypes.c_float(0.5), b, testStruct(4), c), TYPES))
    assert read() == (3, 0.5, 4)


PLAIN = (*TYPES[:4], ctypes.c_int, TYPES[5])  # a struct of one int is passed as an int


@pytest.mark.parametrize("number", [0, -1, 2**31 - 1, 2**32 - 1, -(2**31), 2**40 + 5])
def test_plain_kernel_params_are_converted_in_every_launch(launch: Any, cells: Any, number: int) -> None:
    """The first launch of a kernel queries its parameters; later launches use the cached layout."""
    (a, b, c), read = cells
    for turn in range(3):
        launch(((number, a, turn + 0.25, b, turn, c), PLAIN))
        assert read() == (ctypes.c_int(number).value, turn + 0.25, turn)
        launch(((turn, a, turn, b, 1, c), PLAIN))  # an int as a float argument
        assert read() == (turn, turn, 1)
        with pytest.raises(TypeError, match="is missing: 5 were given"):
            launch(((number, a, 0.25, b, turn), PLAIN[:5]))
        with pytest.raises(TypeError, match="takes fewer than the 7"):
            launch(((number, a, 0.25, b, turn, c, 1), (*PLAIN, ctypes.c_int)))
        with pytest.raises(TypeError, match="must be a number"):
            launch(((number, a, "x", b, turn, c), PLAIN))


def test_launch_with_a_config(launch: Any, cells: Any, stream: Any, check: Any) -> None:
    (a, b, c), read = cells
    config = driver.CUlaunchConfig()
    for axis in "XYZ":
        setattr(config, f"gridDim{axis}", 1)
        setattr(config, f"blockDim{axis}", 1)
    config.hStream = stream
    check(driver.cuLaunchKernelEx(config, launch.kernel, ((21, a, 1.5, b, testStruct(22), c), TYPES), 0))
    check(driver.cuStreamSynchronize(stream))
    assert read() == (21, 1.5, 22)


def test_wrong_kernel_params_raise_an_error_that_names_them(launch: Any) -> None:
    with pytest.raises(TypeError, match="2 values but 1 types"):
        launch(((1, 2), (ctypes.c_int,)))
    with pytest.raises(TypeError, match=r"kernelParams\[0\]: type None needs an object with getPtr"):
        launch((("x",), (None,)))
    with pytest.raises(TypeError, match=r"kernelParams\[0\]: an integer is needed, got str"):
        launch((("x",), (ctypes.c_int,)))
    with pytest.raises(TypeError, match="must be a pair"):
        launch((1, 2, 3))


def test_a_python_callable_is_a_host_function(stream: Any, check: Any) -> None:
    seen: list[Any] = []
    user = {"an": "object"}
    check(driver.cuLaunchHostFunc(stream, lambda data: seen.append((data, threading.get_ident())), user))
    check(driver.cuStreamSynchronize(stream))
    assert seen[0][0] is user


def test_a_stream_callback_gets_stream_status_and_data(stream: Any, check: Any) -> None:
    seen: list[Any] = []
    check(driver.cuStreamAddCallback(stream, lambda *arguments: seen.append(arguments), "data", 0))
    check(driver.cuStreamSynchronize(stream))
    assert seen == [(int(stream), 0, "data")]


def test_a_ctypes_function_is_a_host_function(stream: Any, check: Any) -> None:
    seen: list[int] = []
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda pointer: seen.append(pointer))
    check(driver.cuLaunchHostFunc(stream, function, 77))
    check(driver.cuStreamSynchronize(stream))
    assert seen == [77]


def test_exception_in_a_callback_is_reported(stream: Any, check: Any) -> None:
    import sys

    reports: list[Any] = []
    old, sys.unraisablehook = sys.unraisablehook, reports.append
    try:
        check(driver.cuLaunchHostFunc(stream, lambda data: 1 / 0, None))
        check(driver.cuStreamSynchronize(stream))
    finally:
        sys.unraisablehook = old
    assert reports and reports[0].exc_type is ZeroDivisionError


def test_occupancy_calls_a_python_function(launch: Any, check: Any) -> None:
    asked: list[int] = []

    def shared(block_size: int) -> int:
        asked.append(block_size)
        return 0

    _, size = check(driver.cuOccupancyMaxPotentialBlockSize(launch.kernel, shared, 0, 0))
    assert size > 0
    assert asked
