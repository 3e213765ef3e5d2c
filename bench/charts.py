# SPDX-License-Identifier: Apache-2.0
"""The charts of README.md and of docs/benchmarks, from the recorded runs. `bench/page.py` writes them and checks them."""

from __future__ import annotations

import re
from typing import Any

from call_names import NAMES
from chart import NUMBA, NVIDIA, OURS, POCL, Bar, C, bars, points

Run = dict[str, Any]
# The rows of the front page: names that need no explanation.
FRONT = {
    "launch_3": "launch a kernel",
    "graph_launch_20": "launch a graph of 20 kernels",
    "alloc_free_4k": "allocate and free 4 KiB",
    "event_record": "record an event",
    "b_device_get_attribute": "cuDeviceGetAttribute",
}
PACKAGES = {"cucore": OURS, "NVIDIA's packages": NVIDIA}


def where(run: Run) -> str:
    facts = run["facts"]
    place = facts["where"]
    return f"{place[0].upper()}{place[1:]}, {facts['machine']}, Python {facts['python']}"


def front_calls(run: Run) -> str:
    """What Python adds to the C call, for some calls; each pair has a scale of its own."""
    rows = {}
    for name, shown in FRONT.items():
        row = run["calls"][name]
        added = {side: row[side] - row["driver"] for side in ("ours", "NVIDIA")}
        most = max(added.values())
        rows[shown] = [
            Bar(f"{added['ours']:,.0f} ns", added["ours"] / most, OURS),
            Bar(f"{added['NVIDIA']:,.0f} ns", added["NVIDIA"] / most, NVIDIA),
        ]
    note = f"Nanoseconds beyond the same call in C; shorter is better. Each pair has its own scale. {where(run)}."
    return bars("What Python adds to a CUDA call", note, rows, PACKAGES)


def compared_target(page: str) -> str:
    """The target on which other implementations were measured too, as the tables of docs/benchmarks/kernels.md name it."""
    found = re.search(r"PoCL, ([\w-]+)", page.partition("<!-- ten -->")[2].partition("<!-- end -->")[0])
    if found is None:
        raise SystemExit("docs/benchmarks/kernels.md has no column of PoCL")
    return found[1]


def kernel_rows(page: str) -> dict[str, dict[str, float]]:
    """The table of the ten kernels of docs/benchmarks/kernels.md: times relative to native code on the target with other implementations."""
    table = page.partition("<!-- ten -->")[2].partition("<!-- end -->")[0]
    head, *lines = [
        [cell.strip(" *") for cell in line.strip().strip("|").split("|")] for line in table.splitlines() if line
    ]
    target = compared_target(page)
    columns = {"cucore": target, "PoCL": f"PoCL, {target}", "Numba": f"Numba, {target}"}
    rows = {}
    for cells in lines:
        values = {side: cells[head.index(title)].partition(" ")[0] for side, title in columns.items() if title in head}
        numbers = {side: float(value) for side, value in values.items() if re.fullmatch(r"[\d.]+", value)}
        if "cucore" in numbers:
            rows[cells[0]] = numbers
    return rows


LONGEST = 100_000  # nanoseconds: what takes longer is no call but a compilation
MEAN = "geometric mean of the ten"


def machine(page: str) -> str:
    machines = page.partition("<!-- machine -->\n")[2].partition("\n<!-- end -->")[0]
    return machines.partition(f"**{compared_target(page)}**: ")[2].partition("\n")[0].rstrip(".")


def front_kernels(page: str) -> str:
    mean = kernel_rows(page)[MEAN]
    sides = {"native C++ (OpenMP)": (1.0, C), "cucore, CPU device": (mean["cucore"], OURS)}
    sides |= {name: (mean[name], colour) for name, colour in (("Numba", NUMBA), ("PoCL", POCL)) if name in mean}
    most = max(value for value, _ in sides.values())
    rows = {name: [Bar(f"{value:.2f}", value / most, colour)] for name, (value, colour) in sides.items()}
    note = f"Processor time of ten kernels, native C++ = 1 (geometric mean); shorter is better. {machine(page)}."
    return bars("CUDA kernels run on the CPU at the speed of native code", note, rows)


def kernels(page: str) -> str:
    rows = {name: row for name, row in kernel_rows(page).items() if name != MEAN}
    series = {"cucore": OURS, "Numba": NUMBA, "PoCL": POCL}
    note = f"Processor time relative to native C++ (dashed line: 1); further left is better. {machine(page)}."
    return points("Ten kernels on the CPU device, beside Numba and PoCL", note, rows, series, "x", mark=1)


def compared(run: Run) -> str:
    """How many times longer NVIDIA's packages take, for every call that both have."""
    ratios = {
        NAMES[name]: row["NVIDIA"] / row["ours"]
        for name, row in run["calls"].items()
        if name in NAMES and {"ours", "NVIDIA"} <= row.keys() and row["ours"]
    }
    most = max(ratios.values())
    rows = {
        name: [Bar(f"{ratio:.2f}", ratio / most, OURS if ratio >= 1 else NVIDIA)]
        for name, ratio in sorted(ratios.items(), key=lambda item: -item[1])
    }
    less = sum(ratio < 1 for ratio in ratios.values())
    note = f"Time of the call with NVIDIA's packages, divided by the time with cucore. {where(run)}. Below 1: {less} of {len(ratios)}."
    return bars("How many times longer a call takes with NVIDIA's packages", note, rows)


def added(run: Run, title: str) -> str:
    """The C call and the Python call, for every call that both have."""
    rows = {
        NAMES[name]: {"C": max(row["driver"], 1.0), "Python (cucore)": row["ours"]}
        for name, row in run["calls"].items()
        if name in NAMES and {"ours", "driver"} <= row.keys() and row["ours"] < LONGEST
    }
    ordered = dict(sorted(rows.items(), key=lambda item: item[1]["Python (cucore)"]))
    series = {"C": C, "Python (cucore)": OURS}
    return points(title, f"Nanoseconds per call; further left is better. {where(run)}.", ordered, series, "ns")


def of_run(run: Run) -> str:
    """The chart of a run on the page of benchmarks."""
    name = run["facts"]["name"]
    if any("NVIDIA" in row for row in run["calls"].values()):
        return compared(run)
    if name == "null":
        return added(run, "What is left of a call when the driver takes no time")
    return added(run, "A call of the CPU device from C and from Python")


def from_kernels(page: str) -> dict[str, str]:
    """The charts that docs/benchmarks/kernels.md gives, by the names of their files."""
    return {"front_kernels.svg": front_kernels(page), "kernels.svg": kernels(page)}
