# SPDX-License-Identifier: Apache-2.0
"""IPC handles of memory, pools and events of one user return an error in processes of another user."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.cpu_only,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user"),
]

SETUP = r"""
import ctypes, os, sys
from cuda.bindings import driver as d

def check(result):
    code, *values = result
    assert code == 0, code
    return values[0] if len(values) == 1 else values

check(d.cuInit(0))
context = check(d.cuDevicePrimaryCtxRetain(0))
check(d.cuCtxSetCurrent(context))
"""
EXPORTER = (
    SETUP
    + r"""
if USER:
    os.setuid(USER)
memory = check(d.cuMemAlloc(1 << 16))
event = check(d.cuEventCreate(int(d.CUevent_flags.CU_EVENT_INTERPROCESS) | int(d.CUevent_flags.CU_EVENT_DISABLE_TIMING)))
print(*(ctypes.string_at(handle.getPtr(), 64).hex() for handle in (check(d.cuIpcGetMemHandle(memory)), check(d.cuIpcGetEventHandle(event)))), flush=True)
sys.stdin.read()
"""
)
IMPORTER = (
    SETUP
    + r"""
if USER:
    os.setuid(USER)
memory, event = d.CUipcMemHandle(), d.CUipcEventHandle()
for handle, text in zip((memory, event), sys.argv[1:3]):
    ctypes.memmove(handle.getPtr(), bytes.fromhex(text), 64)
print(int(d.cuIpcOpenMemHandle(memory, 1)[0]), int(d.cuIpcOpenEventHandle(event)[0]))
"""
)


def answers(exporter: int, importer: int) -> str:
    """The error codes of `importer` for opening the memory and the event of `exporter`; 0 is root."""
    environment = os.environ | {"CUCORE_DEVICE": "cpu"}
    command = [sys.executable, "-c", EXPORTER.replace("USER", str(exporter))]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout and process.stdin
        handles = process.stdout.readline().split()
        assert len(handles) == 2
        done = subprocess.run([sys.executable, "-c", IMPORTER.replace("USER", str(importer)), *handles], env=environment, capture_output=True, text=True, check=False)  # fmt: skip
        process.stdin.close()
        assert process.wait() == 0
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


NOBODY, SOMEBODY = 65534, 65533
REFUSED = "400 400"


@pytest.mark.parametrize(("exporter", "importer"), [(0, NOBODY), (NOBODY, SOMEBODY), (NOBODY, 0)])
def test_handles_of_another_user_return_an_error(exporter: int, importer: int) -> None:
    assert answers(exporter, importer) == REFUSED


def test_handles_of_the_same_user_are_opened() -> None:
    assert answers(0, 0) == "0 0"
