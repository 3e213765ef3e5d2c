# SPDX-License-Identifier: Apache-2.0
"""A fake of the CuPy functions that the documented snippets use, with NumPy and managed memory, for machines without CuPy."""

from types import SimpleNamespace

import numpy as np
from cuda.bindings import driver
from numpy import float32, uint64  # noqa: F401


class ndarray(np.ndarray):
    """An array in device-accessible memory; `.data.ptr` is its address, as in CuPy."""

    @property
    def data(self):
        return SimpleNamespace(ptr=self.ctypes.data)


def _managed(nbytes):
    err, pointer = driver.cuMemAllocManaged(nbytes, driver.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL.value)
    assert err == driver.CUresult.CUDA_SUCCESS, err
    import ctypes

    return (ctypes.c_uint8 * nbytes).from_address(int(pointer))


def empty(shape, dtype=float32):
    count = int(np.prod(shape))
    dtype = np.dtype(dtype)
    return (
        np.frombuffer(_managed(max(1, count * dtype.itemsize)), dtype=dtype, count=count).reshape(shape).view(ndarray)
    )


def asarray(values):
    result = empty(values.shape, values.dtype)
    result[...] = values
    return result


def zeros(shape, dtype=float32):
    return asarray(np.zeros(shape, dtype))


def ones(shape, dtype=float32):
    return asarray(np.ones(shape, dtype))


def empty_like(array):
    return empty(array.shape, array.dtype)


def allclose(a, b):
    return np.allclose(np.asarray(a), np.asarray(b))


def from_dlpack(producer):
    device_type, _ = producer.__dlpack_device__()
    assert device_type == 2, "a device buffer says it is on a CUDA device"
    return empty(producer.size, np.uint8)  # the host cannot access device memory


class _Generator:
    def __init__(self):
        self.numpy = np.random.default_rng(0)

    def random(self, size, dtype=float32):
        return asarray(self.numpy.random(size, dtype=dtype))


def _randn(n):
    return asarray(np.random.default_rng(0).standard_normal(n))


random = SimpleNamespace(default_rng=_Generator, random=_Generator().random, randn=_randn)
