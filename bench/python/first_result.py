# SPDX-License-Identifier: Apache-2.0
"""Time to the first result of a process: imports, a C++ program, a launch, and the result, with empty and with filled caches, with
NumPy's arrays and with those of the standard library.

    python bench/python/first_result.py [--rounds N] [--json FILE] [--docs docs/benchmarks/process.md]

Processes run in turns with `python -c "import numpy"`, which is the unit. Shown are medians of processor time, which other programs
disturb least; wall time is compared with its goal, for which the machine must be idle. The phases are those of the process itself.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from tables import replace_table

GOAL = 60  # milliseconds of wall time with filled caches
START = """
import json, time
OTHERS = "import NumPy, or ctypes and array"
marks = [("", time.process_time())]
def mark(name): marks.append((name, time.process_time()))
"""
KERNEL = """
device = Device()
device.set_current()
stream = device.create_stream()
mark("load the driver, create a context")
code = Program('''
extern "C" __global__ void saxpy(float a, const float* x, float* y, size_t n) {
    size_t i = threadIdx.x + size_t{blockIdx.x} * blockDim.x;
    if (i < n) y[i] = a * x[i] + y[i];
}''', "c++").compile("cubin")
mark("compile C++")
kernel = code.get_kernel("saxpy")
mark("load the code")
n = 1 << 16
config = LaunchConfig(grid=n // 256, block=256)
"""
END = """
mark("launch and read back")
print(json.dumps([(b[0], b[1] - a[1]) for a, b in zip(marks, marks[1:])]))
"""
WITH_NUMPY = f"""{START}
import numpy as np
mark(OTHERS)
from cuda.core import Device, LaunchConfig, PinnedMemoryResource, Program, launch
mark("import cuda.core")
{KERNEL}
memory = PinnedMemoryResource()
x, y = (np.from_dlpack(memory.allocate(4 * n, stream=stream)).view(np.float32) for _ in range(2))
stream.sync()
x[:], y[:] = 1, 2
mark("allocate and fill")
launch(stream, config, kernel, np.float32(3), x.ctypes.data, y.ctypes.data, np.uint64(n))
stream.sync()
assert (y == 5).all()
{END}"""
WITHOUT_NUMPY = f"""{START}
import ctypes
from array import array
mark(OTHERS)
from cuda.core import Device, LaunchConfig, Program, launch
mark("import cuda.core")
{KERNEL}
x, y = (device.allocate(4 * n, stream=stream) for _ in range(2))
x.copy_from(array("f", [1]) * n, stream=stream)
y.copy_from(array("f", [2]) * n, stream=stream)
mark("allocate and fill")
launch(stream, config, kernel, ctypes.c_float(3), x, y, ctypes.c_uint64(n))
result = array("f", bytes(4 * n))
y.copy_to(result, stream=stream)
stream.sync()
assert result.tobytes() == (array("f", [5]) * n).tobytes()
{END}"""


def run(code: str, environment: dict[str, str]) -> tuple[float, float, list[Any]]:
    """Processor and wall time in milliseconds, and the phases."""
    start, before = time.perf_counter(), os.times()
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    wall, after = time.perf_counter() - start, os.times()
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    return processor * 1e3, wall * 1e3, json.loads(done.stdout or "[]")


def measured(rounds: int) -> dict[str, Any]:
    times: dict[str, list[tuple[float, float]]] = {}
    phases: dict[str, dict[str, list[float]]] = {}
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as filled, tempfile.TemporaryDirectory() as bytecode:
        for number in range(rounds + 1):
            with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
                sides = {
                    "an interpreter that does nothing": ("pass", first),
                    "import numpy": ("import numpy", first),
                    "empty caches": (WITH_NUMPY, first),
                    "filled caches": (WITH_NUMPY, filled),
                    "empty caches, without NumPy": (WITHOUT_NUMPY, second),
                    "filled caches, without NumPy": (WITHOUT_NUMPY, filled),
                }
                for side, (code, folder) in sides.items():
                    own = {"CUCORE_CACHE_DIR": folder, "CUCORE_COMPILE_CACHE": f"{folder}/nvrtc"}
                    processor, wall, found = run(code, plain | own | {"PYTHONPYCACHEPREFIX": bytecode})
                    if number == 0:  # writes bytecode and fills the caches
                        continue
                    times.setdefault(side, []).append((processor, wall))
                    for name, spent in found:
                        phases.setdefault(side, {}).setdefault(name, []).append(spent * 1e3)
    return {
        "times": {side: [median(row[i] for row in rows) for i in (0, 1)] for side, rows in times.items()},
        "phases": {side: {name: median(values) for name, values in rows.items()} for side, rows in phases.items()},
    }


def tables(found: dict[str, Any]) -> str:
    unit = found["times"]["import numpy"][0]
    lines = ["| a process | processor time |", "|---|---|"]
    lines += [f"| {side} | {processor / unit:.2f} |" for side, (processor, _) in found["times"].items()]
    wall = {side: times[1] / GOAL for side, times in found["times"].items()}
    lines += ["", f"| wall time relative to the goal of {GOAL} ms | |", "|---|---|"]
    for side in ("filled caches, without NumPy", "filled caches"):
        lines += [f"| {side} | {wall[side]:.2f} {'met' if wall[side] <= 1 else 'missed'} |"]
    for side in ("import numpy", "an interpreter that does nothing"):
        lines += [f"| of that, {side} | {wall[side]:.2f} |"]
    shown = list(found["phases"])
    lines += ["", "| phase, processor time | " + " | ".join(shown) + " |", "|---|" + "---|" * len(shown)]
    phases = found["phases"]["filled caches"]
    import_numpy = next(iter(phases.values()))
    for name in phases:
        cells = (f"{found['phases'][side][name] / import_numpy:.2f}" for side in shown)
        lines += [f"| {name} | " + " | ".join(cells) + " |"]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--docs", type=Path, help="the page to write the tables into")
    options = parser.parse_args()
    os.environ.setdefault("CUCORE_DEVICE", "cpu")
    found = measured(options.rounds)
    text = f"{platform.machine()}, Python {platform.python_version()}, median of {options.rounds} processes.\n\n{tables(found)}"
    print(text)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    if options.docs:
        replace_table(options.docs, f"first result, {platform.machine()}", text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
