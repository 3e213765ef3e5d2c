"""The C driver API called by C, but in a Python process: inside.py bench_overhead_inside.so [libcuda.so.1]

What a driver call takes depends on the process it is made in: on what else is loaded, and where memory lies. This side tells
that apart from what Python and our packages add.
"""

from __future__ import annotations

import ctypes
import sys

import numpy as np
from cuda.bindings import driver
from cuda.core import Device

library = ctypes.PyDLL(sys.argv[1])  # called with the GIL
arguments = [b"raw", *(a.encode() for a in sys.argv[2:3])]
dev = Device(0)
dev.set_current()
streams = [dev.create_stream() for _ in range(2)]
kept = [dev.allocate(1 << 20, stream=streams[0]), np.zeros(1 << 18, np.float32), driver.cuDeviceGetCount()]
streams[0].sync()
sys.exit(library.cucore_bench_raw(len(arguments), (ctypes.c_char_p * len(arguments))(*arguments)))
