"""The page of environment variables names every variable the product reads, and no other."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
NAME = r"((?:CUCORE|CUDA|CONDA|VIRTUAL|LD|XDG)_[A-Z][A-Z0-9_]*|HOME)"
# A name in quotes as an argument of whatever reads the environment: getenv("X"), flag("X", true), environ.get("X"), environ["X"].
READS = re.compile(
    rf'(?:getenv|environment|variable|text|integer|flag|number|word|setting|envvar_bool|environ\.get|environ)\s*[(\[]\s*"{NAME}"'
)


def read_by_the_source() -> set[str]:
    found: set[str] = set()
    for folder in ("src", "cpu", "python"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".cpp", ".hpp", ".py"):
                found |= set(READS.findall(path.read_text()))
    return found


def named_on_the_page() -> list[str]:
    page = (ROOT / "docs" / "reference" / "environment.md").read_text()
    return re.findall(rf"^\| `{NAME}` \|", page, re.M)


def test_the_scan_sees_every_way_of_reading() -> None:
    found = read_by_the_source()
    assert {
        "CUCORE_DEVICE",
        "CUCORE_CPU_MEMORY",
        "CUCORE_CPU_CACHE",
        "CUDA_VISIBLE_DEVICES",
        "CUDA_PATH",
        "CONDA_PREFIX",
    } <= found


def test_no_quoted_name_of_ours_escapes_the_scan() -> None:
    quoted: set[str] = set()
    for folder in ("src", "cpu", "python"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".cpp", ".hpp", ".py"):
                quoted |= set(re.findall(r'"(CUCORE_[A-Z][A-Z0-9_]*)"', path.read_text()))
    assert quoted <= read_by_the_source()


def test_the_page_names_what_is_read_and_nothing_else() -> None:
    page, source = set(named_on_the_page()), read_by_the_source()
    assert not source - page, f"docs/reference/environment.md does not name {source - page}"
    assert not page - source, f"docs/reference/environment.md names {page - source}, which nothing reads"


def test_the_page_names_each_variable_once() -> None:
    named = named_on_the_page()
    assert sorted(named) == sorted(set(named))


def test_every_variable_that_a_page_speaks_of_is_one() -> None:
    known = set(named_on_the_page()) | set(re.findall(r"CUCORE_[A-Z0-9_]+", (ROOT / "CMakeLists.txt").read_text()))
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        spoken = set(re.findall(r"\b(CUCORE_[A-Z0-9_]+)\b", path.read_text()))
        in_headers = {name for name in spoken if name in ("CUCORE_CALL", "CUCORE_EXPORT", "CUCORE_FN")}
        assert spoken - known - in_headers == set(), f"{path.name} speaks of variables that nothing reads"
