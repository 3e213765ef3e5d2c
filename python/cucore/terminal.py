# SPDX-License-Identifier: Apache-2.0
"""Output of the commands: colours and line wrapping for terminals, JSON for programs."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Any, TextIO

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34"}
_UNLIMITED = 10_000
SITE = Path(__file__).resolve().parents[1]


def is_coloured(stream: TextIO | None = None) -> bool:
    """Returns whether a stream is a terminal with colours. `NO_COLOR` (see no-color.org) disables them."""
    stream = sys.stdout if stream is None else stream
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


def styled(text: str, *styles: str, stream: TextIO | None = None) -> str:
    if not is_coloured(stream):
        return text
    return f"\033[{';'.join(_CODES[style] for style in styles)}m{text}\033[0m"


def width() -> int:
    """Returns the line width: of the terminal, or from `COLUMNS`. Without either, lines are not wrapped."""
    if not sys.stdout.isatty() and not os.environ.get("COLUMNS", "").isdigit():
        return _UNLIMITED
    return max(shutil.get_terminal_size((80, 24)).columns, 40)


def shortened(text: str) -> str:
    """Shortens paths of packages to start at `site-packages`, if lines are short."""
    return text if width() >= 100 else text.replace(f"{SITE}{os.sep}", f"{SITE.name}{os.sep}")


def wrapped(text: str, indent: int = 0, first: str | None = None) -> str:
    """Wraps `text` to the line width. A longer word (a path) is not broken, so that it can be copied."""
    blank = " " * indent
    lines = []
    for line in text.splitlines() or [""]:
        lead = blank if first is None else first
        lines += textwrap.wrap(
            line, width(), initial_indent=lead, subsequent_indent=blank, break_long_words=False, break_on_hyphens=False
        ) or [lead.rstrip()]
        first = None
    return "\n".join(lines)


def row(label: str, text: str, *styles: str, column: int = 12) -> None:
    """Prints a label and a text beside it."""
    shown = wrapped(text, column, f"{label:<{column}}")
    print(styled(shown[: len(label)], *(styles or ("bold",))) + shown[len(label) :])


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def complain(command: str, text: str) -> None:
    """Prints an error of a command to standard error."""
    print(f"{styled(f'cucore {command}:', 'red', stream=sys.stderr)} {text}", file=sys.stderr)
