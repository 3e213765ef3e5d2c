# SPDX-License-Identifier: Apache-2.0
"""What stands in for NVIDIA's compilers on the CPU device. The programs `ptxas` and, in this folder, `nvcc --cubin` write PTX into a
container in place of machine code. The libraries NVRTC and nvJitLink return such containers as their cubins."""

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
#: Variables by which packages let users name a ptxas.
PTXAS_VARIABLES = ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH")


def variables(now: Mapping[str, str]) -> dict[str, str]:
    """The variables that put the stand-ins in front of NVIDIA's programs, for a process with the environment `now` and its
    children. What the user has set stays; CUCORE_STAND_INS=0 switches them off."""
    if now.get("CUCORE_STAND_INS") == "0" or not PTXAS.exists():
        return {}
    ours = [str(PTXAS.parent), str(NVCC.parent)]
    # Without a PATH programs are searched in os.defpath; a PATH of these folders alone would hide them.
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
    """Puts the stand-ins for compilers that are libraries into this process, until it ends: the variables reach its children only.
    Who looks a function of NVRTC or nvJitLink up from now on gets the one whose cubins carry PTX, and `libcuda.so.1` means the CPU
    device. Compilers that cuda.pathfinder does not find stay as they are. CUCORE_STAND_INS=0 switches all of it off."""
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
    """Makes the name `libcuda.so.1` mean the CPU device in this process, until it ends. Without effect where the build has no
    CPU device, or another library of that name is loaded already."""
    named = LIBRARY_FOLDER / "libcucore_cpu_named.so"
    if named.exists():
        ctypes.CDLL(str(named))
