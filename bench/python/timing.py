"""How a call is measured: many calls per sample, the loop itself subtracted.

Nanoseconds per call come out; or instructions per call where callgrind counts them (bench/instructions.py starts it so).
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


def time_call(call: Call, drain: Call = nothing, batch: int = 1000, samples: int = 15) -> list[float]:
    """Nanoseconds per call, one number per sample. `drain` runs between samples, outside the clock (a sync, say)."""
    loop(call, min(batch, 50))
    drain()
    empty = min(loop(nothing, batch) for _ in range(5))
    result = []
    gc.disable()
    try:
        for _ in range(samples):
            result.append(max(0.0, (loop(call, batch) - empty) / batch))
            drain()
    finally:
        gc.enable()
    return result


class Counter:
    """Tells callgrind where a measurement begins and ends, through the null driver."""

    def __init__(self) -> None:
        library = ctypes.CDLL(os.environ["CUCORE_CPU_LIBRARY"])
        self.dump = library.cucoreNullDump
        self.dump.argtypes = [ctypes.c_char_p]
        self.count("(empty)", nothing)

    def count(self, name: str, call: Call) -> None:
        loop(call, COUNTED_CALLS)  # caches filled, bytecode specialised
        gc.collect()
        gc.disable()
        self.dump(b"(between)")
        loop(call, COUNTED_CALLS)
        self.dump(name.encode())
        gc.enable()


class Suite:
    """Collects benchmarks by name and writes them as one JSON object, so that runs of other programs can be joined."""

    def __init__(self) -> None:
        self.only = set(sys.argv[1:])
        self.results: dict[str, list[float]] = {}
        self.skipped: dict[str, str] = {}
        self.counter = Counter() if COUNTED else None

    def run(self, name: str, make: Callable[[], Call], drain: Call = nothing, batch: int = 1000, samples: int = 15) -> None:
        if self.only and name not in self.only:
            return
        try:
            call = make()
            if self.counter is not None:
                self.counter.count(name, call)
            else:
                self.results[name] = time_call(call, drain, batch, samples)
        except Exception as error:  # a package without this feature is a gap in the table, not the end of the run
            self.skipped[name] = f"{type(error).__name__}: {error}"

    def finish(self) -> None:
        json.dump({"results": self.results, "skipped": self.skipped}, sys.stdout)
