# SPDX-License-Identifier: Apache-2.0
"""The design pages, the glossary and HACKING.md name files and routines that exist; lines of design pages have at most 120 columns."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from pages import ROOT

DESIGN = sorted((ROOT / "docs" / "design").glob("*.md"))
PAGES = [*DESIGN, ROOT / "docs" / "glossary.md", ROOT / "HACKING.md"]
FILE = re.compile(r"`([\w./-]+\.(?:cpp|hpp|py|json|def|md|S|c|xz|pyi))`")
FOLDER = re.compile(r"`((?:api|bench|cmake|codegen|cpu|docs|examples|include|python|src|tests|tools)(?:/[\w-]+)+/?)`")
ROUTINE = re.compile(r"\bcucpu_rt_\w*[a-z0-9]\b(?!_|\*|<)")
# Not in the tree: written by a build, or what must not exist.
ELSEWHERE = {"build/coverage/lines.json", "cuda/__init__.py"}


def tracked() -> list[str]:
    return subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True).splitlines()


@pytest.fixture(scope="module")
def paths() -> set[str]:
    """All files and folders; pages may name them from any folder above them on."""
    found: set[str] = set()
    for file in tracked():
        parts = file.split("/")
        for end in range(1, len(parts) + 1):
            found |= {"/".join(parts[start:end]) for start in range(end)}
    return found


@pytest.fixture(scope="module")
def routines() -> str:
    return "".join((ROOT / f).read_text() for f in tracked() if re.fullmatch(r"cpu/.*\.(cpp|hpp|def)", f))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_page_names_existing_files_and_folders(page: Path, paths: set[str]) -> None:
    text = page.read_text()
    named = {*FILE.findall(text), *(f.rstrip("/") for f in FOLDER.findall(text))} - ELSEWHERE
    missing = [n for n in named if n not in paths and not {n + ".cpp", n + ".hpp"} & paths]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_page_names_existing_routines(page: Path, routines: str) -> None:
    assert [name for name in ROUTINE.findall(page.read_text()) if name not in routines] == []


@pytest.mark.parametrize("page", DESIGN, ids=lambda p: p.name)
def test_lines_of_text_have_at_most_120_columns(page: Path) -> None:
    long = [
        n for n, line in enumerate(page.read_text().splitlines(), 1) if len(line) > 120 and not line.startswith("|")
    ]
    assert long == []  # rows of tables cannot be broken
