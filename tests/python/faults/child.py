# SPDX-License-Identifier: Apache-2.0
"""Runs a program with faulty kernels in a separate process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

ON_GPU = os.environ.get("CUCORE_DEVICE", "cpu") == "gpu"

PROLOGUE = r'''
import ctypes, os, signal, sys, threading, time
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, ObjectCode, launch
from cuda.core import CUDAError

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"

def kernel(body, before=""):
    text = HEAD + before + """.visible .entry k(.param .u64 out) {
      .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p<8>;
      mov.u32 %r2, %tid.x; ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r2, 4; add.u64 %rd1, %rd0, %rd1;
      """ + body + " ret; }"
    return ObjectCode.from_ptx(text.encode()).get_kernel("k")

def start():
    global device, stream, buffer
    device = Device()
    device.set_current()
    stream = device.create_stream()
    buffer = device.allocate(1024, stream=stream)

def run(body, before="", argument=None, block=64):
    """The error's code and text; (0, "") without one."""
    try:
        launch(stream, LaunchConfig(grid=1, block=block), kernel(body, before), buffer if argument is None else argument)
        stream.sync()
    except CUDAError as error:
        return int(error.code), str(error)
    return 0, ""

def reset():
    """The device as if nothing had happened: cuda.core's Device stays bound to the primary context."""
    assert driver.cuDevicePrimaryCtxReset(0)[0] == 0
    driver.cuCtxSetCurrent(driver.CUcontext(0))
    error, context = driver.cuDevicePrimaryCtxRetain(0)
    driver.cuCtxSetCurrent(context)
    start()

start()
'''


def run(
    code: str, environment: dict[str, str] | None = None, prefix: list[str] | None = None
) -> subprocess.CompletedProcess[str]:
    # Most programs do not need NumPy, whose import takes longer than everything else that they do.
    program = ("import numpy as np\n" if "np." in code else "") + PROLOGUE + textwrap.dedent(code)
    return subprocess.run(
        [*(prefix or []), sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **(environment or {})},
    )


def expect(code: str, wanted: str, environment: dict[str, str] | None = None, prefix: list[str] | None = None) -> str:
    done = run(code, environment, prefix)
    assert done.returncode == 0, done.stdout + done.stderr
    assert wanted in done.stdout, done.stdout + done.stderr
    return done.stdout
