# SPDX-License-Identifier: Apache-2.0
"""Measured ratios by target, as JSON in docs/benchmarks/kernels: the page shows all targets side by side, and a run replaces its own."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[3] / "docs/benchmarks/kernels"
ORDER = ("avx512", "avx2", "aarch64")


@dataclass
class Record:
    target: str
    """One of ORDER; with `-NAME` behind it for a generation of processors that has a column of its own."""
    title: str
    """The heading of its column."""
    about: str
    """Processor, threads, rounds and versions."""
    date: str
    judged: bool = True
    """Whether the goals of today apply to it."""
    ratios: dict[str, dict[str, float]] = field(default_factory=dict)
    """By case and side: processor time over that of native C++."""


def geometric_mean(record: Record, keys: list[str], side: str = "ours") -> float | None:
    """Of the cases that the record has; None if it has none."""
    known = [record.ratios[key][side] for key in keys if side in record.ratios.get(key, {})]
    return math.exp(sum(map(math.log, known)) / len(known)) if known else None


def load(folder: Path = FOLDER) -> list[Record]:
    records = [Record(**json.loads(path.read_text())) for path in folder.glob("*.json")]
    return sorted(records, key=lambda record: place(record.target))


def place(target: str) -> tuple[str, int]:
    """Of a column: first those without a generation of processors."""
    instructions, _, generation = target.partition("-")
    return generation, ORDER.index(instructions)


def completed(record: Record, folder: Path = FOLDER) -> Record:
    """With what the previous record of the target has beyond it: cases that were not measured and sides that are not installed."""
    path = folder / f"{record.target}.json"
    if not path.exists():
        return record
    old = Record(**json.loads(path.read_text()))
    ratios = {key: old.ratios.get(key, {}) | record.ratios.get(key, {}) for key in old.ratios | record.ratios}
    versions = "" if ";" in record.about else old.about.partition(";")[2]
    return replace(record, about=record.about + (f";{versions}" if versions else ""), ratios=ratios)


def save(record: Record, folder: Path = FOLDER) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{record.target}.json").write_text(json.dumps(asdict(record), indent=1, ensure_ascii=False) + "\n")
