# SPDX-License-Identifier: Apache-2.0
"""Prints the C++ line coverage of a build with --coverage, by folder.

    python tools/coverage_lines.py build/coverage

Reads every .gcda file with gcov's JSON output. A line counts once, even if several programs contain it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("include", "src", "cpu")  # the product's sources, without tests and rendered files


def reports(build: Path) -> Iterator[dict[str, Any]]:
    for data in sorted(build.rglob("*.gcda")):
        command = ["gcov", "--json-format", "--stdout", str(data)]
        done = subprocess.run(command, cwd=build, capture_output=True, text=True, check=True)
        for line in done.stdout.splitlines():
            if line.startswith("{"):
                yield json.loads(line)


def lines(found: Iterator[dict[str, Any]], root: Path = ROOT) -> dict[str, dict[int, int]]:
    """File (relative to the project) -> line -> execution count."""
    result: dict[str, dict[int, int]] = {}
    for report in found:
        for file in report["files"]:
            path = Path(report["current_working_directory"], file["file"]).resolve()
            if not path.is_relative_to(root) or path.relative_to(root).parts[0] not in FOLDERS:
                continue
            counts = result.setdefault(str(path.relative_to(root)), {})
            for line in file["lines"]:
                number = line["line_number"]
                counts[number] = counts.get(number, 0) + line["count"]
    return result


def by_folder(counts: dict[str, dict[int, int]]) -> dict[str, tuple[int, int]]:
    """Folder (two levels) -> executed lines, all lines; the last row is the total."""
    table: dict[str, tuple[int, int]] = {}
    for file, found in sorted(counts.items()):
        folder = "/".join(Path(file).parts[:-1][:2])
        for name in (folder, "all"):
            ran, total = table.get(name, (0, 0))
            table[name] = (ran + sum(count > 0 for count in found.values()), total + len(found))
    table["all"] = table.pop("all", (0, 0))
    return table


def main(build: Path) -> int:
    counts = lines(reports(build.resolve()))
    if not counts:
        print(f"no .gcda files under {build}: run the suites first", file=sys.stderr)
        return 1
    (build / "lines.json").write_text(json.dumps(counts))
    for folder, (ran, total) in by_folder(counts).items():
        print(f"{folder:<24} {ran:6,} of {total:6,} lines  {100 * ran / total:5.1f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
