"""The kernels on the CPU device."""

from __future__ import annotations

import ctypes
from typing import Any

from ..case import Case, namespace
from ..device import Device
from . import Fetch, Launches, Run


class Ours:
    name = "ours"

    def __init__(self, device: Device, native: ctypes.CDLL) -> None:
        self.device = device
        self.native = native
        self.memory: dict[str, Any] = {}

    def prepare(self, case: Case) -> tuple[Run, Fetch]:
        device = self.device
        memory = self.memory = {name: device.upload(array) for name, array in case.arrays.items()}
        steps: list[Run] = []
        for step in case.launches(namespace(memory)):
            if step[0] == "clear":
                steps.append(lambda m=memory[step[1]], b=case.arrays[step[1]].nbytes: device.clear(m, b))
            else:
                steps.append(device.prepare(*step))

        def run() -> None:
            for _ in range(case.repeat):
                for step in steps:
                    step()
                if case.wait_each:
                    device.wait()
            device.wait()

        return run, lambda name: device.download(memory[name], case.arrays[name])

    def finish(self) -> None:
        for memory in self.memory.values():
            self.device.free(memory)
        self.memory = {}

    def launches(self) -> Launches:
        device, many = self.device, self.native.cuda_launches
        function = device.function("empty")

        def launch(count: int, wait_each: bool) -> None:
            code = many(
                device.address("cuLaunchKernel"), device.address("cuCtxSynchronize"), function, count, int(wait_each)
            )
            if code != 0:
                raise RuntimeError(f"a launch answers {code}")

        return launch
