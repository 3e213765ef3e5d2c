# SPDX-License-Identifier: Apache-2.0
"""cucore: CUDA Python, rebuilt in C++. The public packages are `cuda.core`, `cuda.bindings` and `cuda.pathfinder`.

This package contains the shared libraries, the C++ headers and the `cucore` command.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

__version__ = "0.1.0"

#: Directory of libcucore.so and libcucore_cpu.so.
LIBRARY_FOLDER: Path
#: Directory of the CPU device under the name `libcuda.so.1`, for programs that load the driver by that name.
CPU_DRIVER_FOLDER: Path
#: Directory of our libcudart.so.12 and libcudart.so.13, for programs that nvcc links with the shared runtime.
CUDART_FOLDER: Path
#: Directory of the C++ headers (`#include <cucore/device.hpp>`).
INCLUDE_FOLDER: Path

_FOLDERS = {
    "LIBRARY_FOLDER": "lib",
    "CPU_DRIVER_FOLDER": "lib/cpu",
    "CUDART_FOLDER": "lib/cudart",
    "INCLUDE_FOLDER": "include",
}


def __getattr__(name: str) -> Path:
    """Folders are made on request: the packages import this one to warn, and pathlib takes longer to import than all of them."""
    if name not in _FOLDERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pathlib import Path

    folder = globals()[name] = Path(__file__).parent / _FOLDERS[name]
    return folder


def __dir__() -> list[str]:
    return sorted({*globals(), *_FOLDERS})
