# SPDX-License-Identifier: Apache-2.0
"""`cucore trace`: runs a program on the CPU device and records a timeline of API calls, kernels, copies and streams.

The CPU device writes Chrome trace events (also readable by Perfetto), one file per process (`CUCORE_TRACE`, cpu/trace).
This module merges them, prints a summary, and renders the page of `--html`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import CPU_DRIVER_FOLDER

Event = dict[str, Any]

# Categories of spans that a table summarizes, and the title of the table.
_TABLES = {
    "kernel": "kernels",
    "copy": "copies and fills",
    "api": "API calls",
    "compile": "compilation",
    "nvtx": "NVTX ranges",
}


def read_events(path: Path) -> list[Event]:
    """Reads the events of one process, one per line. The last line is truncated if the process was killed."""
    events = []
    for line in path.read_text(errors="replace").splitlines():
        if line in ("[", "]"):
            continue
        try:
            events.append(json.loads(line.removesuffix(",")))
        except ValueError:
            break
    return events


def merge(paths: Iterable[Path]) -> list[Event]:
    """Merges the events of all files. Times are in microseconds since the first event."""
    events = [event for path in sorted(paths) for event in read_events(path)]
    start = min((event["ts"] for event in events if "ts" in event), default=0)
    for event in events:
        if "ts" in event:
            event["ts"] = round(event["ts"] - start, 3)
    return events


@dataclass
class Row:
    name: str
    calls: int = 0
    total: float = 0.0  # microseconds
    least: float = float("inf")
    most: float = 0.0
    bytes: int = 0

    @property
    def mean(self) -> float:
        return self.total / self.calls


def summarize(events: Iterable[Event]) -> dict[str, list[Row]]:
    """Returns the rows of each table, sorted by descending total."""
    tables: dict[str, dict[str, Row]] = {category: {} for category in _TABLES}
    for event in events:
        category = event.get("cat")
        if event.get("ph") != "X" or category not in tables:
            continue
        row = tables[category].setdefault(event["name"], Row(event["name"]))
        row.calls += 1
        row.total += event["dur"]
        row.least = min(row.least, event["dur"])
        row.most = max(row.most, event["dur"])
        row.bytes += event.get("args", {}).get("bytes", 0)
    return {category: sorted(rows.values(), key=lambda row: -row.total) for category, rows in tables.items()}


def _time(microseconds: float) -> str:
    for unit, factor in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= factor:
            return f"{microseconds / factor:.2f} {unit}"
    return f"{microseconds:.1f} µs"


def _bytes(count: int) -> str:
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            break
        amount /= 1024
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"


def summary(events: Sequence[Event], most_rows: int = 10) -> str:
    """Returns tables of the kernels, copies, API calls, compilations and NVTX ranges with the largest total time."""
    parts = []
    for category, rows in summarize(events).items():
        if not rows:
            continue
        whole = sum(row.total for row in rows) or 1
        table = [("share", "total", "calls", "mean", "min", "max", *(("bytes",) if category == "copy" else ()), "name")]
        for row in rows[:most_rows]:
            table.append(
                (
                    f"{100 * row.total / whole:.1f}%",
                    _time(row.total),
                    str(row.calls),
                    _time(row.mean),
                    _time(row.least),
                    _time(row.most),
                    *((_bytes(row.bytes),) if category == "copy" else ()),
                    row.name,
                )
            )
        widths = [max(len(line[i]) for line in table) for i in range(len(table[0]) - 1)]
        lines = [
            "  ".join([*(cell.rjust(w) for cell, w in zip(line[:-1], widths, strict=True)), line[-1]]) for line in table
        ]
        if len(rows) > most_rows:
            lines.append(f"... and {len(rows) - most_rows} more")
        parts.append("\n".join([f"{_TABLES[category]}:", *lines]))
    return "\n\n".join(parts) if parts else "nothing was recorded: the program has not used the CPU device"


def write(events: Sequence[Event], path: Path) -> None:
    lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in events)
    path.write_text('{"displayTimeUnit":"ms","traceEvents":[\n' + lines + "\n]}\n")


def environment_of_nvtx() -> dict[str, str]:
    """Returns the variables by which NVTX loads the CPU device's library, which records ranges."""
    library = (CPU_DRIVER_FOLDER / "libcuda.so.1").resolve()
    return {"NVTX_INJECTION64_PATH": str(library)} if "NVTX_INJECTION64_PATH" not in os.environ else {}


def trace(program: Sequence[str], output: str, html: str | None, quiet: bool) -> int:
    from .run import command_of, environment

    command = command_of("trace", program)
    if isinstance(command, int):
        return command
    with tempfile.TemporaryDirectory(prefix="cucore-trace-") as folder:
        variables = environment("cpu", executable=command[0]) | {"CUCORE_TRACE": folder} | environment_of_nvtx()
        sys.stdout.flush()
        status = subprocess.run(command, env=variables, check=False).returncode
        events = merge(Path(folder).iterdir())
    write(events, Path(output))
    said = [f"timeline: {output}; open it at https://ui.perfetto.dev"]
    if html is not None:
        from .trace_page import write_page

        write_page(events, Path(html))
        said.append(f"page: {html}")
    if not quiet:
        print("\n" + summary(events) + "\n", file=sys.stderr)
    for line in said:
        print(line, file=sys.stderr)
    return status if status >= 0 else 128 - status
