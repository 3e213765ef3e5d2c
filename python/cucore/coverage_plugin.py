# SPDX-License-Identifier: Apache-2.0
"""A coverage.py plugin that adds kernel coverage to its reports.

In `.coveragerc` or `pyproject.toml`:

    [run]
    plugins = cucore.coverage_plugin

The plugin returns the executable lines and branches of a source file with kernels. The data files that
`pytest --cuda-coverage --cov` and `cucore coverage-run --coverage-data` write have the executed ones.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from coverage import CoveragePlugin, FileReporter

from .coverage_run import DEFAULT_FOLDER
from .kernel_coverage import FileCoverage, read
from .kernel_coverage_report import possible_arcs


@lru_cache
def _files(folder: Path) -> dict[str, FileCoverage]:
    return {file.path: file for file in read(folder)}


class KernelReporter(FileReporter):
    def __init__(self, filename: str, folder: Path) -> None:
        super().__init__(filename)
        self.file = _files(folder).get(filename, FileCoverage(filename))

    def lines(self) -> set[int]:
        return set(self.file.lines)

    def arcs(self) -> set[tuple[int, int]]:
        return possible_arcs(self.file)

    def exit_counts(self) -> dict[int, int]:
        counts: dict[int, int] = {}
        for line, _ in possible_arcs(self.file):
            counts[line] = counts.get(line, 0) + 1
        return counts


class KernelPlugin(CoveragePlugin):
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def file_reporter(self, filename: str) -> KernelReporter:
        return KernelReporter(filename, self.folder)


def coverage_init(registry: Any, options: dict[str, Any]) -> None:
    """The entry point for coverage.py. Option `data`: the directory of the counters; default `.cucore_coverage`."""
    registry.add_file_tracer(KernelPlugin(Path(options.get("data", DEFAULT_FOLDER)).absolute()))
