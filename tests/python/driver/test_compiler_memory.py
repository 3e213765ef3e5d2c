# SPDX-License-Identifier: Apache-2.0
"""Memory of the CPU device's compiler after a compilation."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

PROGRAM = r"""
import ctypes
from cuda.core import Device, LaunchConfig, Program, launch

device = Device(); device.set_current()
stream = device.create_stream()
buffer = device.allocate(4096, stream=stream)


def own():
    '''Anonymous memory of this process in KiB.'''
    return int(open("/proc/self/smaps_rollup").read().split("Anonymous:")[1].split()[0])


def load(steps):
    body = "".join(f"x = sinf(x * {i}.5f) + powf(x, {i}.25f); if (x > {i}.f) p[i] = x;" for i in range(steps))
    source = 'extern "C" __global__ void k(float* p) { unsigned i = threadIdx.x; float x = p[i]; ' + body + " p[i] = x; }"
    return Program(source, "c++").compile("ptx").get_kernel("k")


def run(kernel):
    launch(stream, LaunchConfig(grid=1, block=32), kernel, buffer)
    stream.sync()


large = load(12)
ctypes.CDLL(None).malloc_trim(0)  # what NVRTC has left
run(large)
kept = own()
ctypes.CDLL(None).malloc_trim(0)
print(kept - own())  # what glibc could have given back
"""


@pytest.mark.skipif(os.environ.get("CUCORE_DEVICE", "cpu") != "cpu", reason="about the compiler of the CPU device")
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="is about glibc's heap")
def test_memory_of_a_large_compilation_is_given_back() -> None:
    settings = {"CUCORE_DEVICE": "cpu", "CUCORE_CPU_CACHE": "0", "CUCORE_CPU_TIER": "optimized"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=os.environ | settings, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 4 << 10
