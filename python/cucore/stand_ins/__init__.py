# SPDX-License-Identifier: Apache-2.0
"""Programs of the CPU device that stand in for NVIDIA's: `ptxas` and, in this folder, `nvcc --cubin` write PTX into a container
in place of machine code."""

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


def name_driver() -> None:
    """Makes the name `libcuda.so.1` mean the CPU device in this process, until it ends. Without effect where the build has no
    CPU device, or another library of that name is loaded already."""
    named = LIBRARY_FOLDER / "libcucore_cpu_named.so"
    if named.exists():
        ctypes.CDLL(str(named))
