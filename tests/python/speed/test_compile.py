# SPDX-License-Identifier: Apache-2.0
"""Overhead of compilation outside the compiler."""

from __future__ import annotations

import json
import platform
import subprocess
import sys

import pytest

PROBE = """
import json, os, resource
from cuda.core import Program, ProgramOptions
os.environ["CUCORE_COMPILE_CACHE"] = "0"
source = 'extern "C" __global__ void scale(float* p, float f, int n) { int i = threadIdx.x; if (i < n) p[i] *= f; }'
faults = []
for _ in range(6):
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    Program(source, "c++", ProgramOptions(arch="compute_90")).compile("ptx")
    faults.append(resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before)
print(json.dumps(faults))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="is about glibc's heap")
def test_repeated_compilation_reuses_memory_pages() -> None:
    """NVRTC allocates and frees megabytes; returning them to the system each time causes many page faults."""
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    faults = json.loads(done.stdout)
    assert min(faults[2:]) < 300, faults


def test_nvrtc_loads_the_builtins_of_its_folder() -> None:
    """Another installed toolkit may have a library of the same name."""
    maps = (
        PROBE
        + "print(json.dumps(sorted({line.split()[-1] for line in open('/proc/self/maps') if 'libnvrtc' in line})))\n"
    )
    done = subprocess.run([sys.executable, "-c", maps], capture_output=True, text=True, check=True)
    libraries = json.loads(done.stdout.splitlines()[-1])
    assert any("builtins" in path for path in libraries) and any("libnvrtc.so" in path for path in libraries)
    assert len({path.rpartition("/")[0] for path in libraries}) == 1, libraries
