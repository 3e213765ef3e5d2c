# SPDX-License-Identifier: Apache-2.0
"""A program under GDB: a list of GDB commands, and what GDB printed for each of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

MARK = "=== command "


def run(
    program: Path,
    commands: Sequence[str],
    *,
    folder: Path,
    arguments: Sequence[str] = (),
    before: Sequence[str] = (),
    **environment: str,
) -> list[str]:
    """Runs the commands in `cucore gdb`, after `before`; returns what each of them printed."""
    script = folder / "commands.gdb"
    lines = ["set pagination off", "set confirm off", "set width 0", "set print thread-events off", *before]
    for number, command in enumerate(commands):
        # An error would end the script: Python catches it.
        lines += [f"echo \\n{MARK}{number}\\n", "python", "try:", f"  gdb.execute({command!r})"]
        lines += ["except gdb.error as error:", "  print(error)", "end"]
    script.write_text("\n".join(lines) + "\n")
    done = subprocess.run(
        [
            *[sys.executable, "-m", "cucore", "gdb", "--option=-batch", f"--option=--command={script}"],
            *[str(program), *arguments],
        ],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "CUCORE_DEVICE": "cpu", "XDG_CACHE_HOME": str(folder / "cache"), **environment},
    )
    parts = re.split(rf"\n?{MARK}\d+\n", done.stdout)
    assert len(parts) == len(commands) + 1, done.stdout + done.stderr
    return [part.strip() for part in parts[1:]]


def can_trace() -> bool:
    """Whether the system lets a debugger start a program: containers may forbid it."""
    done = subprocess.run(
        ["gdb", "-batch", "-ex", "run", "--args", sys.executable, "-c", "pass"], capture_output=True, text=True
    )
    return "exited normally" in done.stdout
