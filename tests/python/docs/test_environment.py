"""The page of environment variables names every variable the product reads, and no other."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
NAME = r"((?:CUCORE|CUDA|CONDA|VIRTUAL|LD|XDG)_[A-Z][A-Z0-9_]*|HOME)"
# A name in quotes as an argument of whatever reads the environment: getenv("X"), flag("X", true), environ.get("X"), environ["X"].
READS = re.compile(
    rf'(?:getenv|environment|variable|flag|number|setting|envvar_bool|environ\.get|environ)\s*[(\[]\s*"{NAME}"'
)


def read_by_the_source() -> set[str]:
    found: set[str] = set()
    for folder in ("src", "cpu", "python"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".cpp", ".hpp", ".py"):
                found |= set(READS.findall(path.read_text()))
    return found


def named_on_the_page() -> set[str]:
    page = (ROOT / "docs" / "reference" / "environment.md").read_text()
    return set(re.findall(rf"^\| `{NAME}` \|", page, re.M))


def test_the_scan_sees_every_way_of_reading() -> None:
    found = read_by_the_source()
    assert {"CUCORE_DEVICE", "CUCORE_CPU_MEMORY", "CUCORE_CPU_CACHE", "CUDA_VISIBLE_DEVICES", "CUDA_PATH", "CONDA_PREFIX"} <= found


def test_no_quoted_name_of_ours_escapes_the_scan() -> None:
    quoted: set[str] = set()
    for folder in ("src", "cpu", "python"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".cpp", ".hpp", ".py"):
                quoted |= set(re.findall(r'"(CUCORE_[A-Z][A-Z0-9_]*)"', path.read_text()))
    assert quoted <= read_by_the_source()


def test_the_page_names_what_is_read_and_nothing_else() -> None:
    page, source = named_on_the_page(), read_by_the_source()
    assert not source - page, f"docs/reference/environment.md does not name {source - page}"
    assert not page - source, f"docs/reference/environment.md names {page - source}, which nothing reads"
