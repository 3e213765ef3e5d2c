# SPDX-License-Identifier: Apache-2.0
"""Other processes that have nothing in common with this one but the user and the machine."""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

SERVER = """
import os, pickle, struct, sys
out = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
kept = {}
while head := sys.stdin.buffer.read(8):
    data, *buffers = pickle.loads(sys.stdin.buffer.read(struct.unpack("=Q", head)[0]))
    try:
        source, arguments = pickle.loads(data, buffers=buffers)
        names = {"kept": kept}
        exec(source, names)
        answer = names["run"](*arguments)
        del arguments
        buffers = []
        text = pickle.dumps((True, answer), protocol=5, buffer_callback=buffers.append)
        answer = None
    except Exception as error:
        buffers = []
        text = pickle.dumps((False, f"{type(error).__name__}: {error}"))
    text = pickle.dumps([text, *buffers], protocol=5)
    out.write(struct.pack("=Q", len(text)) + text)
    out.flush()
"""


class Stranger:
    """A process that was started by itself: no multiprocessing, no inherited file descriptors."""

    def __init__(self, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | environment,
            close_fds=True,
            start_new_session=True,
        )

    def __call__(self, source: str, *arguments: Any) -> Any:
        """Runs ``def run(...)`` of a source text there; RuntimeError with the text of its exception."""
        buffers: list[Any] = []
        text = pickle.dumps((source, arguments), protocol=5, buffer_callback=buffers.append)
        message = pickle.dumps([text, *buffers], protocol=5)
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(struct.pack("=Q", len(message)) + message)
        self.process.stdin.flush()
        (size,) = struct.unpack("=Q", self.process.stdout.read(8))
        text, *received = pickle.loads(self.process.stdout.read(size))
        good, answer = pickle.loads(text, buffers=received)
        if not good:
            raise RuntimeError(answer)
        return answer

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        assert self.process.wait() == 0
        self.process.stdout.close()


@pytest.fixture
def stranger() -> Iterator[Callable[..., Stranger]]:
    """Starts processes that end with the test."""
    started: list[Stranger] = []

    def start(**environment: str) -> Stranger:
        started.append(Stranger(**environment))
        return started[-1]

    yield start
    for process in started:
        if process.process.poll() is None:
            process.close()


@pytest.fixture
def many_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Child processes have four devices; this one has what it has."""
    monkeypatch.setenv("CUCORE_CPU_DEVICES", "4")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.fixture(scope="session")
def resident() -> Callable[[int], int]:
    """Memory of a process in bytes, with what it shares."""

    def read(pid: int) -> int:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    return read
