"""The code blocks of a page, and what the page says about running them.

A fenced block of `python`, `sh` or `cpp` runs, unless a comment right above it says otherwise:

    <!-- not run: reason -->     never, for this reason
    <!-- needs: torch -->        only where this module can be imported, and on a GPU
    <!-- needs: the CPU device -->   not in a run on a GPU
    <!-- file: name.py -->       written to the page's folder under this name, for the blocks that follow

`<!-- cpu only -->` anywhere leaves the whole page out of a run on a GPU.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
RUN = ("python", "sh", "cpp")
SHOWN = ("text", "cmake", "yaml", "toml", "json", "ini", "make", "ptx", "")  # and MyST's {directives}


@dataclass
class Block:
    language: str
    text: str
    line: int  # of the first line of code, from 1
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
    """Every page that is written by hand: the site, and the front page of the repository."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


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
