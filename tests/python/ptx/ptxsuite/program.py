# SPDX-License-Identifier: Apache-2.0
"""A CUDA C++ program on the device under test."""

from __future__ import annotations

import ctypes
import functools

import numpy as np

from .device import Device, Memory
from .nvrtc import compile_ptx

_CTYPES = {"int": ctypes.c_int, "float": ctypes.c_float}


@functools.cache
def device() -> Device:
    return Device()


class Program:
    """Compiled source; `run` launches a kernel and waits for it."""

    def __init__(self, source: str, *options: str, arch: str = "compute_90") -> None:
        self.ptx = compile_ptx(source, *options, arch=arch)
        self.module = device().load(self.ptx)

    @classmethod
    def of_ptx(cls, text: str) -> Program:
        """A program from PTX text."""
        program = cls.__new__(cls)
        program.ptx = text.encode()
        program.module = device().load(program.ptx)
        return program

    def run(
        self,
        kernel: str,
        grid: int | tuple[int, int, int],
        block: int | tuple[int, int, int],
        *arguments: object,
        shared: int = 0,
        cooperative: bool = False,
    ) -> None:
        """Passes arrays as device memory and copies them back; numbers by their Python type; ctypes values unchanged."""
        held: list[tuple[np.ndarray, Memory]] = []
        values: list[object] = []
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                held.append((argument, device().memory(argument)))
                values.append(held[-1][1].address)
            elif isinstance(argument, (int, float)):
                values.append(_CTYPES[type(argument).__name__](argument))
            else:
                values.append(argument)
        device().launch(device().function(self.module, kernel), grid, block, values, shared, cooperative)
        device().sync()
        for array, memory in held:
            array[...] = memory.read(array.dtype, array.size).reshape(array.shape)
            memory.free()

    def variable(self, name: str) -> tuple[int, int]:
        """Address and size of a module variable."""
        address, size = ctypes.c_uint64(), ctypes.c_size_t()
        device().call("cuModuleGetGlobal_v2", ctypes.byref(address), ctypes.byref(size), self.module, name.encode())
        return address.value, size.value
