# SPDX-License-Identifier: Apache-2.0
"""Small helpers for writing reStructuredText."""

from __future__ import annotations

import re
from collections.abc import Iterable


def heading(title: str, line: str = "=") -> str:
    return f"{title}\n{line * len(title)}\n\n"


def indent(text: str, by: int) -> str:
    return "".join(" " * by + row if row.strip() else row for row in text.splitlines(keepends=True))


def prose(text: str) -> str:
    """A comment or docstring as reStructuredText: `code` stays code, everything else is taken literally."""
    out = []
    for part in re.split(r"(``[^`]*``|`[^`]*`)", text):
        if part.startswith("`"):
            out.append("``" + part.strip("`") + "``")
        else:
            part = re.sub(r"([*|\\])", r"\\\1", part)
            out.append(re.sub(r"(?<=\w)_(?!\w)", r"\\_", part))  # a name that ends in _ is no link
    return "".join(out)


def code(text: str, language: str) -> str:
    return f".. code-block:: {language}\n\n" + indent(text.rstrip() + "\n", 3) + "\n"


def table(head: Iterable[str], rows: Iterable[Iterable[str]], widths: str) -> str:
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", ""]
    for row in (head, *rows):
        for number, cell in enumerate(row):
            lines.append(("   * - " if number == 0 else "     - ") + cell)
    return "\n".join(lines) + "\n\n"
