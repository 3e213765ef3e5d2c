# SPDX-License-Identifier: Apache-2.0
"""Converts text descriptions of a Python API to tests/compat/facts/*.json: names, signatures and values.

    python tests/compat/collect_facts.py FOLDER      FOLDER holds one <module>.txt per module

A description has one line per fact, as `inspect` returns them: `def f(a, b: 'T')`, `class C(Base)` with indented members,
`NAME: int = 3`. The tests use the JSON files only.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "codegen"))

from factfile import Facts, write_facts  # noqa: E402

ENUM_BASES = {"FastEnum", "IntEnum", "IntFlag", "Enum", "StrEnum"}


def parse(text: str) -> Facts:
    facts: Facts = {"module": "", "functions": {}, "enums": {}, "classes": {}, "constants": {}, "other": []}
    current: dict[str, Any] | None = None
    for line in text.splitlines():
        if line.startswith("# "):
            facts["module"] = line[2:].split()[0]
        elif line.startswith("    ") and current is not None:
            add_member(current, line.strip())
        elif match := re.match(r"def (\w+)(\(.*)$", line):
            current = None
            facts["functions"][match[1]] = match[2].strip()
        elif match := re.match(r"class (\w+)(?:\(([^)]*)\))?(?:\s+#\s*(.*))?$", line):
            current = start_class(facts, match[1], match[2] or "", match[3] or "")
        elif match := re.match(r"(\w+): int = (-?\d+)", line):
            current = None
            facts["constants"][match[1]] = int(match[2])
        elif line.strip():
            current = None
            facts["other"].append(line.split(":")[0].strip())
    return facts


def start_class(facts: Facts, name: str, bases: str, init: str) -> dict[str, Any]:
    names = [b.strip() for b in bases.split(",") if b.strip()]
    if set(names) & ENUM_BASES:
        row: dict[str, Any] = {}
        facts["enums"][name] = row
        return row
    row = {"bases": names, "init": init, "properties": [], "methods": []}
    facts["classes"][name] = row
    return row


def add_member(row: dict[str, Any], line: str) -> None:
    if "properties" not in row:
        if match := re.match(r"(\w+) = (.+)$", line):
            row[match[1]] = int(match[2]) if re.fullmatch(r"-?\d+", match[2]) else match[2]
        return
    if match := re.match(r"(\w+)\s+# property", line):
        row["properties"].append(match[1])
    else:
        row["methods"].append(line)


def main() -> int:
    folder = Path(sys.argv[1])
    for path in sorted(folder.glob("*.txt")):
        facts = parse(path.read_text(encoding="utf-8"))
        write_facts(HERE / "facts" / f"{path.stem}.json", facts)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
