# SPDX-License-Identifier: Apache-2.0
"""Fixtures: child processes that may crash, and kernels that wait for the host."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from cuda.core import Device, Kernel, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, Stream, launch

SOURCE = r"""
extern "C" __global__ void add_one(int* data, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i < n) data[i] += 1;
}
extern "C" __global__ void scale(float* data, float factor, size_t n) {
  size_t i = threadIdx.x + blockIdx.x * size_t(blockDim.x);
  if (i < n) data[i] *= factor;
}
extern "C" __global__ void nothing() {}
extern "C" __global__ void wait_for(volatile int* flag) { while (*flag == 0) {} }
extern "C" __global__ void for_ever(volatile int* flag) { while (*flag != 7) {} }
extern "C" __global__ void for_a_second(int* out) {
  long long start = clock64();
  while (clock64() - start < 1000000000) {}
  *out = 1;
}
"""


@lru_cache(maxsize=1)
def compiled() -> Any:
    return Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{Device(0).arch}")).compile("cubin")


@pytest.fixture
def kernel(device: Device) -> Callable[[str], Kernel]:
    return lambda name: compiled().get_kernel(name)


class Gate:
    """Blocks a stream until the host opens it: a kernel spins on a flag."""

    def __init__(self, stream: Stream) -> None:
        flag = LegacyPinnedMemoryResource().allocate(4)
        self._flag = memoryview(flag).cast("B")
        self._flag[:] = bytes(4)
        launch(stream, LaunchConfig(grid=1, block=1), compiled().get_kernel("wait_for"), flag)
        self._stream = stream

    def open(self) -> None:
        self._flag[0] = 1


@pytest.fixture
def gate(device: Device) -> Iterator[Callable[[Stream], Gate]]:
    """A factory of gates; gates that a test leaves shut are opened after it."""
    made: list[Gate] = []

    def make(stream: Stream) -> Gate:
        made.append(Gate(stream))
        return made[-1]

    yield make
    for one in made:
        one.open()
    device.sync()


@pytest.fixture
def code() -> bytes:
    """The kernels as a cubin."""
    return compiled().code


@pytest.fixture(scope="session")
def cubin(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The kernels as a file, so that children need no compiler."""
    path = tmp_path_factory.mktemp("kernels") / "kernels.cubin"
    path.write_bytes(compiled().code)
    return str(path)


PRELUDE = """
import os, sys, gc, threading, time
from cuda.core import *
def setup():
    global device, stream, code
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    code = ObjectCode.from_cubin(open(os.environ["KERNELS"], "rb").read())
"""


class Child:
    """Runs programs in separate interpreters."""

    def __init__(self, cubin: str, folder: Path) -> None:
        self.cubin = cubin
        self.folder = folder  # the working directory of the children, so that stray files are not written to the tree

    def environment(self, **changes: str) -> dict[str, str]:
        # These programs exit with live objects on purpose; core/test_leaks.py tests for leaks.
        inherited = {name: value for name, value in os.environ.items() if name != "CUCORE_LEAK_WARNINGS"}
        return inherited | {"KERNELS": self.cubin, "PYTHONFAULTHANDLER": "1"} | changes

    def start(
        self,
        program: str,
        *,
        prelude: bool = True,
        stdin: int = subprocess.DEVNULL,
        prefix: tuple[str, ...] = (),
        **changes: str,
    ) -> subprocess.Popen[str]:
        text = (PRELUDE if prelude else "") + textwrap.dedent(program)
        return subprocess.Popen(
            [*prefix, sys.executable, "-c", text],
            env=self.environment(**changes),
            cwd=self.folder,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, program: str, **options: Any) -> tuple[int, str, str]:
        process = self.start(program, **options)
        out, err = process.communicate()
        return process.returncode, out, err

    def ok(self, program: str, **options: Any) -> str:
        """Runs a program that must exit with status 0 and write nothing to stderr; returns its output."""
        status, out, err = self.run(program, **options)
        assert (status, err) == (0, ""), f"exit {status}\n{out}\n{err}"
        return out


@pytest.fixture
def child(cubin: str, tmp_path: Path) -> Child:
    return Child(cubin, tmp_path)
