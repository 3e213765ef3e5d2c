# SPDX-License-Identifier: Apache-2.0
"""`cucore run`: start a program so that whoever loads `libcuda.so.1` gets the CPU device."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence

from . import CPU_DRIVER_FOLDER, stand_ins, terminal


def environment(device: str, devices: int | None = None) -> dict[str, str]:
    """The child's environment: ours, with the device chosen, the CPU driver first on the library path, and stand-ins for
    compilers that make machine code."""
    result = dict(os.environ, CUCORE_DEVICE=device)
    if device == "cpu":
        folders = [str(CPU_DRIVER_FOLDER), *filter(None, [result.get("LD_LIBRARY_PATH")])]
        result["LD_LIBRARY_PATH"] = os.pathsep.join(folders)
        result |= stand_ins.variables(result)
    if devices is not None:
        result["CUCORE_CPU_DEVICES"] = str(devices)
    return result


def run(program: Sequence[str], device: str = "cpu", devices: int | None = None) -> int:
    """Replaces this process by the program; returns only when it cannot be started."""
    command = list(program)
    if command[:1] == ["--"]:
        del command[0]
    if not command:
        terminal.complain("run", "name a program, as in `cucore run --cpu script.py`")
        return 2
    if device == "cpu" and not (CPU_DRIVER_FOLDER / "libcuda.so.1").exists():
        terminal.complain("run", "this build has no CPU device (it was configured with CUCORE_CPU_DEVICE=OFF)")
        return 1
    if command[0].endswith(".py") or command[0] in ("-c", "-m"):
        command.insert(0, sys.executable)
    executable = shutil.which(command[0])
    if executable is None:
        terminal.complain("run", f"{command[0]}: no such program")
        return 127
    sys.stdout.flush()
    os.execve(executable, command, environment(device, devices))
