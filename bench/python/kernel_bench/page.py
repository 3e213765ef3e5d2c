# SPDX-License-Identifier: Apache-2.0
"""Renders the tables as text for a terminal and as Markdown for docs/benchmarks/kernels.md, between markers."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from .compiling import Compiling
from .measure import Times
from .reasons import REASONS

MEAN_GOAL = 1.3
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


def of_ten(rows: list[Row], others: list[str]) -> str:
    lines = [
        [
            row.name,
            cell(row.ratio("ours")),
            verdict(row.ratio("ours"), row.goal),
            *(cell(row.ratio(side)) for side in others),
        ]
        for row in rows
        if row.ten
    ]
    total = mean(rows, "ours")
    lines.append(
        [
            "**geometric mean of the ten**",
            f"**{cell(total)}**",
            verdict(total, MEAN_GOAL),
            *(cell(mean(rows, s)) for s in others),
        ]
    )
    return table(["kernel", "ours / native", "goal", *(f"{side} / native" for side in others)], lines)


def of_more(rows: list[Row]) -> str:
    """Two kernels to a line."""
    cells = [[row.name, cell(row.ratio("ours"))] for row in rows if not row.ten]
    half = (len(cells) + 1) // 2
    right = [*cells[half:], *[["", ""]] * (2 * half - len(cells))]
    return table(["other kernels", "ours / native"] * 2, [a + b for a, b in zip(cells[:half], right, strict=True)])


def slowest(rows: list[Row]) -> str:
    ordered = sorted(rows, key=lambda row: -(row.ratio("ours") or 0))[:5]
    return "\n".join(
        f"- **{row.name} ({cell(row.ratio('ours'))}).** {REASONS.get(row.key, 'Not explained yet.')}" for row in ordered
    )


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
