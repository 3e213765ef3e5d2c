# SPDX-License-Identifier: Apache-2.0
"""The kernels of bench/cpp/kernels/source.cl in OpenCL C on PoCL; other kernels are skipped."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

import numpy as np

from ..case import Case, namespace
from ..device import Dim
from . import Arrays, Launches, NotHere, Run

HOW = "apt install pocl-opencl-icd, then make bench-setup"
SCALARS: dict[Any, Any] = {ctypes.c_float: np.float32, ctypes.c_int: np.int32, ctypes.c_uint: np.uint32}


class Pocl:
    name = "PoCL"

    def __init__(self, source: Path, native: ctypes.CDLL) -> None:
        self.native = native
        self.memory: dict[str, Any] = {}
        try:
            import pyopencl
        except ImportError as error:
            raise NotHere(f"{error}: {HOW}") from error
        self.cl = pyopencl
        try:
            platforms = pyopencl.get_platforms()
        except pyopencl.Error as error:
            raise NotHere(f"{error}: {HOW}") from error
        found = [p for p in platforms if "Portable Computing Language" in p.name]
        if not found:
            raise NotHere(f"among {len(platforms)} OpenCL platforms there is no PoCL: {HOW}")
        device = found[0].get_devices(pyopencl.device_type.CPU)[0]
        version = re.search(r"PoCL [\d.]+", found[0].version)
        self.version = version[0] if version else found[0].version
        self.context = pyopencl.Context([device])
        self.queue = pyopencl.CommandQueue(self.context)
        self.program = pyopencl.Program(self.context, source.read_text()).build()
        self.kernels = {kernel.function_name for kernel in self.program.all_kernels()}

    def _kernel(self, name: str, arguments: list[Any]) -> Any:
        cl = self.cl
        kernel = cl.Kernel(self.program, name)  # a separate kernel object, because arguments are set once
        for index, argument in enumerate(arguments):
            kernel.set_arg(index, SCALARS[type(argument)](argument.value) if type(argument) in SCALARS else argument)
        return kernel

    def _launch(self, name: str, grid: Dim, block: Dim, arguments: list[Any]) -> Run:
        cl, queue, kernel = self.cl, self.queue, self._kernel(name, arguments)
        everywhere, group = _shape(grid, block)
        return lambda: cl.enqueue_nd_range_kernel(queue, kernel, everywhere, group)

    def _many(self, name: str, grid: Dim, block: Dim, arguments: list[Any]) -> Launches:
        library = ctypes.CDLL("libOpenCL.so.1")
        kernel = self._kernel(name, arguments)
        calls = library.clEnqueueNDRangeKernel, library.clFinish
        handles = ctypes.c_void_p(self.queue.int_ptr), ctypes.c_void_p(kernel.int_ptr)
        everywhere, group = ((ctypes.c_size_t * len(sizes))(*sizes) for sizes in _shape(grid, block))

        def launch(count: int, wait_each: bool, kept: Any = kernel) -> None:
            code = self.native.opencl_launches(*calls, *handles, len(group), everywhere, group, count, int(wait_each))
            if code != 0:
                raise RuntimeError(f"a launch answers {code}")

        return launch

    def prepare(self, case: Case, arrays: Arrays) -> Run | None:
        cl, queue = self.cl, self.queue
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
        names = [step[0] for step in case.launches(namespace(dict.fromkeys(case.arrays))) if step[0] != "clear"]
        if not set(names) <= self.kernels:
            return None
        memory = {name: cl.Buffer(self.context, flags, hostbuf=array) for name, array in arrays.items()}
        many = self._many(*case.launches(namespace(memory))[0]) if case.repeat > 1 else None
        steps: list[Run] = []
        for step in case.launches(namespace(memory)):
            if step[0] == "clear":
                size = case.arrays[step[1]].nbytes
                steps.append(lambda m=memory[step[1]], b=size: cl.enqueue_fill_buffer(queue, m, np.uint8(0), 0, b))
            else:
                steps.append(self._launch(*step))

        def run() -> None:
            if many:
                return many(case.repeat, True)
            for step in steps:
                step()
            queue.finish()

        self.memory = memory
        return run

    def finish(self) -> None:
        for buffer in self.memory.values():
            buffer.release()
        self.memory = {}

    def launches(self) -> Launches:
        return self._many("empty", (1, 1, 1), (32, 1, 1), [])


def _shape(grid: Dim, block: Dim) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Global and local work size, in as many dimensions as are used."""
    used = 3 if grid[2] * block[2] > 1 else 2 if grid[1] * block[1] > 1 else 1
    return tuple(g * b for g, b in zip(grid, block, strict=True))[:used], tuple(block)[:used]
