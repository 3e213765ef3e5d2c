# SPDX-License-Identifier: Apache-2.0
"""The page of environment variables lists exactly the variables that the product reads."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
NAME = r"((?:CUCORE|CUDA|CONDA|VIRTUAL|LD|XDG)_[A-Z][A-Z0-9_]*|HOME)"
# A quoted name as an argument of a function that reads the environment: getenv("X"), flag("X", true), environ.get("X"), environ["X"].
READS = re.compile(
    rf'(?:getenv|environment|variable|text|integer|flag|number|word|setting|envvar_bool|environ\.get|environ|now\.get)\s*[(\[]\s*"{NAME}"'
)


def read_by_the_source() -> set[str]:
    found: set[str] = set()
    for folder in ("src", "cpu", "python"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".c", ".cpp", ".hpp", ".py"):
                found |= set(READS.findall(path.read_text()))
    for path in (ROOT / "python" / "cucore" / "stand_ins").iterdir():  # shell scripts
        if path.is_file() and not path.suffix:
            found |= set(re.findall(rf"\$\{{{NAME}\b", path.read_text()))
    return found


def named_on_the_page() -> list[str]:
    page = (ROOT / "docs" / "reference" / "environment.md").read_text()
    return re.findall(rf"^\| `{NAME}` \|", page, re.M)


def test_scan_finds_every_form_of_reading_a_variable() -> None:
    found = read_by_the_source()
    assert {
        "CUCORE_DEVICE",
        "CUCORE_CPU_MEMORY",
        "CUCORE_CPU_CACHE",
        "CUDA_VISIBLE_DEVICES",
        "CUDA_PATH",
        "CONDA_PREFIX",
    } <= found


def test_scan_finds_every_quoted_variable_name() -> None:
    quoted: set[str] = set()
    for folder in ("src", "cpu", "python"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".c", ".cpp", ".hpp", ".py"):
                quoted |= set(re.findall(r'"(CUCORE_[A-Z][A-Z0-9_]*)"', path.read_text()))
    assert quoted <= read_by_the_source()


def test_page_lists_exactly_the_variables_that_are_read() -> None:
    page, source = set(named_on_the_page()), read_by_the_source()
    assert not source - page, f"docs/reference/environment.md does not name {source - page}"
    assert not page - source, f"docs/reference/environment.md names {page - source}, which nothing reads"


def test_page_lists_each_variable_once() -> None:
    named = named_on_the_page()
    assert sorted(named) == sorted(set(named))


def test_every_variable_in_the_docs_exists() -> None:
    known = set(named_on_the_page()) | set(re.findall(r"CUCORE_[A-Z0-9_]+", (ROOT / "CMakeLists.txt").read_text()))
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        spoken = set(re.findall(r"\b(CUCORE_[A-Z0-9_]+)\b", path.read_text()))
        in_headers = {
            name for name in spoken if name in ("CUCORE_CALL", "CUCORE_EXPORT", "CUCORE_FN", "CUCORE_PROTECTION")
        }
        assert spoken - known - in_headers == set(), f"{path.name} speaks of variables that nothing reads"
