# SPDX-License-Identifier: Apache-2.0
"""Shows how far a build is: reads a log from standard input, keeps it in a file, and prints the steps `[n/m]` that ninja reports.

    pip wheel . -v 2>&1 | python tools/progress.py build/wheel.log

A terminal shows one line that changes; other outputs (the log of a CI job) get a line every quarter of a minute.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TextIO

STEP = re.compile(r"\[(\d+)/(\d+)[^\]]*\] (.*)")
SECONDS = 15.0  # between lines that are no terminal's


def show(lines: Iterable[str], log: TextIO, out: TextIO, now: Callable[[], float] = time.monotonic) -> tuple[int, int]:
    """Copies the lines to the log and shows the steps among them; the last step and how many there are."""
    terminal, start = out.isatty(), now()
    shown, last = start - SECONDS, (0, 0)
    for line in lines:
        log.write(line)
        step = STEP.search(line)
        if step is None:
            continue
        last = (int(step[1]), int(step[2]))
        if not terminal and now() - shown < SECONDS and last[0] != last[1]:
            continue
        shown = now()
        text = (
            f"[{last[0]}/{last[1]}] {100 * last[0] // max(last[1], 1):3d} %  {shown - start:4.0f} s  {step[3].strip()}"
        )
        out.write(f"\r\033[K{text[:100]}" if terminal else f"{text[:100]}\n")
        out.flush()
    if terminal and last != (0, 0):
        out.write("\r\033[K")
    return last


def main(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", errors="replace") as log:
        show(sys.stdin, log, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
