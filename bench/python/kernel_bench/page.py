# SPDX-License-Identifier: Apache-2.0
"""Renders the tables as text for a terminal and as Markdown for docs/benchmarks/kernels.md, between markers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import ten
from .case import CASES, Case
from .compiling import Compiling
from .measure import Times
from .reasons import REASONS
from .records import Record, geometric_mean

MEAN_GOAL = 1.3
ALL_GOAL = 1.2  # geometric mean of all kernels
MOST = 3.0  # of any kernel
FAMILIES = ("ten", "more", "images", "simulation", "networks", "quantized", "primitives")
LAUNCH_GOALS = {"waited for": 2000.0, "queued": 1000.0}  # nanoseconds


@dataclass
class Row:
    key: str
    name: str
    ten: bool
    goal: float | None
    times: dict[str, Times]
    wrong: list[str]

    def ratio(self, side: str) -> float | None:
        return self.times[side].over(self.times["native"]) if side in self.times else None


def cell(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def verdict(value: float | None, goal: float | None) -> str:
    return "–" if value is None or goal is None else f"{goal:g} met" if value <= goal else f"{goal:g} missed"


def mean(rows: list[Row], side: str) -> float | None:
    """The geometric mean of the ten kernels; None if one is missing."""
    values = [row.ratio(side) for row in rows if row.ten]
    known = [value for value in values if value is not None]
    return math.exp(sum(map(math.log, known)) / len(known)) if len(known) == 10 else None


def _cases() -> list[Callable[[], Case]]:
    """Family by family, in whichever order they were imported."""
    return sorted(CASES, key=lambda make: FAMILIES.index(make.__module__.rpartition(".")[2]))


def _judged(record: Record, value: float | None, goal: float | None) -> str:
    """A ratio, with a mark where it misses the goal; records of earlier goals are not judged."""
    missed = record.judged and value is not None and goal is not None and value > goal
    return cell(value) + (" missed" if missed else "")


def line(row: Row, others: list[str]) -> str:
    ours, native = row.times["ours"], row.times["native"]
    cells = "".join(f"{cell(row.ratio(side)):>8}" for side in others)
    wall, spread = ours.wall_over(native), ours.spread_over(native)
    result = "; ".join(row.wrong) or "all right"
    return (
        f"{row.name:<28}{cell(row.ratio('ours')):>7}{verdict(row.ratio('ours'), row.goal):>13}{cells}"
        f"{spread:>8.2f}{wall:>7.2f}  {result}"
    )


def heading(others: list[str]) -> str:
    return (
        f"{'time / time of native C++':<28}{'ours':>7}{'goal':>13}"
        + "".join(f"{n:>8}" for n in others)
        + "  spread   wall  results"
    )


def table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *rows])


def of_ten(records: list[Record]) -> str:
    """The ten kernels: the goal, a column per target, and other implementations where they were measured."""
    others = [
        (record, side)
        for record in records
        for side in ("PoCL", "Numba")
        if any(side in r for r in record.ratios.values())
    ]
    lines = []
    for key, name, goal in ((c.__name__, c().name, c().goal) for c in _cases() if c.__module__ == ten.__name__):
        cells = [_judged(record, record.ratios.get(key, {}).get("ours"), goal) for record in records]
        lines.append(
            [name, f"{goal:g}", *cells, *(cell(record.ratios.get(key, {}).get(side)) for record, side in others)]
        )
    keys = [c.__name__ for c in _cases() if c.__module__ == ten.__name__]
    means = [_judged(record, geometric_mean(record, keys), MEAN_GOAL) for record in records]
    lines.append(
        [
            "**geometric mean of the ten**",
            f"{MEAN_GOAL:g}",
            *(f"**{m}**" for m in means),
            *(cell(geometric_mean(r, keys, s)) for r, s in others),
        ]
    )
    return table(["kernel", "goal", *(r.title for r in records), *(f"{side}, {r.title}" for r, side in others)], lines)


def of_more(records: list[Record]) -> str:
    """The other kernels, and the geometric mean of all of them with the ten."""
    lines = [
        [name, *(_judged(record, record.ratios.get(key, {}).get("ours"), MOST) for record in records)]
        for key, name in ((c.__name__, c().name) for c in _cases() if c.__module__ != ten.__name__)
    ]
    keys = [c.__name__ for c in _cases()]
    means = [_judged(record, geometric_mean(record, keys), ALL_GOAL) for record in records]
    counts = [str(sum("ours" in record.ratios.get(key, {}) for key in keys)) for record in records]
    lines.append(["**geometric mean, with the ten**", *(f"**{mean}**" for mean in means)])
    lines.append(["kernels in it", *counts])
    return table(["other kernels", *(record.title for record in records)], lines)


def slow(records: list[Record]) -> str:
    """A sentence for every kernel that misses its goal on a target of x86-64, slowest first."""
    missed = []
    for case in _cases():
        goal = case().goal if case.__module__ == ten.__name__ else MOST
        ratios = [(r.title, r.ratios.get(case.__name__, {}).get("ours")) for r in records if r.judged]
        over = [(title, ratio) for title, ratio in ratios if ratio is not None and goal is not None and ratio > goal]
        if over:
            text = ", ".join(f"{cell(ratio)} with {title}" for title, ratio in over)
            reason = REASONS.get(case.__name__, "Not explained yet.")
            missed.append((max(ratio for _, ratio in over), f"- **{case().name}** ({text}). {reason}"))
    return "\n".join(line for _, line in sorted(missed, reverse=True)) or "None."


def launches(times: dict[str, dict[str, float]]) -> str:
    """Processor time of a launch relative to its goal and to PoCL."""
    lines = []
    for what, by_side in times.items():
        goal = LAUNCH_GOALS[what]
        against = by_side["PoCL"] / by_side["ours"] if "PoCL" in by_side else None
        lines.append([f"an empty kernel, {what}", f"{goal / 1000:g} µs", cell(by_side["ours"] / goal), cell(against)])
    return table(["launch", "goal", "ours / goal", "PoCL / ours"], lines)


def compiled(rows: list[Compiling]) -> str:
    """Time from PTX to machine code relative to its goal, and the time of the next process with a filled cache."""
    lines = [
        [
            f"{row.name}, {row.instructions} instructions",
            f"{row.goal / 1e6:g} ms",
            f"{cell(row.first / row.goal)} {'met' if row.first <= row.goal else 'missed'}",
            "nothing met" if row.compiled_again == 0 else f"{row.compiled_again} times missed",
            cell(row.again / row.first),
            cell(row.best / row.goal),
        ]
        for row in rows
    ]
    return table(
        [
            "PTX to machine code",
            "goal",
            "ours / goal",
            "compiled in the next process",
            "its time / first",
            "the best code / goal",
        ],
        lines,
    )


def write(path: Path, parts: dict[str, str]) -> None:
    """Replaces the text between `<!-- NAME -->` and `<!-- end -->`; a file without such markers is overwritten with the parts."""
    text = path.read_text() if path.exists() else ""
    for name, part in parts.items():
        place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if place.search(text):
            text = place.sub(lambda found, part=part: f"{found[1]}{part}\n{found[2]}", text)
        else:
            text += f"<!-- {name} -->\n{part}\n<!-- end -->\n"
    path.write_text(text)
