# SPDX-License-Identifier: Apache-2.0
"""Measures a call: many calls per sample, without the loop overhead.

The result is nanoseconds per call, or instructions per call under callgrind (started by bench/instructions.py).
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
import time
from collections.abc import Callable
from itertools import repeat
from typing import Any

Call = Callable[[], Any]

COUNTED = os.environ.get("CUCORE_BENCH_COUNT") == "1"  # under callgrind, with the null driver
COUNTED_CALLS = 100


def loop(call: Call, n: int) -> int:
    start = time.perf_counter_ns()
    for _ in repeat(None, n):
        call()
    return time.perf_counter_ns() - start


def nothing() -> None:
    pass


def time_call(call: Call, drain: Call = nothing, batch: int = 1000) -> float:
    """Nanoseconds per call over one batch. `drain` (for example a sync) is not timed."""
    loop(call, min(batch, 5))
    drain()
    empty = min(loop(nothing, batch) for _ in range(2))
    gc.disable()
    try:
        spent = loop(call, batch)
    finally:
        gc.enable()
    drain()
    return max(0.0, (spent - empty) / batch)


class Counter:
    """Marks start and end of a measurement for callgrind, through the null driver."""

    def __init__(self) -> None:
        library = ctypes.CDLL(os.environ["CUCORE_CPU_LIBRARY"])
        self.dump = library.cucoreNullDump
        self.dump.argtypes = [ctypes.c_char_p]
        self.count("(empty)", nothing)

    def count(self, name: str, call: Call, drain: Call = nothing) -> None:
        loop(call, COUNTED_CALLS)  # warms caches and specializes the bytecode
        drain()
        gc.collect()
        gc.disable()
        self.dump(b"(between)")
        loop(call, COUNTED_CALLS)
        self.dump(name.encode())
        gc.enable()


class Suite:
    """Benchmarks by name. finish() measures on request: run.py requests one short batch from each side in turn, because processor
    clocks vary.

    A request is a name per line on standard input; a result is a line of JSON. The first line contains all names. Without a pipe
    everything is measured once."""

    def __init__(self) -> None:
        self.only = set(sys.argv[1:])
        self.calls: dict[str, tuple[Call, Call, int]] = {}
        self.late: dict[str, Callable[[], Call]] = {}
        self.skipped: dict[str, str] = {}
        self.counter = Counter() if COUNTED else None

    def run(self, name: str, make: Callable[[], Call], drain: Call = nothing, batch: int = 1000) -> None:
        if self.only and name not in self.only:
            return
        try:
            call = make()
            if self.counter is not None:
                self.counter.count(name, call, drain)
                return
            loop(call, min(batch, 50))
            drain()
            self.calls[name] = (call, drain, batch)
        except Exception as error:  # a missing feature of a package leaves an empty cell in the table
            self.skipped[name] = f"{type(error).__name__}: {error}"

    def run_late(self, name: str, make: Callable[[], Call]) -> None:
        """A row that is created on its first request: its imports (PyTorch, CuPy) change the time of driver calls in this process,
        so run.py requests it after all others."""
        if not self.only or name in self.only:
            self.late[name] = make

    def measured(self, name: str) -> float | None:
        """Measures one batch; None, with the reason in `skipped`, for a late row that is not possible here."""
        if name in self.late:
            self.run(name, self.late.pop(name))
        return time_call(*self.calls[name]) if name in self.calls else None

    def finish(self) -> None:
        if self.counter is not None:
            json.dump({"skipped": self.skipped}, sys.stdout)
        elif sys.stdin.isatty() or os.environ.get("CUCORE_BENCH_ONCE") == "1":
            for name in [*self.calls, *self.late]:
                if self.measured(name) is not None:
                    print(f"{name:<28}{min(time_call(*self.calls[name]) for _ in range(15)):>10.0f} ns")
            for name, reason in self.skipped.items():
                print(f"{name:<28} left out: {reason}")
        else:
            print(
                json.dumps({"rows": [*self.calls, *self.late], "late": list(self.late), "skipped": self.skipped}),
                flush=True,
            )
            for line in sys.stdin:
                if (spent := self.measured(line.strip())) is not None:
                    print(f"{spent:.1f}", flush=True)
                else:
                    print(json.dumps({"skipped": self.skipped[line.strip()]}), flush=True)
