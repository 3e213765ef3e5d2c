# SPDX-License-Identifier: Apache-2.0
"""Renders docs/benchmarks/README.md and the charts of bench/charts.py from the JSON files of bench/run.py.

    python bench/page.py [--check] [FOLDER]

Comments mark the rendered sections of the page: <!-- measured: NAME --> for the table of NAME.json, <!-- goals: NAME --> for the goals,
<!-- kinds: NAME --> for the kinds of operations of the bindings, and <!-- instructions: MACHINE --> for the counts of
bench/instructions.json. The script replaces these sections and the numbers in README.md. --check writes nothing, lists the files that
would change, and exits with status 1 if there are any; a test runs it.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import charts
import front_page

ROOT = Path(__file__).parents[1]
Row = dict[str, float]  # side, nanoseconds
Run = dict[str, Any]  # contents of a JSON file

# Goals on a GPU in nanoseconds: in addition to the C call (+), as a multiple of it (x), or in total.
GOALS = {
    "launch_3": "+150", "graph_launch_20": "+150", "event_record": "+40", "stream_wait": "+40", "alloc_free_4k": "+40",
    "b_device_get_count": "+35", "b_device_get_attribute": "+35", "b_stream_query": "+35", "b_launch_ctypes": "+400",
    "device": "40", "get_kernel": "120", "launch_config": "120", "view_from_cupy": "150", "view_from_torch": "150",
    "launch_16": "+150", "graph_capture_1000": "x1.1", "graph_update_1000": "x1.1", "graph_launch_1000": "x1.1",
}  # fmt: skip
# Rows that release the GIL because the call may wait: their lower bound is a Python function that also releases it.
UNLOCKED = {"b_launch_ctypes"}
IMPORT_GOALS = {
    "cuda.core": 20,
    "cuda.bindings.driver": 5,
    "cuda.bindings.runtime": 5,
    "cuda.pathfinder": 5,
}  # milliseconds
SIDES = ("driver", "C inside", "least", "least unlocked", "C++", "ours", "NVIDIA", "CuPy", "Triton", "numba-cuda")
FLOORS = ("least", "least unlocked")  # shown with the goals only
CLOCK = {"clock_1000": 1, "clock_4000": 4}  # rows that measure the processor, not a call


def beyond(row: Row, side: str, floor: str = "driver") -> float | None:
    return row[side] - row[floor] if {side, floor} <= row.keys() else None


def verdict(name: str, row: Row) -> str:
    """The goal of a row and whether it was met; "" if there is none."""
    goal = GOALS.get(name, "")
    if not goal or "ours" not in row or (goal[0] in "+x" and "driver" not in row):
        return goal
    most = float(goal.lstrip("+x"))
    if goal[0] == "x":
        return goal + (" met" if row["ours"] <= most * row["driver"] else " missed")
    if goal[0] != "+":
        return goal + (" met" if row["ours"] <= most else " missed")
    if row["ours"] - row["driver"] <= most:
        return goal + " met"
    inside = beyond(row, "ours", "C inside")
    return goal + (" met against C inside" if inside is not None and inside <= most else " missed")


def proof(name: str, row: Row) -> str:
    """For a missed goal: the time of a minimal Python function for the same call."""
    side = "least unlocked" if name in UNLOCKED else "least"
    least, own = beyond(row, side), beyond(row, "ours", side)
    if not verdict(name, row).endswith("missed") or least is None or own is None:
        return ""
    goal = GOALS[name]
    allowed = (float(goal[1:]) - 1) * row["driver"] if goal[0] == "x" else float(goal.lstrip("+"))
    reach = "out of reach" if least > allowed else "missed"
    how = ", the lock given up," if name in UNLOCKED else ""
    return f"{reach}: a C function that does nothing but this{how} takes {least:+.0f}; ours takes {own:+.0f} more"


def sides_of(run: Run) -> list[str]:
    named = {side for row in run["calls"].values() for side in row}
    return [side for side in SIDES if side in named and side not in FLOORS]


def number(value: float | None, sign: str = "") -> str:
    return "–" if value is None else f"{value:{sign}.0f}"


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def calls_table(run: Run) -> str:
    sides = sides_of(run)
    head = ["call", *sides, "spread of ours", "ours - driver", "ours - C inside", "NVIDIA / ours", "goal"]
    rows = []
    for name, row in run["calls"].items():
        if name in CLOCK:
            continue
        ratio = row["NVIDIA"] / row["ours"] if {"ours", "NVIDIA"} <= row.keys() and row["ours"] else None
        cells = [f"`{name}`", *(number(row.get(side)) for side in sides)]
        cells.append(f"{run['spread'][name]['ours']:.0f} %" if "ours" in row else "–")
        cells += [number(beyond(row, "ours"), "+"), number(beyond(row, "ours", "C inside"), "+")]
        # A multiple of a call that does nothing is no goal.
        goal = "" if run["facts"]["name"] == "null" and GOALS.get(name, "").startswith("x") else verdict(name, row)
        rows.append([*cells, "–" if ratio is None else f"{ratio:.2f}", goal])
    return table(head, rows)


def goals_table(run: Run) -> str:
    """Every row with a goal: its time, the lower bound, and whether the goal is met or unreachable."""
    head = ["call", "driver", "least", "least unlocked", "ours", "ours - driver", "goal"]
    rows, reasons = [], []
    for name in GOALS:
        if (row := run["calls"].get(name)) is not None:
            cells = [number(row.get(side)) for side in ("driver", *FLOORS, "ours")]
            cells += [number(beyond(row, "ours"), "+"), verdict(name, row)]
            rows.append([f"`{name}`", *cells])
            if reason := proof(name, row):
                reasons.append(f"`{name}` {reason}.\n")
    slower = [
        f"`{name}` ({row['NVIDIA'] / row['ours']:.2f})"
        for name, row in run["calls"].items()
        if {"ours", "NVIDIA"} <= row.keys() and row["NVIDIA"] < row["ours"]
    ]
    text = clock(run) + "\n\n" + "\n".join([table(head, rows), *reasons]) + "\n"
    return text + "Rows in which NVIDIA's packages take less: " + (", ".join(slower) or "none") + ".\n"


def clock(run: Run) -> str:
    """How fast the processor was, as it was measured: a clock rate computed from the shortest time may be none that exists."""
    rows = run["median"]
    if "clock_1000" not in rows:
        return "The speed of the processor was not recorded."
    one, four = rows["clock_1000"]["driver"], rows["clock_4000"]["driver"]
    return f"Speed of the processor (medians): 1,000 dependent additions in {one:.0f} ns, 4,000 in four chains in {four:.0f} ns."


def section(run: Run) -> str:
    facts, imports, left_out = run["facts"], run["imports"], run["left_out"]
    name = facts["name"]
    text = f"{facts['where']}, {facts['machine']}, Python {facts['python']}, up to {facts['slices']} slices"
    text += (
        f"{', ' + facts['commit'] if facts.get('commit') else ''} ([{name}.json]({name}.json), [chart]({name}.svg))."
    )
    text += f" {clock(run)} Nanoseconds per call.\n\n{calls_table(run)}"
    if imports:
        sides = [side for side in ("ours", "NVIDIA") if any(side in row for row in imports.values())]
        rows = []
        for module, row in imports.items():
            goal = IMPORT_GOALS[module]
            cells = [f"{row[side]:.1f} ms" if side in row else "–" for side in sides]
            rows.append(
                [f"`{module}`", *cells, f"{goal} ms {'met' if row.get('ours', goal + 1) <= goal else 'missed'}"]
            )
        text += "\n" + table(["import", *sides, "goal"], rows)
    reasons: dict[str, list[str]] = {}
    for what, reason in left_out.items():
        reasons.setdefault(" ".join(reason.split())[:200], []).append(what)
    if reasons:
        text += "\nLeft out: " + "; ".join(f"{', '.join(what)} ({reason})" for reason, what in reasons.items()) + ".\n"
    return text


def instructions(machine: str) -> str:
    """The recorded instruction counts of the CPU device's hot paths."""
    recorded = json.loads((ROOT / "bench/instructions.json").read_text())[f"{machine} CPU device"]
    rows = [[f"`{name}`", f"{count:,.0f}"] for name, count in recorded.items()]
    return f"\n{table(['call', f'instructions ({machine})'], rows)}\n"


def steps(machine: str) -> str:
    """The instructions of the hot paths by component, next to a function that only makes the call."""
    recorded = json.loads((ROOT / "bench/instructions.json").read_text())
    kinds = sorted(kind for kind in recorded if kind.startswith(machine) and kind.endswith("steps"))
    rows = []
    for kind in kinds:
        for name, sides in recorded[kind].items():
            for side, n in sides.items():
                numbers = [n["CPython"], n["package"], n["driver"], n["lines"]]
                rows.append([f"`{name}`", side, *(f"{number:,}" for number in numbers)])
    head = ["call", "side", "interpreter", "package", "driver", "lines of code of the package"]
    return f"\n{', '.join(kinds).replace(' steps', '')}, instructions per call:\n\n{table(head, rows)}\n"


KINDS = {
    "make": "structs made", "get": "fields read", "set": "fields set", "repr": "structs printed", "enum": "enums", "handle": "handles",
    "call": "calls", "launch": "launches",
}  # fmt: skip


def kinds_table(run: Run) -> str:
    """Comparison of the two packages by kind of operation, and the operations in which cucore is slower."""
    facts = run["facts"]
    both = {name: row for name, row in run["calls"].items() if {"ours", "NVIDIA"} <= row.keys() and row["ours"]}
    rows = []
    for kind, what in KINDS.items():
        ratios = sorted(row["NVIDIA"] / row["ours"] for name, row in both.items() if name.split("_")[0] == kind)
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            rows.append([what, str(len(ratios)), f"{mean:.2f}", f"{ratios[0]:.2f}", f"{ratios[-1]:.2f}"])
    longer = sorted((row["NVIDIA"] / row["ours"], name) for name, row in both.items() if row["NVIDIA"] < row["ours"])
    named = [
        f"`{name}` {both[name]['ours']:.0f} to {both[name]['NVIDIA']:.0f}" for ratio, name in longer if ratio < 0.95
    ]
    name = facts["name"]
    text = f"{facts['where']}, {facts['machine']}, Python {facts['python']}, {len(both)} operations ([{name}.json]({name}.json)); "
    text += "how many times longer NVIDIA's package takes:\n\n"
    text += table(["operations", "how many", "mean", "least", "most"], rows)
    text += f"\nOurs take longer by more than a twentieth in {len(named)}" + (
        f" (ns): {', '.join(named)}" if named else ""
    )
    return text + f"; by less than that, which is what two runs differ by, in {len(longer) - len(named)}.\n"


PLACES: dict[str, Callable[[Run], str]] = {"measured": section, "goals": goals_table, "kinds": kinds_table}
RECORDED: dict[str, Callable[[str], str]] = {"instructions": instructions, "steps": steps}


def rendered(folder: Path) -> dict[Path, str]:
    """Every rendered file of the folder with its contents."""
    page = folder / "README.md"
    runs: dict[str, Run] = {}
    plotted: set[str] = set()

    def run_of(name: str) -> Run:
        if name not in runs:
            runs[name] = json.loads((folder / f"{name}.json").read_text())
        return runs[name]

    def fill(found: re.Match[str]) -> str:
        kind, name = found["kind"], found["name"]
        if kind in RECORDED:
            return f"<!-- {kind}: {name} -->{RECORDED[kind](name)}<!-- end: {name} -->"
        if kind == "measured":
            plotted.add(name)
        return f"<!-- {kind}: {name} -->\n{PLACES[kind](run_of(name))}<!-- end: {name} -->"

    pattern = rf"<!-- (?P<kind>{'|'.join([*RECORDED, *PLACES])}): (?P<name>\w+) -->\n.*?<!-- end: (?P=name) -->"
    files = {page: re.sub(pattern, fill, page.read_text(), flags=re.DOTALL)}
    files |= {folder / f"{name}.svg": charts.of_run(run) for name, run in runs.items() if name in plotted}
    files[folder / "front_calls.svg"] = charts.front_calls(run_of("h200"))
    return files | {
        folder / name: text for name, text in charts.from_kernels((folder / "kernels.md").read_text()).items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "docs/benchmarks")
    options = parser.parse_args()
    stale = [path for path, text in rendered(options.folder).items() if not path.exists() or path.read_text() != text]
    if options.check:
        print("\n".join(f"{path} is not what its JSON files say: run python bench/page.py" for path in stale))
        return 1 if stale else 0
    for path, text in rendered(options.folder).items():
        path.write_text(text)
    front_page.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
