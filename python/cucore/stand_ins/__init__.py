# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for NVIDIA's compilers on the CPU device. The programs `ptxas` and, in this directory, `nvcc --cubin` write
a container with PTX instead of machine code. The libraries NVRTC and nvJitLink return such containers as cubins."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from .. import CPU_DRIVER_FOLDER, LIBRARY_FOLDER

PTXAS = CPU_DRIVER_FOLDER / "bin" / "ptxas"
NVCC = Path(__file__).parent / "nvcc"
PRELOAD = CPU_DRIVER_FOLDER / "libcucore_stand_ins.so"
#: Environment variables of packages for the path of ptxas.
PTXAS_VARIABLES = ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH")


def variables(now: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables by which a process with the environment `now`, and its children, find the stand-ins before
    NVIDIA's programs. Values that the user has set are kept. CUCORE_STAND_INS=0 disables the stand-ins."""
    if now.get("CUCORE_STAND_INS") == "0" or not PTXAS.exists():
        return {}
    ours = [str(PTXAS.parent), str(NVCC.parent)]
    # Without a PATH, programs are searched in os.defpath, which a PATH of only these directories would replace.
    path = [folder for folder in (now.get("PATH") or os.defpath).split(os.pathsep) if folder not in ours]
    result = {
        "PATH": os.pathsep.join([*ours, *path]),
        "CUCORE_PTXAS": str(PTXAS),
        "CUCORE_RUN_PYTHON": sys.executable,  # runs nvcc.py
    }
    result |= {name: str(PTXAS) for name in PTXAS_VARIABLES if name not in now}
    if PRELOAD.exists():
        others = now.get("LD_PRELOAD", "").replace(":", " ").split()  # runtimes of sanitizers must come first
        result["LD_PRELOAD"] = " ".join([*(name for name in others if name != str(PRELOAD)), str(PRELOAD)])
    return result


def into_this_process() -> None:
    """Activates the stand-ins for compiler libraries in this process until it exits; `variables()` affects children.

    Later lookups of functions of NVRTC and nvJitLink return the ones whose cubins contain PTX, and `libcuda.so.1` is
    the CPU device. Compilers that cuda.pathfinder does not find are not replaced. CUCORE_STAND_INS=0 disables all of
    it."""
    if os.environ.get("CUCORE_STAND_INS") == "0" or not PTXAS.exists():
        return
    from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

    name_driver()
    cucore = ctypes.CDLL(str(LIBRARY_FOLDER / "libcucore.so.0"))  # libcucore.so is a linker script in a wheel
    replace = cucore.cucore_replace_in_symbol_table
    replace.argtypes, replace.restype = [ctypes.c_void_p], ctypes.c_size_t
    for name in ("nvrtc", "nvJitLink"):
        try:
            library = load_nvidia_dynamic_lib(name)
        except DynamicLibNotFoundError:
            continue
        replace(library._handle_uint)


def name_driver() -> None:
    """Makes `libcuda.so.1` resolve to the CPU device in this process until it exits. No-op if the build has no CPU
    device, or if another library of that name is already loaded."""
    named = LIBRARY_FOLDER / "libcucore_cpu_named.so"
    if named.exists():
        ctypes.CDLL(str(named))
