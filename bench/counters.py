# SPDX-License-Identifier: Apache-2.0
"""Measures calls with hardware performance counters: instructions, cycles, cache and branch misses per call.

    python bench/counters.py [--build FOLDER] [--null] [--json FILE] [ROW...]

Counts the calling thread in user space, for the sides `least` (a Python function that only makes the C call), `least unlocked` and
`ours`, on the driver that CUCORE_DEVICE selects or on the null driver (--null). A call that needs the same instructions on both
drivers but more cycles on the real one has cache misses caused by that driver. Requires perf_event_open, which cloud machines
often do not permit; an error reports that.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent
ROWS = (
    "launch_3",
    "graph_launch_20",
    "event_record",
    "stream_wait",
    "alloc_free_4k",
    "b_device_get_count",
    "b_device_get_attribute",
)
SYSCALL = {"x86_64": 298, "aarch64": 241}
# (type, config): PERF_TYPE_HARDWARE 0, PERF_TYPE_HW_CACHE 3 (cache | operation << 8 | result << 16).
EVENTS = {
    "instructions": (0, 1), "cycles": (0, 0), "branch misses": (0, 5),
    "L1 instruction misses": (3, 1 | 0 << 8 | 1 << 16), "L1 data misses": (3, 0 | 0 << 8 | 1 << 16),
}  # fmt: skip


class Attributes(ctypes.Structure):
    """struct perf_event_attr of Linux 3.3 (its size identifies the version)."""

    _fields_ = [
        ("type", ctypes.c_uint32), ("size", ctypes.c_uint32), ("config", ctypes.c_uint64), ("sample", ctypes.c_uint64),
        ("sample_type", ctypes.c_uint64), ("read_format", ctypes.c_uint64), ("flags", ctypes.c_uint64),
        ("wakeup", ctypes.c_uint32), ("bp_type", ctypes.c_uint32), ("config1", ctypes.c_uint64), ("config2", ctypes.c_uint64),
        ("branch_sample_type", ctypes.c_uint64), ("sample_regs", ctypes.c_uint64), ("sample_stack", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]  # fmt: skip


class Counter:
    """A counter of one event of this thread, in user space only."""

    def __init__(self, kind: int, config: int) -> None:
        exclude_kernel, exclude_hypervisor = 1 << 5, 1 << 6
        attributes = Attributes(type=kind, config=config, flags=exclude_kernel | exclude_hypervisor)
        attributes.size = ctypes.sizeof(Attributes)
        libc = ctypes.CDLL(None, use_errno=True)
        self.file = libc.syscall(SYSCALL[platform.machine()], ctypes.byref(attributes), 0, -1, -1, 0)
        if self.file < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def read(self) -> int:
        return int.from_bytes(os.read(self.file, 8), sys.byteorder)


def count(calls: dict[str, tuple[Any, Any, int]]) -> dict[str, dict[str, float]]:
    """Per row and event: the minimum of several batches, without the loop overhead."""
    from timing import loop, nothing

    counters = {}
    for name, event in EVENTS.items():
        try:
            counters[name] = Counter(*event)
        except OSError as error:
            print(f"{name}: {error.strerror}", file=sys.stderr)
    result: dict[str, dict[str, float]] = {}
    for row, (call, drain, batch) in calls.items():
        for name, counter in counters.items():
            spent = {}
            for what in (nothing, call):
                samples = []
                for _ in range(20):
                    before = counter.read()
                    loop(what, batch)
                    samples.append(counter.read() - before)
                    drain()
                spent[what] = sorted(samples)[2]
            result.setdefault(row, {})[name] = (spent[call] - spent[nothing]) / batch
    return result


def child() -> None:
    """A side: runs the calls of bench/python/overhead.py or least.py and counts events instead of measuring time."""
    sys.path.insert(0, str(HERE / "python"))
    import runpy

    import timing

    script = sys.argv[2]
    sys.argv = [script, *sys.argv[3:]]

    def finish(suite: timing.Suite) -> None:
        print(json.dumps(count(suite.calls)))

    timing.Suite.finish = finish  # type: ignore[method-assign]
    runpy.run_path(script, run_name="__main__")


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        child()
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path)
    parser.add_argument("--null", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("rows", nargs="*")
    options = parser.parse_args()
    try:
        Counter(*EVENTS["instructions"])
    except OSError as error:
        print(f"no counters here: {error}", file=sys.stderr)
        return 2
    device = os.environ.get("CUCORE_DEVICE", "cpu")
    build = (options.build or ROOT / ("build/gpu" if device == "gpu" else "build/dev")).resolve()
    environment, library = dict(os.environ), "libcuda.so.1"
    if options.null:
        library = str(build / "bench/null_driver/libcucore_null.so")
        environment |= {"CUCORE_DEVICE": "cpu", "CUCORE_CPU_LIBRARY": library}
    elif device == "cpu":
        import cucore

        library = str(cucore.CPU_DRIVER_FOLDER / "libcuda.so.1")
    least = [str(HERE / "python/least.py"), str(build / "bench/cpp/overhead/libbench_overhead_least.so"), library]
    sides = {
        "least": [*least, "kept"],
        "least unlocked": [*least, "given_up"],
        "ours": [str(HERE / "python/overhead.py")],
    }
    rows = options.rows or list(ROWS)
    counted: dict[str, dict[str, dict[str, float]]] = {}
    for side, command in sides.items():
        full = [sys.executable, str(Path(__file__).resolve()), "--child", *command, *rows]
        done = subprocess.run(full, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        counted[side] = json.loads(done.stdout.strip().splitlines()[-1])
    print(f"{'call':<26}{'side':<16}" + "".join(f"{name:>23}" for name in EVENTS))
    for row in rows:
        for side, found in counted.items():
            if row in found:
                print(
                    f"{row:<26}{side:<16}" + "".join(f"{found[row].get(name, float('nan')):>23.1f}" for name in EVENTS)
                )
    if options.json:
        options.json.write_text(json.dumps(counted, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
