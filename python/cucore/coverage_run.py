# SPDX-License-Identifier: Apache-2.0
"""`cucore coverage-run`: runs a program and reports the line and branch coverage of its kernels."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import terminal
from .kernel_coverage import FileCoverage, read, totals

DEFAULT_FOLDER = ".cucore_coverage"


@dataclass
class Outputs:
    """The paths of the reports that are written in addition to the table."""

    html: str | None = None
    lcov: str | None = None
    xml: str | None = None
    json_file: str | None = None
    coverage_data: str | None = None
    branch: bool = False
    omit: list[str] = field(default_factory=list)
    fail_under: float | None = None


def start(folder: Path, append: bool) -> None:
    """Prepares the directory for the counters of this process and its children."""
    if not append and folder.exists():
        for entry in folder.iterdir():
            if entry.suffix in (".counts", ".json", ".ptx"):
                entry.unlink()
        shutil.rmtree(folder / "sources", ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n")


def write(files: Sequence[FileCoverage], outputs: Outputs) -> list[str]:
    """Writes the reports. Returns a line of text for each."""
    from . import kernel_coverage_report as report

    said = []
    if outputs.html:
        said.append(f"HTML: {report.write_html(files, Path(outputs.html))}")
    if outputs.lcov:
        Path(outputs.lcov).write_text(report.lcov(files))
        said.append(f"lcov: {outputs.lcov}")
    if outputs.xml:
        Path(outputs.xml).write_text(report.cobertura(files))
        said.append(f"Cobertura: {outputs.xml}")
    if outputs.json_file:
        report.write_json(files, Path(outputs.json_file))
        said.append(f"JSON: {outputs.json_file}")
    if outputs.coverage_data:
        report.write_coverage_data(files, Path(outputs.coverage_data), outputs.branch)
        said.append(
            f"coverage.py: {outputs.coverage_data}; `coverage combine` adds it, with the plugin {report.PLUGIN}"
        )
    return said


def _is_below(files: Sequence[FileCoverage], outputs: Outputs) -> bool:
    return outputs.fail_under is not None and totals(files).percent < outputs.fail_under


def _say(files: Sequence[FileCoverage], outputs: Outputs) -> None:
    from .kernel_coverage_report import table

    if not files:
        print("kernel coverage: no kernel of a source file was loaded on the CPU device", file=sys.stderr)
    else:
        print("\n" + table(files), file=sys.stderr)
    for line in write(files, outputs):
        print(line, file=sys.stderr)
    if _is_below(files, outputs):
        print(f"kernel coverage is below {outputs.fail_under:g}%", file=sys.stderr)


def coverage_run(program: Sequence[str], folder: str, append: bool, outputs: Outputs) -> int:
    from .run import command_of, environment

    command = command_of("coverage-run", program)
    if isinstance(command, int):
        return command
    data = Path(folder).absolute()
    start(data, append)
    variables = environment("cpu", executable=command[0]) | {"CUCORE_COVERAGE": str(data)}
    sys.stdout.flush()
    status = subprocess.run(command, env=variables, check=False).returncode
    files = read(data, outputs.omit)
    _say(files, outputs)
    if status:
        return status if status > 0 else 128 - status
    return 2 if _is_below(files, outputs) else 0


def coverage_report(folder: str, as_json: bool, outputs: Outputs) -> int:
    data = Path(folder)
    if not data.is_dir():
        terminal.complain("coverage-report", f"{data}: no such folder; `cucore coverage-run PROGRAM` makes it")
        return 1
    files = read(data.absolute(), outputs.omit)
    if as_json:
        from .kernel_coverage_report import as_json as values

        print(json.dumps(values(files)))
        write(files, outputs)
    else:
        _say(files, outputs)
    return 2 if _is_below(files, outputs) else 0


def folder_of_environment() -> Path | None:
    """Returns the directory of this process's counters, or None."""
    folder = os.environ.get("CUCORE_COVERAGE")
    return Path(folder) if folder else None
