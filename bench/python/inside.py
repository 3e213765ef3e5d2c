# SPDX-License-Identifier: Apache-2.0
"""Calls the C driver API from C in a Python process: inside.py bench_overhead_inside.so [libcuda.so.1]

The time of a driver call depends on its process: on other loaded libraries and on the memory layout. This side separates that
effect from the cost of Python and the packages.
"""

from __future__ import annotations

import ctypes
import sys

import numpy as np
from cuda.bindings import driver
from cuda.core import Device

library = ctypes.PyDLL(sys.argv[1])  # called with the GIL held
arguments = [b"raw", *(a.encode() for a in sys.argv[2:3])]
dev = Device(0)
dev.set_current()
streams = [dev.create_stream() for _ in range(2)]
kept = [dev.allocate(1 << 20, stream=streams[0]), np.zeros(1 << 18, np.float32), driver.cuDeviceGetCount()]
streams[0].sync()
sys.exit(library.cucore_bench_raw(len(arguments), (ctypes.c_char_p * len(arguments))(*arguments)))
