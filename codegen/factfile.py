# SPDX-License-Identifier: Apache-2.0
"""The file format of api/*.json: an object of sections with one fact per line, sorted, so that diffs are readable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Facts = dict[str, Any]


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def dump_facts(facts: Facts) -> str:
    sections = []
    for key, value in facts.items():
        if isinstance(value, dict) and value:
            rows = ",\n".join(f"  {json.dumps(k)}:{_compact(v)}" for k, v in sorted(value.items()))
            sections.append(f"{json.dumps(key)}:{{\n{rows}\n}}")
        elif isinstance(value, list) and value:
            rows = ",\n".join(f"  {_compact(v)}" for v in value)
            sections.append(f"{json.dumps(key)}:[\n{rows}\n]")
        else:
            sections.append(f"{json.dumps(key)}:{_compact(value)}")
    return "{\n" + ",\n".join(sections) + "\n}\n"


def write_facts(path: Path, facts: Facts) -> None:
    path.write_text(dump_facts(facts), encoding="utf-8")


def read_facts(path: Path) -> Facts:
    facts: Facts = json.loads(path.read_text(encoding="utf-8"))
    return facts
