"""The same kernels in OpenCL C on PoCL. Kernels that bench/cpp/kernels/source.cl does not have are left out."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

import numpy as np

from ..case import Case, namespace, placed
from . import Fetch, Launches, NotHere, Run

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

    def _launch(self, name: str, grid: tuple[int, ...], block: tuple[int, ...], arguments: list[Any]) -> Run:
        cl, queue = self.cl, self.queue
        kernel = cl.Kernel(self.program, name)  # one of its own: arguments are set once
        for index, argument in enumerate(arguments):
            kernel.set_arg(index, SCALARS[type(argument)](argument.value) if type(argument) in SCALARS else argument)
        used = 3 if grid[2] * block[2] > 1 else 2 if grid[1] * block[1] > 1 else 1
        everywhere = tuple(g * b for g, b in zip(grid, block, strict=True))[:used]
        return lambda: cl.enqueue_nd_range_kernel(queue, kernel, everywhere, tuple(block)[:used])

    def prepare(self, case: Case) -> tuple[Run, Fetch] | None:
        cl, queue = self.cl, self.queue
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
        names = [step[0] for step in case.launches(namespace(dict.fromkeys(case.arrays))) if step[0] != "clear"]
        if not set(names) <= self.kernels:
            return None
        memory = {name: cl.Buffer(self.context, flags, hostbuf=placed(array)) for name, array in case.arrays.items()}
        steps: list[Run] = []
        for step in case.launches(namespace(memory)):
            if step[0] == "clear":
                size = case.arrays[step[1]].nbytes
                steps.append(lambda m=memory[step[1]], b=size: cl.enqueue_fill_buffer(queue, m, np.uint8(0), 0, b))
            else:
                steps.append(self._launch(*step))

        def run() -> None:
            for _ in range(case.repeat):
                for step in steps:
                    step()
                if case.wait_each:
                    queue.finish()
            queue.finish()

        def fetch(name: str) -> np.ndarray:
            result = np.empty_like(case.arrays[name])
            cl.enqueue_copy(queue, result, memory[name])
            queue.finish()
            return result

        self.memory = memory
        return run, fetch

    def finish(self) -> None:
        for buffer in self.memory.values():
            buffer.release()
        self.memory = {}

    def launches(self) -> Launches:
        library = ctypes.CDLL("libOpenCL.so.1")
        enqueue, finish = library.clEnqueueNDRangeKernel, library.clFinish
        kernel = self.cl.Kernel(self.program, "empty")
        queue = ctypes.c_void_p(self.queue.int_ptr)

        def launch(count: int, wait_each: bool) -> None:
            code = self.native.opencl_launches(
                enqueue, finish, queue, ctypes.c_void_p(kernel.int_ptr), count, int(wait_each)
            )
            if code != 0:
                raise RuntimeError(f"a launch answers {code}")

        return launch
