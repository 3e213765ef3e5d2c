# SPDX-License-Identifier: Apache-2.0
"""cucore: CUDA Python, rebuilt in C++. The public packages are `cuda.core`, `cuda.bindings` and `cuda.pathfinder`.

This package contains the shared libraries, the C++ headers and the `cucore` command.
"""

from pathlib import Path

__version__ = "0.1.0"

#: Directory of libcucore.so and libcucore_cpu.so.
LIBRARY_FOLDER = Path(__file__).parent / "lib"
#: Directory of the CPU device under the name `libcuda.so.1`, for programs that load the driver by that name.
CPU_DRIVER_FOLDER = LIBRARY_FOLDER / "cpu"
#: Directory of our libcudart.so.12 and libcudart.so.13, for programs that nvcc links with the shared runtime.
CUDART_FOLDER = LIBRARY_FOLDER / "cudart"
#: Directory of the C++ headers (`#include <cucore/device.hpp>`).
INCLUDE_FOLDER = Path(__file__).parent / "include"
