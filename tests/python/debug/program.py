# SPDX-License-Identifier: Apache-2.0
"""The program that the tests debug: compiles kernel.cu and launches its kernel; prints y[0], y[1] and y[65]."""

import sys
from pathlib import Path

import numpy as np
from cuda.core import Device, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, launch

ARGUMENTS = sys.argv[1:]
COUNT = 96

device = Device()
device.set_current()
stream = device.create_stream()
source = (Path(__file__).parent / "kernel.cu").read_text()
lineinfo = "lineinfo" in ARGUMENTS
COMPILE_FOR_DEBUGGER = not lineinfo and "plain" not in ARGUMENTS
options = ProgramOptions(name="kernel.cu", lineinfo=lineinfo, debug=None if COMPILE_FOR_DEBUGGER else False)
code = Program(source, "c++", options).compile("ptx")
kernel = code.get_kernel("saxpy")
memory = LegacyPinnedMemoryResource()
x, y = memory.allocate(4 * COUNT), memory.allocate(4 * COUNT)
xs, ys = (np.from_dlpack(buffer).view(np.float32) for buffer in (x, y))
xs[:] = np.arange(COUNT)
ys[:] = 1
point = np.zeros(1, dtype=[("x", "f4"), ("y", "f4"), ("tag", "i4", 3)])
point["x"], point["tag"] = 0.5, [[7, 8, 9]]
if "breakpoint" in ARGUMENTS:
    breakpoint()
launch(stream, LaunchConfig(grid=3, block=32, shmem_size=64), kernel, np.int32(COUNT), np.float32(2), x, y, point[0])
stream.sync()
print("result", float(ys[0]), float(ys[1]), float(ys[65]), flush=True)
