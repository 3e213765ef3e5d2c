# SPDX-License-Identifier: Apache-2.0
"""Writes the numbers of docs/benchmarks to README.md, and the charts of the kernels: python bench/front_page.py.

`bench/run.py --docs` and `bench/python/kernels.py --markdown` call it, so that README.md has the latest numbers.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import charts

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- numbers: bench/front_page.py writes them -->\n", "<!-- end of numbers -->"
ROWS = {
    "launch_3": "launch of a kernel with 3 arguments",
    "graph_launch_20": "launch of a graph of 20 kernels",
    "alloc_free_4k": "allocate and free 4 KiB",
    "event_record": "record an event",
    "b_device_get_attribute": "`cuDeviceGetAttribute` through the bindings",
}


TEN = ("saxpy", "vector_add", "matmul", "reduce", "histogram", "mandelbrot", "blackscholes", "nbody", "stencil", "scan")


def geometric_mean(record: dict[str, Any], side: str) -> float:
    """Of the ten kernels with goals: processor time over that of native C++."""
    return math.prod(record["ratios"][name][side] for name in TEN) ** (1 / len(TEN))


def numbers(root: Path = ROOT) -> str:
    """The tables, as Markdown."""
    folder = root / "docs" / "benchmarks"
    measured = json.loads((folder / "h200.json").read_text())
    lines = [
        f"Nanoseconds per call, {measured['facts']['where']}, all sides in turns in one run (`make gpu-bench`):\n",
        "| call | C | ours | NVIDIA's packages |",
        "|---|---|---|---|",
    ]
    for name, meaning in ROWS.items():
        row = measured["calls"][name]
        lines.append(f"| {meaning} | {row['driver']:.0f} | {row['ours']:.0f} | {row['NVIDIA']:.0f} |")
    records = [json.loads(path.read_text()) for path in sorted((folder / "kernels").glob("*.json"))]
    records = [record for record in records if "-" not in record["target"]]  # not those of one generation of processors
    means = [f"{geometric_mean(record, 'ours'):.2f} with {record['title']}" for record in reversed(records)]
    others = [
        f"{side} {geometric_mean(record, side):.2f} with {record['title']}"
        for record in records
        for side in ("PoCL", "Numba")
        if side in record["ratios"]["saxpy"]
    ]
    lines.append(
        f"\nTen kernels on the CPU device take {', '.join(means)} times the processor time of native C++ with OpenMP\n"
        f"(geometric means; {', '.join(others)}; `make bench`)."
    )
    return "\n".join(lines) + "\n"


def write(root: Path = ROOT) -> None:
    path = root / "README.md"
    before, found, rest = path.read_text().partition(BEGIN)
    if not found or END not in rest:
        raise SystemExit(f"{path} has no place for the numbers: {BEGIN.strip()} ... {END}")
    path.write_text(before + BEGIN + numbers(root) + END + rest.partition(END)[2])
    folder = root / "docs" / "benchmarks"
    for name, picture in charts.from_kernels((folder / "kernels.md").read_text()).items():
        (folder / name).write_text(picture)


if __name__ == "__main__":
    write()
