# SPDX-License-Identifier: Apache-2.0
"""Launches from several Python threads at a time, each on its own stream.

    python bench/python/threads.py [--threads 1,2,4,8] [--rounds N] [--null build/dev/bench/null_driver/libcucore_null.so]
                                   [--docs docs/benchmarks/README.md]

Prints nanoseconds of wall time per launch of all threads together, and the throughput relative to one thread. With the null driver only the
packages and the interpreter take time. An interpreter with the GIL runs one thread at a time, so its throughput does not grow; one without
(3.13t, 3.14t) shows whether launches wait for each other. "shared": all threads launch one kernel with one LaunchConfig, so they compete for
the reference counts of these objects in the interpreter. "own": each thread has a kernel and a LaunchConfig of its own, which leaves what the
packages share: without the GIL, the goal for them is half of what as many processes would reach. A free core per thread is needed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import threading
import time
from itertools import repeat
from pathlib import Path
from typing import Any

from ptx import PTX
from tables import replace_table

LAUNCHES = 20_000
GOAL = 0.5  # of the number of threads


def seconds(count: int, is_shared: bool) -> float:
    """From the start of all threads until the last one has ended."""
    from cuda.core import Device, LaunchConfig, ObjectCode, launch

    device = Device(0)
    device.set_current()

    def objects() -> tuple[Any, Any]:
        return ObjectCode.from_ptx(PTX.encode()).get_kernel("k3"), LaunchConfig(grid=1, block=32)

    shared = objects()
    ready = threading.Barrier(count + 1)
    errors: list[BaseException] = []
    starts: list[float] = []  # taken by the threads: the main thread may be scheduled late
    ends: list[float] = []

    def work() -> None:
        try:
            device.set_current()
            stream = device.create_stream()
            buffer = device.allocate(4096, stream=stream)
            kernel, config = shared if is_shared else objects()
            call = launch  # a variable of this thread: the interpreter locks those of an enclosing function
            launch(stream, config, kernel, buffer, 1.0, 2)
            stream.sync()
            ready.wait()
            starts.append(time.perf_counter())
            for _ in repeat(None, LAUNCHES):
                call(stream, config, kernel, buffer, 1.0, 2)
            stream.sync()
            ends.append(time.perf_counter())
        except BaseException as error:
            errors.append(error)
            ready.abort()

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    with contextlib.suppress(threading.BrokenBarrierError):  # a thread has failed
        ready.wait()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return max(ends) - min(starts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", default="1,2,4,8")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--null", help="the driver that does nothing")
    parser.add_argument("--docs", type=Path, help="writes the table into this page")
    options = parser.parse_args()
    if options.null:
        os.environ |= {"CUCORE_DEVICE": "cpu", "CUCORE_CPU_LIBRARY": os.path.abspath(options.null)}
    counts = [int(word) for word in options.threads.split(",")]
    best = {(count, is_shared): float("inf") for count in counts for is_shared in (True, False)}
    for _ in range(options.rounds):
        for count, is_shared in best:
            best[count, is_shared] = min(best[count, is_shared], seconds(count, is_shared))
    is_locked = getattr(sys, "_is_gil_enabled", lambda: True)()
    about = f"Python {sys.version.split()[0]} {'with' if is_locked else 'without'} the GIL, {os.cpu_count()} processors"
    about += (
        f", {'the null driver' if options.null else 'the driver of this machine'}, best of {options.rounds} rounds."
    )
    lines = [
        "| threads | own, ns per launch | throughput | goal | shared, ns per launch | throughput |",
        "|---|---|---|---|---|---|",
    ]
    for count in counts:
        cells = []
        for is_shared in (False, True):
            each = best[count, is_shared] / count
            throughput = best[counts[0], is_shared] / counts[0] / each
            cells += [f"{each / LAUNCHES * 1e9:.0f}", f"{throughput:.2f}"]
            if not is_shared:
                met = "met" if throughput >= GOAL * count else "missed"
                cells.append("–" if is_locked or count == 1 else f"{GOAL * count:g} {met}")
        lines.append(f"| {count} | " + " | ".join(cells) + " |")
    text = "\n".join([about, "", *lines])
    print(text)
    if options.docs:
        replace_table(options.docs, "threads", text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
