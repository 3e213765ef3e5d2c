# SPDX-License-Identifier: Apache-2.0
"""Reads the code blocks of a page and the comments that control how they run.

A fenced block of `python`, `sh` or `cpp` runs, unless a comment directly above it changes that:

    <!-- not run: reason -->     never runs
    <!-- needs: torch -->        runs only on a GPU and if the module can be imported
    <!-- needs: the CPU device -->   does not run on a GPU
    <!-- file: name.py -->       is written to the page's folder under this name, for other blocks

The pytest commands of a `yaml` block (a CI recipe) run. All other blocks are `text` (program output, diagrams) or files that
another block uses.

`<!-- cpu only -->` anywhere excludes the page from a run on a GPU.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
RUN = ("python", "sh", "cpp")
# A line of `text` must not start with these: it would be a command that is not tested.
COMMAND = re.compile(
    r"^(\$ |[A-Z_]+=\S+ |(sudo|make|pip|python3?|pytest|cucore|cmake|ctest|git|apt-get|docker|\.venv/bin/\w+) )", re.M
)


@dataclass
class Block:
    language: str
    text: str
    line: int  # line number of the first line of code, starting at 1
    note: str = ""  # "not run", "needs", "file"
    value: str = ""


@dataclass
class Page:
    path: Path
    blocks: list[Block]
    cpu_only: bool

    def of(self, language: str) -> list[Block]:
        return [block for block in self.blocks if block.language == language and block.note not in ("not run", "file")]


def pages() -> list[Path]:
    """Every page that is not rendered: those of the site and of the repository."""
    return [*sorted(ROOT.glob("*.md")), ROOT / "codegen" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def complaint(block: Block) -> str:
    """The reason why the block is not tested, or "" if it is."""
    if block.language in RUN or block.language.startswith("{") or block.note in ("file", "not run"):
        return ""
    if block.language == "yaml":
        return "" if commands_of(block) else "a recipe without a pytest command: nothing of it would run"
    if block.language != "text":
        return (
            f"blocks of {block.language!r} are not run: use one of {RUN}, text, a file: or a not run: with its reason"
        )
    found = COMMAND.search(block.text)
    return f"{found[0]!r} is a command in a block of text: make it sh" if found else ""


def commands_of(recipe: Block) -> list[str]:
    """The pytest commands of a CI recipe."""
    return re.findall(r"^\s*-\s+(?:run:\s+)?(pytest .*)$", recipe.text, re.M)


def read(path: Path) -> Page:
    text = path.read_text()
    blocks, lines = [], text.splitlines()
    inside: Block | None = None
    fence = ""
    for number, line in enumerate(lines, 1):
        if inside is None:
            match = re.match(r"\s*(`{3,})\s*(\{?[\w+-]*\}?)", line)
            if not match:
                continue
            fence = match[1]
            inside = Block(match[2], "", number + 1)
            above = lines[number - 2].strip() if number > 1 else ""
            if said := re.fullmatch(r"<!-- (not run|needs|file): (.+) -->", above):
                inside.note, inside.value = said[1], said[2]
        elif line.strip().startswith(fence):
            blocks.append(inside)
            inside = None
        else:
            inside.text += line + "\n"
    assert inside is None, f"{path}: a code block does not end"
    return Page(path, blocks, "<!-- cpu only -->" in text)
