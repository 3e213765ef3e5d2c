# SPDX-License-Identifier: Apache-2.0
"""Resident memory of a process: after imports, with a device, after the first kernel, and for each further kernel.

    python bench/python/memory.py [--nvidia PYTHON] [--rounds N] [--json FILE] [--docs docs/benchmarks/process.md]

Each step is measured in processes of its own, in turns: the median of several. `resident` is all memory of the process, `own` what no other
process could share (anonymous memory: heaps and relocated data). PYTHON is an interpreter with NVIDIA's packages; without a GPU only
their import is measured. The compile caches are empty (`compiled`) or filled (`from the caches`).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from tables import replace_table

KERNELS = 40
PROBE = r"""
import json, sys
KERNELS = int(sys.argv[1])
steps = {}

def mark(name):
    found = dict(line.split(":", 1) for line in open("/proc/self/smaps_rollup") if ":" in line.split("-")[0])
    steps[name] = [int(found[key].split()[0]) for key in ("Rss", "Anonymous")]

mark("the interpreter")
import cuda.core
from cuda.core import Device, LaunchConfig, ObjectCode, Program, ProgramOptions, launch
mark("import cuda.core")
if KERNELS:
    device = Device()
    device.set_current()
    stream = device.create_stream()
    mark("a device")
    buffer = device.allocate(4096, stream=stream)

    def kernel(number):
        text = 'extern "C" __global__ void k%d(float* p) { unsigned i = threadIdx.x + blockIdx.x * blockDim.x; p[i] = p[i] * %d.5f + i; }'
        loaded = Program(text % (number, number), "c++").compile("cubin").get_kernel("k%d" % number)
        launch(stream, LaunchConfig(grid=4, block=256), loaded, buffer)
        stream.sync()
        return loaded

    kept = [kernel(0)]
    mark("the first kernel")
    kept += [kernel(number) for number in range(1, KERNELS + 1)]
    mark("all kernels")
print(json.dumps(steps))
"""


def run(python: str, kernels: int, environment: dict[str, str]) -> dict[str, list[int]]:
    done = subprocess.run(
        [python, "-c", PROBE, str(kernels)], env=environment, cwd="/", capture_output=True, text=True, check=True
    )
    found: dict[str, list[int]] = json.loads(done.stdout)
    return found


def measured(nvidia: str | None, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Side -> step -> MiB (resident, own)."""
    samples: dict[str, list[dict[str, list[int]]]] = {}
    with tempfile.TemporaryDirectory() as filled:
        for _ in range(rounds + 1):
            with tempfile.TemporaryDirectory() as empty:
                for side, folder in (("ours, compiled", empty), ("ours, from the caches", filled)):
                    caches = {"CUCORE_CACHE_DIR": folder, "CUCORE_COMPILE_CACHE": f"{folder}/nvrtc"}
                    samples.setdefault(side, []).append(run(sys.executable, KERNELS, os.environ | caches))
            if nvidia:
                samples.setdefault("NVIDIA's", []).append(run(nvidia, 0, dict(os.environ)))
    return {
        side: {
            step: [round(median(found[step][i] for found in all_runs[1:]) / 1024, 1) for i in (0, 1)]
            for step in all_runs[0]
        }
        for side, all_runs in samples.items()
    }


def table(found: dict[str, dict[str, list[float]]]) -> str:
    sides = list(found)
    steps = list(found[sides[0]])
    lines = ["| MiB resident (own) | " + " | ".join(sides) + " |", "|---" * (len(sides) + 1) + "|"]

    def cell(value: list[float] | None) -> str:
        return "–" if value is None else f"{value[0]:.1f} ({value[1]:.1f})"

    for step in steps[:-1]:
        lines.append(f"| after {step} | " + " | ".join(cell(found[side].get(step)) for side in sides) + " |")
    cells: list[str] = []
    for side in sides:
        first, last = found[side].get("the first kernel"), found[side].get("all kernels")
        each = None if first is None or last is None else [(b - a) / KERNELS for a, b in zip(first, last, strict=True)]
        cells.append("–" if each is None else f"{each[0]:.2f} ({each[1]:.2f})")
    lines.append("| each further kernel | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvidia", help="an interpreter that has NVIDIA's packages")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--docs", type=Path, help="the page to write the table into")
    options = parser.parse_args()
    found: dict[str, Any] = measured(options.nvidia, options.rounds)
    text = f"{platform.machine()}, Python {platform.python_version()}, median of {options.rounds} processes.\n\n{table(found)}"
    print(text)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    if options.docs:
        replace_table(options.docs, f"memory, {platform.machine()}", text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
