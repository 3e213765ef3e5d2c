# SPDX-License-Identifier: Apache-2.0
"""Measures, in a separate process, the time from PTX until a kernel has run for the first time, minus that of a launch.

    python first_launch.py DRIVER PTX_FILE KERNEL THREADS

Prints nanoseconds of processor time (all threads) for loading the module, finding the kernel, launching it and waiting, minus the same
launch repeated. Pointer parameters point to valid memory, numbers are 0.
"""

from __future__ import annotations

import ctypes
import re
import sys
import time
from pathlib import Path
from typing import Any

MEMORY = 1 << 20


def parameters(ptx: str, kernel: str) -> list[str]:
    """Types, as PTX names them."""
    found = re.search(rf"\.entry {kernel}\((.*?)\)", ptx, re.DOTALL)
    assert found, f"no kernel {kernel}"
    return re.findall(r"\.param [^,\n]*?\.([a-z]\d+) ", found[1])


def main(driver_path: str, file: str, kernel: str, threads: str) -> None:
    ptx = Path(file).read_bytes()
    driver = ctypes.CDLL(driver_path)

    def call(name: str, *arguments: Any) -> None:
        if (code := getattr(driver, name)(*arguments)) != 0:
            raise RuntimeError(f"{name} answers {code}")

    context, memory = ctypes.c_void_p(), ctypes.c_uint64()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(MEMORY))
    call("cuMemsetD8_v2", memory, ctypes.c_ubyte(0), ctypes.c_size_t(MEMORY))
    values = [
        ctypes.c_uint64(memory.value if kind == "u64" else 0) for kind in parameters(ptx.decode().rstrip("\0"), kernel)
    ]
    packed = (ctypes.c_void_p * len(values))(*[ctypes.addressof(value) for value in values])
    module, function = ctypes.c_void_p(), ctypes.c_void_p()

    def launch() -> None:
        call("cuLaunchKernel", function, *map(ctypes.c_uint, (1, 1, 1, int(threads), 1, 1, 0)), None, packed, None)
        call("cuCtxSynchronize")

    start = time.process_time_ns()
    call("cuModuleLoadData", ctypes.byref(module), ptx)
    call("cuModuleGetFunction", ctypes.byref(function), module, kernel.encode())
    launch()
    first = time.process_time_ns()
    launch()
    again = time.process_time_ns()
    print((first - start) - (again - first))


if __name__ == "__main__":
    main(*sys.argv[1:])
