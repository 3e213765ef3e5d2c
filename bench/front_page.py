# SPDX-License-Identifier: Apache-2.0
"""Writes the numbers of docs/benchmarks to README.md: python bench/front_page.py.

`bench/run.py --docs` and `bench/python/kernels.py --markdown` call it, so that README.md has the latest numbers.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- numbers: bench/front_page.py writes them -->\n", "<!-- end of numbers -->"
ROWS = {
    "launch_3": "launch of a kernel with 3 arguments",
    "graph_launch_20": "launch of a graph of 20 kernels",
    "alloc_free_4k": "allocate and free 4 KiB",
    "event_record": "record an event",
    "b_device_get_attribute": "`cuDeviceGetAttribute` through the bindings",
}


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
    kernels = (folder / "kernels.md").read_text()
    found = re.search(r"\| \*\*geometric mean of the ten\*\* \| \*\*(.+?)\*\* \|.*?\| (\S+) \| (\S+) \|", kernels)
    if found is None:
        raise SystemExit("docs/benchmarks/kernels.md has no row with the geometric mean of the ten")
    ours, pocl, numba = found.groups()
    lines.append(
        f"\nTen kernels on the CPU device take {ours} times the processor time of native C++ with OpenMP (geometric mean; PoCL {pocl},\n"
        f"Numba {numba}; `make bench`)."
    )
    return "\n".join(lines) + "\n"


def write(root: Path = ROOT) -> None:
    path = root / "README.md"
    before, found, rest = path.read_text().partition(BEGIN)
    if not found or END not in rest:
        raise SystemExit(f"{path} has no place for the numbers: {BEGIN.strip()} ... {END}")
    path.write_text(before + BEGIN + numbers(root) + END + rest.partition(END)[2])


if __name__ == "__main__":
    write()
