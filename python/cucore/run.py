# SPDX-License-Identifier: Apache-2.0
"""`cucore run`: starts a program with the CPU device as `libcuda.so.1`.

`libcudart.so.12` and `.13` are replaced by our runtime library, which uses the same device: NVIDIA's accepts only
NVIDIA's driver.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from . import CPU_DRIVER_FOLDER, CUDART_FOLDER, elf, stand_ins, terminal


def _prepend(variables: dict[str, str], name: str, *values: Path) -> None:
    variables[name] = os.pathsep.join([*map(str, values), *filter(None, [variables.get(name)])])


def preloads(executable: str) -> list[Path]:
    """Returns the runtime libraries to preload: those that the dynamic linker would find in a DT_RPATH, which precedes
    LD_LIBRARY_PATH.

    A loaded library satisfies every later request for its soname. A DT_RUNPATH needs no preload, because the linker
    searches it after LD_LIBRARY_PATH.
    """
    dynamic = elf.read_dynamic(Path(executable))
    if not dynamic.rpath or dynamic.runpath:
        return []
    return [path for name in dynamic.needed if (path := CUDART_FOLDER / name).is_file()]


def has_static_runtime(executable: str) -> bool:
    """Returns whether NVIDIA's runtime is linked statically: the program has device code and no runtime dependency."""
    path = Path(executable)
    needed = elf.read_dynamic(path).needed
    return elf.has_section(path, ".nv_fatbin") and not any(name.startswith("libcudart.so.") for name in needed)


def environment(
    device: str, devices: int | None = None, executable: str | None = None, cudart: int | None = None
) -> dict[str, str]:
    """Returns the environment of the program: that of this process plus the device, the CPU driver first on the library
    path, and the stand-ins for compilers that generate machine code."""
    result = dict(os.environ, CUCORE_DEVICE=device)
    if device == "cpu":
        _prepend(result, "LD_LIBRARY_PATH", CPU_DRIVER_FOLDER, CUDART_FOLDER)
        loaded = preloads(executable) if executable is not None else []
        if cudart is not None:
            loaded = [CUDART_FOLDER / f"libcudart.so.{cudart}"]
        if loaded:
            _prepend(result, "LD_PRELOAD", *loaded)
        result |= stand_ins.variables(result)
    if devices is not None:
        result["CUCORE_CPU_DEVICES"] = str(devices)
    return result


def command_of(caller: str, program: Sequence[str], device: str = "cpu") -> list[str] | int:
    """Returns the command line of a program, starting with the path of its executable; on error, an exit status."""
    command = list(program)
    if command[:1] == ["--"]:
        del command[0]
    if not command:
        terminal.complain(caller, f"name a program, as in `cucore {caller} script.py`")
        return 2
    if device == "cpu" and not (CPU_DRIVER_FOLDER / "libcuda.so.1").exists():
        terminal.complain(caller, "this build has no CPU device (it was configured with CUCORE_CPU_DEVICE=OFF)")
        return 1
    if command[0].endswith(".py") or command[0] in ("-c", "-m"):
        command.insert(0, sys.executable)
    executable = shutil.which(command[0])
    if executable is None:
        terminal.complain(caller, f"{command[0]}: no such program")
        return 127
    if device == "cpu" and has_static_runtime(executable):
        terminal.complain(
            caller,
            f"{command[0]} contains NVIDIA's runtime library, which accepts no driver but NVIDIA's; link it with `nvcc -cudart shared`",
        )
    return [executable, *command[1:]]


def run(program: Sequence[str], device: str = "cpu", devices: int | None = None, cudart: int | None = None) -> int:
    """Replaces this process with the program (exec). Returns an exit status only if it cannot be started."""
    command = command_of("run", program, device)
    if isinstance(command, int):
        return command
    sys.stdout.flush()
    os.execve(command[0], command, environment(device, devices, command[0], cudart))
