# SPDX-License-Identifier: Apache-2.0
"""A process that generates programs and runs them in modes of the CPU device. It may crash; its parent restarts it.

Messages are pickled and prefixed with their length: requests on standard input, responses on the original standard output.
"""

from __future__ import annotations

import os
import pickle
import struct
import sys
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from . import ptx as ptx_programs
from .compiler import CompileError, compile_ptx
from .cuda import source_of
from .generate import kernel_of, options_of
from .model import Invalid, expected, memory_sizes
from .tree import Kernel

MODES: dict[str, dict[str, str]] = {
    "W=1": {"CUCORE_CPU_W": "1"},
    "W=4": {"CUCORE_CPU_W": "4"},
    "W=8": {"CUCORE_CPU_W": "8"},
    "W=16": {"CUCORE_CPU_W": "16"},
    "W=32": {"CUCORE_CPU_W": "32"},
    "default": {},
    "baseline": {"CUCORE_CPU_TIER": "baseline"},
    "check": {},  # CUCORE_CHECK, which a process reads once
}
CHECK = {"CUCORE_CHECK": "memory,race,init,sync"}
ALWAYS = {"CUCORE_DEVICE": "cpu", "CUCORE_CPU_CACHE": "0", "CUCORE_CPU_STRICT": "1", "CUCORE_CPU_TIMEOUT": "20"}


@dataclass
class Batch:
    """Programs that share a module."""

    language: str  # cuda or ptx
    programs: list[Any]  # Kernel or PtxKernel
    options: tuple[str, ...] = ()
    source: str = ""
    ptx: bytes = b""
    launches: list[Any] = field(default_factory=list)
    expected: list[bytes | None] = field(default_factory=list)  # None: the result of the first mode


class Unusable(Exception):
    """The program has no defined result, or does not compile."""


def make(batch: Batch) -> None:
    """Source, PTX, launches and expected results."""
    from .device import Launch

    if batch.language == "ptx":
        batch.source = ptx_programs.text_of(batch.programs)
        batch.ptx = batch.source.encode()
        batch.expected = [None] * len(batch.programs)
    else:
        batch.source = source_of(batch.programs)
        try:
            batch.expected = [expected(k) for k in batch.programs]
            batch.ptx = compile_ptx(batch.source, *batch.options)
        except (Invalid, CompileError) as error:
            raise Unusable(f"{type(error).__name__}: {error}") from None
    for k in batch.programs:
        sizes = memory_sizes(k) if isinstance(k, Kernel) else k.sizes
        batch.launches.append(Launch(k.name, k.grid, k.block, k.inputs, sizes, k.n, k.q))


def from_seed(language: str, seed: int, count: int) -> Batch:
    """`count` programs; their seeds are derived from that of the batch."""
    make_one = kernel_of if language == "cuda" else ptx_programs.kernel_of
    programs = [make_one(seed * 64 + j, f"k{j}") for j in range(count)]
    return Batch(language, programs, options_of(seed) if language == "cuda" else ())


def set_mode(mode: str) -> None:
    for name in ("CUCORE_CPU_W", "CUCORE_CPU_TIER"):
        os.environ.pop(name, None)
    os.environ.update(MODES[mode])


def send(pipe: BinaryIO, message: object) -> None:
    data = pickle.dumps(message)
    pipe.write(struct.pack("<Q", len(data)) + data)
    pipe.flush()


def _exactly(pipe: BinaryIO, count: int) -> bytes:
    parts = []
    while count:
        part = pipe.read(count)
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def receive(pipe: BinaryIO) -> Any:
    return pickle.loads(_exactly(pipe, struct.unpack("<Q", _exactly(pipe, 8))[0]))


def run(
    batch: Batch, pairs: list[tuple[str, int]], answers: BinaryIO, device: Any
) -> list[tuple[str, int, str, bytes]]:
    """Errors: mode, program number, message, output."""
    from .device import DeviceError

    wrong: list[tuple[str, int, str, bytes]] = []
    for mode in dict.fromkeys(m for m, _ in pairs):
        set_mode(mode)
        module = None
        for i in (i for m, i in pairs if m == mode):
            if mode == "check" and getattr(batch.programs[i], "exits", False):
                continue  # allowed by the hardware, and what `sync` reports
            send(answers, ("at", mode, i))
            try:
                module = module or device.load(batch.ptx)
                got = device.run(module, batch.launches[i])
            except DeviceError as error:
                wrong.append((mode, i, str(error), b""))
                module = None
                device.reset()
                continue
            if batch.expected[i] is None:
                batch.expected[i] = got
            elif got != batch.expected[i]:
                wrong.append((mode, i, "wrong result", got))
        if module:
            device.unload(module)
    return wrong


def main() -> None:
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print goes to standard error
    from .device import Device

    device = Device()
    while True:
        try:
            what, argument, modes = receive(requests)
        except EOFError:
            return
        try:
            if what == "seed":
                batch = from_seed(*argument)
                make(batch)
            elif what == "programs":
                batch = argument
                make(batch)
            else:
                batch = argument
        except Unusable as error:
            send(answers, ("unusable", str(error)))
            continue
        send(answers, ("made", batch))
        pairs = modes if what == "pairs" else [(m, i) for m in modes for i in range(len(batch.programs))]
        send(answers, ("done", run(batch, pairs, answers, device), batch.expected))
