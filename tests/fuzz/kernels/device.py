# SPDX-License-Identifier: Apache-2.0
"""Runs kernels of PTX modules on the device that CUCORE_DEVICE selects."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver

from .model import initial, inputs

REPORT = "\n"  # separator between the error code and the report
NAMES = ("a32", "b32", "a64", "a8", "a16", "af", "ad")


class DeviceError(Exception):
    """A driver call failed."""


@dataclass
class Launch:
    """The data to run a kernel of a module and to compare its output."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    inputs: int
    sizes: tuple[int, int, int]  # bytes of out, own and acc
    n: int
    q: int


def call(name: str, *arguments: Any) -> Any:
    code, *rest = getattr(driver, name)(*arguments)
    if int(code):
        text = driver.cuGetErrorName(code)[1]
        report = fault_report()
        raise DeviceError(f"{name}: {text.decode() if text else int(code)}{REPORT + report if report else ''}")
    return rest[0] if rest else None


def fault_report() -> str:
    """The CPU device's report of the last fault; empty on a GPU."""
    if os.environ.get("CUCORE_DEVICE") != "cpu":
        return ""
    import cucore

    library = ctypes.CDLL(os.environ.get("CUCORE_CPU_LIBRARY") or str(Path(cucore.CPU_DRIVER_FOLDER) / "libcuda.so.1"))
    library.cucoreGetLastFaultReport.restype = ctypes.c_char_p
    return (library.cucoreGetLastFaultReport() or b"").decode(errors="replace").strip()


class Device:
    """Device 0; its context is recreated after a fault."""

    def __init__(self) -> None:
        call("cuInit", 0)
        self.device = call("cuDeviceGet", 0)
        self.open()

    def open(self) -> None:
        call("cuCtxSetCurrent", call("cuDevicePrimaryCtxRetain", self.device))
        self.given: dict[int, list[Any]] = {}

    def reset(self) -> None:
        driver.cuDevicePrimaryCtxRelease(self.device)
        driver.cuDevicePrimaryCtxReset(self.device)
        self.open()

    def upload(self, data: np.ndarray) -> Any:
        memory = call("cuMemAlloc", max(data.nbytes, 16))
        if data.nbytes:
            call("cuMemcpyHtoD", memory, data.ctypes.data, data.nbytes)
        return memory

    def load(self, ptx: bytes) -> Any:
        log = bytearray(4096)
        options = [driver.CUjit_option.CU_JIT_ERROR_LOG_BUFFER, driver.CUjit_option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
        try:
            return call("cuModuleLoadDataEx", ptx + b"\0", 2, options, [log, len(log)])
        except DeviceError as error:
            raise DeviceError(f"{error}: {log.split(bytes(1))[0].decode(errors='replace').strip()}") from None

    def unload(self, module: Any) -> None:
        call("cuModuleUnload", module)

    def run(self, module: Any, launch: Launch) -> bytes:
        if launch.inputs not in self.given:
            arrays = inputs(launch.inputs)
            self.given[launch.inputs] = [self.upload(arrays[name]) for name in NAMES]
        parts = [initial(size, what) for size, what in zip(launch.sizes, ("out", "own", "acc"), strict=True)]
        written = [self.upload(part) for part in parts]
        function = call("cuModuleGetFunction", module, launch.name.encode())
        values = [int(p) for p in (*self.given[launch.inputs], *written)]
        kinds = [ctypes.c_void_p] * len(values) + [ctypes.c_int, ctypes.c_int]
        call(
            "cuLaunchKernel",
            function,
            *launch.grid,
            *launch.block,
            0,
            0,
            ((*values, launch.n, launch.q), tuple(kinds)),
            0,
        )
        call("cuCtxSynchronize")
        for memory, part in zip(written, parts, strict=True):
            if part.nbytes:
                call("cuMemcpyDtoH", part.ctypes.data, memory, part.nbytes)
            call("cuMemFree", memory)
        return b"".join(part.tobytes() for part in parts)
