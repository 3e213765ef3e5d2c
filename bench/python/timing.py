"""How a call is timed: many calls per sample, many samples, the loop itself subtracted; nanoseconds per call come out."""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from itertools import repeat
from typing import Any

Call = Callable[[], Any]


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


class Suite:
    """Collects benchmarks by name and writes them as one JSON object, so that runs of other programs can be joined."""

    def __init__(self) -> None:
        self.only = set(sys.argv[1:])
        self.results: dict[str, list[float]] = {}
        self.skipped: dict[str, str] = {}

    def run(self, name: str, make: Callable[[], Call], drain: Call = nothing, batch: int = 1000, samples: int = 15) -> None:
        if self.only and name not in self.only:
            return
        try:
            self.results[name] = time_call(make(), drain, batch, samples)
        except Exception as error:  # a package without this feature is a gap in the table, not the end of the run
            self.skipped[name] = f"{type(error).__name__}: {error}"

    def finish(self) -> None:
        json.dump({"results": self.results, "skipped": self.skipped}, sys.stdout)
