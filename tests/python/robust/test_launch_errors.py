# SPDX-License-Identifier: Apache-2.0
"""Launches with invalid shapes or arguments raise an error that names them, before anything is queued."""

import ctypes
from decimal import Decimal
from fractions import Fraction

import pytest
from cuda.bindings import driver
from cuda.core import CUDAError, LaunchConfig, launch

np = pytest.importorskip("numpy")


def works_after(device, stream, kernel):
    buffer = device.allocate(4, stream=stream)
    buffer.fill(0, stream=stream)
    launch(stream, LaunchConfig(grid=1, block=1), kernel("add_one"), buffer, 1)
    back = np.zeros(1, np.int32)
    buffer.copy_to(back, stream=stream)
    assert back[0] == 1


LIMITS = [  # the largest valid shape, and the next larger one
    ({"block": (1024, 1, 1)}, {"block": (1025, 1, 1)}),
    ({"block": (1, 1024, 1)}, {"block": (1, 1025, 1)}),
    ({"block": (1, 1, 64)}, {"block": (1, 1, 65)}),
    ({"block": (32, 32, 1)}, {"block": (32, 33, 1)}),
    ({"grid": (1, 65535, 1)}, {"grid": (1, 65536, 1)}),
    ({"grid": (1, 1, 65535)}, {"grid": (1, 1, 65536)}),
    ({"shmem_size": 48 << 10}, {"shmem_size": (48 << 10) + 1}),
    ({"cluster": 8, "grid": 1}, {"cluster": 9, "grid": 1}),
]


@pytest.mark.promise("A launch outside the device's limits is refused before it is queued, with kernel and shape named")
@pytest.mark.parametrize(("good", "bad"), LIMITS, ids=str)
def test_launch_at_each_limit_works_and_one_past_it_raises(device, stream, kernel, good, bad):
    launch(stream, LaunchConfig(**({"grid": 1, "block": 1} | good)), kernel("nothing"))
    with pytest.raises(CUDAError, match="kernel nothing, grid") as caught:
        launch(stream, LaunchConfig(**({"grid": 1, "block": 1} | bad)), kernel("nothing"))
    assert caught.value.code in (1, 9, 701, 912) and caught.value.name.startswith("CUDA_ERROR_")
    stream.sync()
    works_after(device, stream, kernel)


@pytest.mark.promise("A cooperative launch that cannot fit is error 720")
def test_cooperative_grid_that_does_not_fit_is_a_value_error(device, stream, kernel):
    with pytest.raises(ValueError, match=r"COOPERATIVE_LAUNCH_TOO_LARGE[\s\S]*kernel nothing"):
        launch(stream, LaunchConfig(grid=1 << 24, block=1024, is_cooperative=True), kernel("nothing"))
    works_after(device, stream, kernel)


@pytest.mark.promise("A launch outside the device's limits is refused before it is queued, with kernel and shape named")
@pytest.mark.parametrize("shape", [-1, 0, 2**31, 2**32, 2**64, (1, -1), (), (1, 1, 1, 1), "x", 1.5, None, (None,)])
@pytest.mark.parametrize("which", ["grid", "block", "cluster"])
def test_invalid_launch_shape_raises(stream, kernel, which, shape):
    if (which, shape) in (("cluster", None), ("grid", 2**31)):
        return
    with pytest.raises((TypeError, ValueError, OverflowError, CUDAError)):
        launch(stream, LaunchConfig(**({"grid": 1, "block": 1} | {which: shape})), kernel("nothing"))


class Big(ctypes.Structure):
    _fields_ = [("x", ctypes.c_char * 5000)]


class OneElement:
    """An array of one element of another library: its int() is not its address."""

    __cuda_array_interface__ = {"version": 3}

    def __index__(self):
        return 4096


WRONG = [
    ((), "argument 0"),
    ((1,), "argument 1"),
    ((1, 2.0), "argument 2"),
    ((1, 2.0, 3, 4), "4 were given"),
    (("x", 2.0, 3), "argument 0"),
    ((1, "x", 3), "argument 1"),
    ((1, None, 3), "argument 1"),
    ((None, 2.0, 3), "argument 0.*None"),
    ((Decimal(4096), 2.0, 3), "argument 0"),
    ((Fraction(4096), 2.0, 3), "argument 0"),
    ((OneElement(), 2.0, 3), "argument 0.*array"),
    ((1, 2.0, Big()), "argument 2"),
    ((1, np.float64(2), 3), "argument 1"),
    ((1, 2.0, 2**65), "argument 2"),
    ((1, 2.0, -(2**70)), "argument 2"),
    ((np.zeros(3), 2.0, 3), "argument 0"),
    ((object(), 2.0, 3), "argument 0"),
    (([1], 2.0, 3), "argument 0"),
    (("x" * 100_000, 2.0, 3), "argument 0"),
]


@pytest.mark.promise("A missing, surplus, oversized or mistyped kernel argument is named")
@pytest.mark.parametrize(("arguments", "words"), WRONG, ids=lambda v: str(v)[:40])
def test_wrong_kernel_argument_raises_an_error_that_names_it(device, stream, kernel, arguments, words):
    with pytest.raises((TypeError, OverflowError, ValueError), match=words):
        launch(stream, LaunchConfig(grid=1, block=1), kernel("scale"), *arguments)
    works_after(device, stream, kernel)


@pytest.mark.promise("A missing, surplus, oversized or mistyped kernel argument is named")
@pytest.mark.parametrize(
    "given",
    [
        ((), ()),
        ((0,), (ctypes.c_void_p,)),
        ((0, 1.0, 2, 3), (ctypes.c_void_p, ctypes.c_float, ctypes.c_size_t, ctypes.c_int)),
    ],
)
def test_wrong_number_of_kernel_arguments_of_the_bindings_raises(device, stream, kernel, given):
    error, function = driver.cuKernelGetFunction(kernel("scale").handle)
    assert error == 0
    with pytest.raises((TypeError, ValueError), match="argument"):
        driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream.handle, given, 0)
    works_after(device, stream, kernel)


def test_none_is_passed_as_a_null_pointer(device, stream, kernel):
    for null in (0, np.uintp(0), ctypes.c_void_p(0), driver.CUdeviceptr(0)):
        launch(stream, LaunchConfig(grid=1, block=1), kernel("add_one"), null, 0)
    stream.sync()


@pytest.mark.parametrize("wrong", ["12", b"12", 1.5, Decimal(1), Fraction(1)], ids=repr)
def test_c_integer_argument_accepts_only_integers(device, stream, kernel, wrong):
    values = ((0, wrong), (ctypes.c_void_p, ctypes.c_int))
    with pytest.raises(TypeError, match="an integer is needed"):
        driver.cuLaunchKernel(int(kernel("add_one").handle), 1, 1, 1, 1, 1, 1, 0, stream.handle, values, 0)
    works_after(device, stream, kernel)
