# SPDX-License-Identifier: Apache-2.0
"""`cucore gdb`: starts GDB with a program on the CPU device in debug mode, and with the commands of the extension."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from .. import run, terminal

EXTENSION = Path(__file__).parent / "extension.py"


def variables(executable: str | None) -> dict[str, str]:
    """Returns the variables for the program only: GDB itself needs neither our driver nor the stand-ins."""
    wanted = run.environment("cpu", executable=executable) | {"CUCORE_DEBUG": "1"}
    return {name: value for name, value in wanted.items() if os.environ.get(name) != value}


def gdb(program: Sequence[str], options: Sequence[str] = (), print_extension: bool = False) -> int:
    """Replaces this process with GDB (exec). Returns an exit status only if it cannot be started."""
    if print_extension:
        print(EXTENSION)
        return 0
    command = list(program)
    if command[:1] == ["--"]:
        del command[0]
    if not command:
        terminal.complain("gdb", "name a program, as in `cucore gdb script.py`")
        return 2
    if command[0].endswith(".py") or command[0] in ("-c", "-m"):
        command.insert(0, sys.executable)
    debugger = shutil.which("gdb")
    if debugger is None:
        terminal.complain("gdb", "there is no gdb; install it, for example with `apt-get install gdb`")
        return 127
    executable = shutil.which(command[0])
    if executable is None:
        terminal.complain("gdb", f"{command[0]}: no such program")
        return 127
    settings = [f"--eval-command=set environment {name} = {value}" for name, value in variables(executable).items()]
    sys.stdout.flush()
    os.execv(
        debugger,
        [debugger, "-q", *settings, "-x", str(EXTENSION), *options, "--args", executable, *command[1:]],
    )
