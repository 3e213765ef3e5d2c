# SPDX-License-Identifier: Apache-2.0
"""Measures allocation and free: the time inside the driver's two calls, called from C and from `cuda.core`.

    python bench/python/allocate.py [--build FOLDER] [--seconds N] [--driver libcuda.so.1]

All measurements run in one process, on one stream and one pool, in alternating batches, so that driver and processor are in the same
state. A wrapper of the real driver measures the two calls (bench/cpp/overhead/clocked.cpp). The driver's time depends on the contents
of its pool, so only equal sizes are comparable.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import sys
import time
from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BATCH = 300


def loop(call: Callable[[], Any]) -> int:
    start = time.perf_counter_ns()
    for _ in repeat(None, BATCH):
        call()
    return time.perf_counter_ns() - start


def nothing() -> None:
    pass


def batch(call: Callable[[], Any]) -> float:
    """Nanoseconds per call from Python, without the loop overhead."""
    empty = min(loop(nothing) for _ in range(2))
    gc.disable()
    try:
        return (loop(call) - empty) / BATCH
    finally:
        gc.enable()


def fast(values: list[float]) -> float:
    return sorted(values)[len(values) // 10]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    device = os.environ.get("CUCORE_DEVICE", "cpu")
    parser.add_argument("--build", type=Path, default=ROOT / ("build/gpu" if device == "gpu" else "build/dev"))
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--driver", help="the driver library; default: the one that CUCORE_DEVICE selects")
    options = parser.parse_args()
    if options.driver is None and device == "cpu":
        import cucore

        options.driver = str(cucore.LIBRARY_FOLDER / "libcucore_cpu.so")
    front = (options.build / "bench/cpp/overhead/libbench_overhead_clocked.so").resolve()
    os.environ |= {
        "CUCORE_BENCH_DRIVER": options.driver or "libcuda.so.1",
        "CUCORE_DEVICE": "cpu",  # only reports the path of the library
        "CUCORE_CPU_LIBRARY": str(front),
    }
    from cuda.core import Device

    library = ctypes.CDLL(str(front))
    library.cucoreClockedLoop.restype = ctypes.c_double
    library.cucoreClockedLoop.argtypes = [ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
    dev = Device(0)
    dev.set_current()
    stream = dev.create_stream()
    kept = [dev.allocate(size, stream=stream) for size in (4096, 1 << 20)]  # as in the other benchmarks
    resource = dev.memory_resource
    pool, queue = int(resource.handle), int(stream.handle)

    def by_c(size: int, clocked: int) -> Callable[[], float]:
        return lambda: library.cucoreClockedLoop(BATCH, size, pool, queue, clocked)

    rows: dict[str, Callable[[], float]] = {}
    for name, size in (("4 KiB", 4096), ("1 MiB", 1 << 20)):
        rows[f"{name}, C, not clocked inside"] = by_c(size, 0)
        rows[f"{name}, C"] = by_c(size, 1)
        rows[f"{name}, Device.allocate"] = lambda size=size: batch(  # type: ignore[misc]
            lambda: dev.allocate(size, stream=stream).close(stream)
        )
        rows[f"{name}, MemoryResource.allocate"] = lambda size=size: batch(  # type: ignore[misc]
            lambda: resource.allocate(size, stream=stream).close(stream)
        )
    found: dict[str, tuple[list[float], list[float], list[float]]] = {name: ([], [], []) for name in rows}
    inside = (ctypes.c_double * 2)()
    end = time.monotonic() + options.seconds
    while time.monotonic() < end:
        for name, call in rows.items():
            library.cucoreClockedSpent(inside)
            spent = call()
            library.cucoreClockedSpent(inside)
            stream.sync()
            for values, value in zip(found[name], (spent, *inside), strict=True):
                values.append(value)
    print(f"{'nanoseconds, tenth percentile':<36}{'in all':>8}{'driver: allocate':>18}{'free':>8}{'outside':>9}")
    for name, lists in found.items():
        whole, make, take = map(fast, lists)
        parts = f"{make:>18.0f}{take:>8.0f}{whole - make - take:>9.0f}" if make else ""
        print(f"{name:<36}{whole:>8.0f}{parts}")
    del kept
    return 0


if __name__ == "__main__":
    sys.exit(main())
