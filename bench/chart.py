# SPDX-License-Identifier: Apache-2.0
"""Charts as SVG: bars, and points on a logarithmic axis. Each has a title with its message, and a note that says what was measured.

A chart has its own light background, so that it is readable in pages with light and dark themes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

OURS, NVIDIA, C, NUMBA, POCL = "#2f855a", "#b9bfc9", "#4a5568", "#b7791f", "#9f7aea"
INK, FAINT, GRID, PAPER = "#1a202c", "#5a6475", "#e2e8f0", "#ffffff"
WIDTH = 720
MARGIN = 20
LETTER = 7.1  # the mean width of a letter of 13 pixels


@dataclass(frozen=True)
class Bar:
    text: str  # what follows the bar
    share: float  # of the longest possible bar
    colour: str
    name: str = ""  # of its series


def text(
    x: float, y: float, words: str, size: int = 13, colour: str = INK, anchor: str = "start", weight: int = 400
) -> str:
    style = f'font-size="{size}" fill="{colour}" text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(words)}</text>'


def wrapped(words: str, letters: int) -> list[str]:
    lines = [""]
    for word in words.split():
        if len(lines[-1]) + len(word) >= letters and lines[-1]:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def framed(title: str, note: str, series: Mapping[str, str], body: list[str], height: float) -> str:
    """The whole picture: title, note and legend above the body, whose lines count from y = 0."""
    head = []
    y = 30.0
    for line in wrapped(title, 72):
        head.append(text(MARGIN, y, line, 17, weight=600))
        y += 22
    for line in wrapped(note, 98):
        head.append(text(MARGIN, y, line, 12, FAINT))
        y += 16
    if series:
        y += 12
        x = float(MARGIN)
        for name, colour in series.items():
            head.append(f'<rect x="{x:.1f}" y="{y - 10:.1f}" width="11" height="11" rx="2" fill="{colour}"/>')
            head.append(text(x + 17, y, name, 12))
            x += 40 + LETTER * len(name)
        y += 8
    whole = y + 10 + height + 14
    content = "\n".join([*head, f'<g transform="translate(0 {y + 10:.1f})">', *body, "</g>"])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {whole:.0f}" width="{WIDTH}" height="{whole:.0f}" role="img" '
        f'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif">\n'
        f"<title>{escape(title)}</title>\n<desc>{escape(note)}</desc>\n"
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{whole - 1:.0f}" rx="8" fill="{PAPER}" stroke="{GRID}"/>\n'
        f"{content}\n</svg>\n"
    )


def label_width(names: Sequence[str]) -> float:
    return MARGIN + 10 + LETTER * max(map(len, names))


def bars(title: str, note: str, rows: Mapping[str, Sequence[Bar]], series: Mapping[str, str] | None = None) -> str:
    """A group of horizontal bars for each row."""
    left = label_width(list(rows))
    room = WIDTH - left - MARGIN - LETTER * max(len(bar.text) for group in rows.values() for bar in group) - 8
    body: list[str] = []
    y = 0.0
    alone = max(map(len, rows.values())) == 1
    thick, gap = (18, 4) if alone else (15, 11)
    for name, group in rows.items():
        body.append(text(left - 10, y + thick * len(group) / 2 + 4.5, name, anchor="end"))
        for bar in group:
            length = max(2.0, bar.share * room)
            body.append(
                f'<rect x="{left:.1f}" y="{y:.1f}" width="{length:.1f}" height="{thick - 2}" rx="2" fill="{bar.colour}"/>'
            )
            weight = 600 if bar.colour == OURS else 400
            body.append(text(left + length + 6, y + thick - 4.5, bar.text, 12, weight=weight))
            y += thick
        y += gap
    return framed(title, note, series or {}, body, y - gap)


def points(
    title: str,
    note: str,
    rows: Mapping[str, Mapping[str, float]],
    series: Mapping[str, str],
    unit: str,
    mark: float | None = None,
) -> str:
    """A line for each row on a logarithmic axis, with a point for each series; `mark` is a value to compare with."""
    values = [value for row in rows.values() for value in row.values()]
    low, high = math.floor(math.log10(min(values)) * 2) / 2, math.ceil(math.log10(max(values)) * 2) / 2
    left, right = label_width(list(rows)), WIDTH - MARGIN - 20
    step = 20.0

    def x(value: float) -> float:
        return left + (math.log10(max(value, 10**low)) - low) / (high - low) * (right - left)

    bottom = step * len(rows)
    body = []
    for power in range(math.ceil(low), math.floor(high) + 1):
        at = x(10**power)
        body.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="0" y2="{bottom:.1f}" stroke="{GRID}"/>')
        body.append(
            text(
                at,
                bottom + 16,
                f"{10**power:,} {unit}" if power >= 0 else f"{10.0**power:g} {unit}",
                11,
                FAINT,
                "middle",
            )
        )
    if mark is not None:
        body.append(
            f'<line x1="{x(mark):.1f}" x2="{x(mark):.1f}" y1="-4" y2="{bottom:.1f}" stroke="{INK}" stroke-dasharray="4 3"/>'
        )
    for index, (name, row) in enumerate(rows.items()):
        y = step * index + step / 2
        body.append(text(left - 10, y + 4.5, name, anchor="end"))
        places = [x(value) for value in row.values()]
        body.append(
            f'<line x1="{min(places):.1f}" x2="{max(places):.1f}" y1="{y}" y2="{y}" stroke="{GRID}" stroke-width="3"/>'
        )
        for side in sorted(row, key=lambda side: series[side] == OURS):  # ours on top
            body.append(f'<circle cx="{x(row[side]):.1f}" cy="{y}" r="5" fill="{series[side]}"/>')
    return framed(title, note, series, body, bottom + 18)
