# SPDX-License-Identifier: Apache-2.0
"""Kernels under LLDB, which reads the same interface as GDB."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import gdb_session
import pytest

LLDB = shutil.which("lldb-19") or shutil.which("lldb")

pytestmark = [
    pytest.mark.cpu_only,
    pytest.mark.skipif(os.environ.get("CUCORE_DEVICE") == "gpu", reason="about the CPU device alone"),
    pytest.mark.skipif(LLDB is None, reason="LLDB is not installed"),
]

PROGRAM = Path(__file__).parent / "program.py"
LINES = (Path(__file__).parent / "kernel.cu").read_text().splitlines()


def test_breakpoint_step_and_variables(tmp_path: Path) -> None:
    if not gdb_session.can_trace():
        pytest.skip("this system does not let a debugger start a program")
    (place,) = [number for number, text in enumerate(LINES, 1) if "float v = scale" in text]
    variables = f"CUCORE_DEVICE=cpu CUCORE_DEBUG=1 XDG_CACHE_HOME={tmp_path}"
    commands = [
        "settings set plugin.jit-loader.gdb.enable on",
        f"settings set target.env-vars {variables}",
        f"breakpoint set --file kernel.cu --line {place}",
        "run",
        "frame variable i p threadIdx",
        "thread step-in",
        "frame variable s",
        "bt 2",
    ]
    options = [word for command in commands for word in ("-o", command)]
    done = subprocess.run(
        [str(LLDB), "-b", *options, "--", sys.executable, str(PROGRAM)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    out = done.stdout
    assert f"kernel.cu:{place}" in out, out + done.stderr
    assert "(int) i = 0" in out and "tag = ([0] = 7, [1] = 8, [2] = 9)" in out, out
    assert "(uint3) threadIdx = (x = 0, y = 0, z = 0)" in out
    assert "(float) s = 2" in out
    assert re.search(r"frame #0: .*scale\(v=0, s=2\)(.|\n)*frame #1: .*saxpy\(n=96", out), out
