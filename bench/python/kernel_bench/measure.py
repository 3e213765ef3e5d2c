# SPDX-License-Identifier: Apache-2.0
"""Runs a case on all sides alternately: checks each result against NumPy, then compares the sides round by round.

The result is the median over the rounds of the ratio of two sides. Both sides of a round run within milliseconds, so changes of
the machine between rounds (clock, load, cores) affect both and cancel in the ratio, and no single round decides."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any

from .case import Case, error_of, namespace
from .device import Device
from .sides import Arrays, Run, Side


def processor_time_ns() -> int:
    """Processor time of all threads. The process clock includes threads on other cores only up to their last tick, so short work could
    appear to be free; thread clocks are exact."""
    total = 0
    for thread in os.listdir("/proc/self/task"):
        try:
            total += time.clock_gettime_ns(~int(thread) << 3 | 6)  # Linux's number of the CPU clock of a thread
        except OSError:
            continue  # the thread has just ended
    return total


@dataclass
class Times:
    """Times of one side in nanoseconds: processor time of all threads, and wall time."""

    processor: list[int] = field(default_factory=list)
    wall: list[int] = field(default_factory=list)

    @property
    def best(self) -> int:
        return min(self.processor)

    def over(self, other: Times) -> float:
        """Processor time relative to another side: the median of the ratios of all rounds."""
        return median(mine / theirs for mine, theirs in zip(self.processor, other.processor, strict=True))

    def wall_over(self, other: Times) -> float:
        return median(mine / theirs for mine, theirs in zip(self.wall, other.wall, strict=True))

    def spread_over(self, other: Times) -> float:
        """The interquartile range of the ratios of all rounds."""
        ratios = [mine / theirs for mine, theirs in zip(self.processor, other.processor, strict=True)]
        if len(ratios) < 2:
            return 0.0
        low, _, high = quantiles(ratios, n=4, method="inclusive")
        return high - low


def interleaved(runs: dict[str, Run], rounds: int) -> dict[str, Times]:
    times = {name: Times() for name in runs}
    for run in runs.values():
        run()
    for turn in range(rounds):
        # alternating order, so that no side always follows the same other one
        for name, run in list(runs.items())[:: 1 if turn % 2 == 0 else -1]:
            time.sleep(0.02)  # OpenMP threads spin for a while
            processor, wall = processor_time_ns(), time.perf_counter_ns()
            run()
            times[name].processor.append(processor_time_ns() - processor)
            times[name].wall.append(time.perf_counter_ns() - wall)
    return times


def differences(case: Case, expected: dict[str, Any], arrays: Arrays) -> list[str]:
    """The errors in the results of a side after one run with initial data."""
    wrong = []
    for name, want in expected.items():
        worst, share = error_of(arrays[name], want, case.tolerance)
        if share > case.wrong_allowed:
            wrong.append(f"{name} is off by {worst:.3g} ({100 * share:.2g} % of the elements)")
    if case.check and not case.check(namespace(case.arrays), arrays.__getitem__):
        wrong.append("wrong")
    return wrong


@contextmanager
def memory_of(case: Case, device: Device) -> Iterator[Arrays]:
    arrays = {name: device.array(array) for name, array in case.arrays.items()}
    try:
        yield arrays
    finally:
        for array in arrays.values():
            device.free(array)


def measure(case: Case, sides: list[Side], arrays: Arrays, rounds: int) -> tuple[dict[str, Times], list[str]]:
    """Times per side, and errors. All sides use the same memory, which is reset for each side until all results are checked: different
    physical pages (also of a virtual machine's host) can cause large differences between sides that run the same code."""
    expected = case.expected(namespace(case.arrays))
    runs: dict[str, Run] = {}
    used: list[Side] = []
    wrong: list[str] = []
    for side in sides:
        for name, array in case.arrays.items():
            arrays[name][...] = array
        run = side.prepare(case, arrays)
        if run is None:
            continue
        run()  # compiles
        wrong += [f"{side.name}: {what}" for what in differences(case, expected, arrays)]
        runs[side.name] = run
        used.append(side)
    times = interleaved(runs, rounds)
    for side in used:
        side.finish()
    return times, wrong


def launch_times(sides: list[Side], rounds: int, count: int = 2000) -> dict[str, dict[str, float]]:
    """Nanoseconds of processor time per launch of an empty kernel, by side: "waited for" and "queued"."""
    many: dict[str, Callable[[int, bool], None]] = {}
    for side in sides:
        if launches := side.launches():
            many[side.name] = launches
    result = {}
    for what, each in (("waited for", True), ("queued", False)):
        runs = {name: (lambda launch=launch, each=each: launch(count, each)) for name, launch in many.items()}
        result[what] = {name: times.best / count for name, times in interleaved(runs, rounds).items()}
    return result
