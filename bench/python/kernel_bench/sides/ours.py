# SPDX-License-Identifier: Apache-2.0
"""The kernels on the CPU device."""

from __future__ import annotations

import ctypes
from typing import Any

from ..case import Case, namespace
from ..device import Device, Dim, pointers_to
from . import Arrays, Launches, Run


class Ours:
    name = "ours"

    def __init__(self, device: Device, native: ctypes.CDLL) -> None:
        self.device = device
        self.native = native

    def prepare(self, case: Case, arrays: Arrays) -> Run:
        device = self.device
        memory = {name: ctypes.c_uint64(array.ctypes.data) for name, array in arrays.items()}
        if case.repeat > 1:
            ((kernel, grid, block, arguments),) = case.launches(namespace(memory))
            many = self._many(kernel, grid, block, arguments)
            return lambda: many(case.repeat, True)
        steps: list[Run] = []
        for step in case.launches(namespace(memory)):
            if step[0] == "clear":
                steps.append(lambda m=memory[step[1]], b=case.arrays[step[1]].nbytes: device.clear(m, b))
            else:
                steps.append(device.prepare(*step))

        def run() -> None:
            for step in steps:
                step()
            device.wait()

        return run

    def finish(self) -> None:
        pass

    def launches(self) -> Launches:
        return self._many("empty", (1, 1, 1), (32, 1, 1), [])

    def _many(self, kernel: str, grid: Dim, block: Dim, arguments: list[Any]) -> Launches:
        device, many = self.device, self.native.cuda_launches
        calls = device.address("cuLaunchKernel"), device.address("cuCtxSynchronize"), device.function(kernel)
        shape = (ctypes.c_uint * 3)(*grid), (ctypes.c_uint * 3)(*block)
        pointers = pointers_to(arguments)

        def launch(count: int, wait_each: bool, kept: Any = arguments) -> None:
            code = many(*calls, *shape, pointers, count, int(wait_each))
            if code != 0:
                raise RuntimeError(f"a launch answers {code}")

        return launch
