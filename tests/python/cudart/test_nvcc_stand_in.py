# SPDX-License-Identifier: Apache-2.0
"""`nvcc --cubin` under `cucore run --cpu`: the file it writes runs on the CPU device."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cucore import stand_ins

pytestmark = pytest.mark.cpu_only

SOURCE = """
#include "part.h"
extern "C" __global__ void scale(int *p) { p[threadIdx.x] *= FACTOR + PART; }
"""
# The way of PyCUDA: a source in a folder of its own, compiled there, and the cubin loaded from memory.
LOAD = """
import numpy as np, sys
from cuda.core import Device, LaunchConfig, ObjectCode, launch
device = Device(); device.set_current(); stream = device.create_stream()
code = open(sys.argv[1], "rb").read()
assert code[:4] == b"\\x7fELF"
kernel = ObjectCode.from_cubin(code).get_kernel("scale")
from cuda.bindings import driver
data = np.arange(4, dtype=np.int32)
buffer = device.allocate(data.nbytes, stream=stream)
driver.cuMemcpyHtoD(int(buffer.handle), data.ctypes.data, data.nbytes)
launch(stream, LaunchConfig(grid=1, block=4), kernel, buffer)
stream.sync()
driver.cuMemcpyDtoH(data.ctypes.data, int(buffer.handle), data.nbytes)
print(*data)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kernel.cu").write_text(SOURCE)
    (tmp_path / "part.h").write_text("#define PART 1\n")
    return tmp_path


def nvcc(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cucore", "run", "--cpu", "sh", "-c", 'exec nvcc "$@"', "sh", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=os.environ | variables)


def load(cubin: Path) -> str:
    return subprocess.check_output(
        [sys.executable, "-c", LOAD, cubin], text=True, env=os.environ | {"CUCORE_DEVICE": "cpu"}
    )


@pytest.mark.parametrize(
    "options",
    [("-arch", "sm_90"), ("-gencode", "arch=compute_90,code=sm_90"), ("--gpu-architecture=sm_80", "-lineinfo"), ()],
)
def test_nvcc_cubin_writes_a_file_that_the_cpu_device_runs(folder: Path, options: tuple[str, ...]) -> None:
    done = nvcc(folder, "--cubin", *options, "-DFACTOR=4", f"-I{folder}", "kernel.cu")
    assert done.returncode == 0, done.stderr
    assert load(folder / "kernel.cubin") == "0 5 10 15\n"


def test_nvcc_cubin_without_a_host_compiler_uses_nvrtc(folder: Path) -> None:
    done = nvcc(folder, "-cubin", "-arch=sm_90", "-D", "FACTOR=2", "-o", "out.bin", "kernel.cu", PATH="/nowhere")
    assert done.returncode != 0 and "no such program" in done.stderr  # `sh` is searched in that PATH
    script = stand_ins.NVCC.with_suffix(".py")
    command = [sys.executable, script, "-cubin", "-arch=sm_90", "-D", "FACTOR=2", "-o", "out.bin", "kernel.cu"]
    subprocess.run(command, cwd=folder, check=True, env=os.environ | {"PATH": "/nowhere"})
    assert load(folder / "out.bin") == "0 3 6 9\n"


@pytest.mark.parametrize("path", [None, "/nowhere"])
def test_nvcc_cubin_of_a_wrong_program_prints_the_compilers_error(folder: Path, path: str | None) -> None:
    (folder / "kernel.cu").write_text("__global__ void k() { undefined_name = 1; }")
    command = [sys.executable, stand_ins.NVCC.with_suffix(".py"), "--cubin", "kernel.cu"]
    variables = {"PATH": path} if path else {}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=os.environ | variables)
    assert done.returncode != 0
    assert "undefined_name" in done.stderr
    assert not (folder / "kernel.cubin").exists()


def test_nvcc_version_is_answered_by_the_real_nvcc(folder: Path) -> None:
    done = nvcc(folder, "--version")
    assert done.returncode == 0, done.stderr
    assert re.search(r"release \d+\.\d+", done.stdout)


@pytest.mark.parametrize("arguments", [("--cubin",), ("--cubin", "missing.cu"), ("--cubin", "a.cu", "b.cu")])
def test_nvcc_cubin_without_one_source_file_is_an_error(folder: Path, arguments: tuple[str, ...]) -> None:
    done = nvcc(folder, *arguments)
    assert done.returncode == 1
    assert "stand-in for nvcc" in done.stderr
