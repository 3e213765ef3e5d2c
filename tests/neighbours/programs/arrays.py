# SPDX-License-Identifier: Apache-2.0
"""An array in device memory with the CUDA array interface, for packages that bring none."""

from __future__ import annotations

from typing import Any

import numpy as np
from cuda.bindings import driver
from cuda.core import Device

device = Device()
device.set_current()
stream = device.default_stream


class DeviceArray:
    def __init__(self, values: Any) -> None:
        self.values = np.ascontiguousarray(values)
        self.shape, self.dtype, self.ndim = self.values.shape, self.values.dtype, self.values.ndim
        self.size, self.nbytes = self.values.size, self.values.nbytes
        self.buffer = device.allocate(max(self.nbytes, 1), stream=stream)
        driver.cuMemcpyHtoD(int(self.buffer.handle), self.values.ctypes.data, self.nbytes)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (int(self.buffer.handle), False),
            "strides": None,
            "version": 3,
        }

    def data_ptr(self) -> int:
        return int(self.buffer.handle)

    def get(self) -> Any:
        stream.sync()
        out = np.empty_like(self.values)
        code = driver.cuMemcpyDtoH(out.ctypes.data, int(self.buffer.handle), out.nbytes)[0]
        assert code == 0, code
        return out


def random(*shape: int, kind: str = "float32") -> DeviceArray:
    return DeviceArray((np.random.default_rng(sum(shape)).random(shape) - 0.5).astype(kind))


def zeros(*shape: int, kind: str = "float32") -> DeviceArray:
    return DeviceArray(np.zeros(shape, kind))
