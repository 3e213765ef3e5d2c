# SPDX-License-Identifier: Apache-2.0
"""Kernel coverage in the pytest plugin: `pytest --cuda-coverage`.

The session and the workers of pytest-xdist write counters to one directory. With pytest-cov, the counts are added to
its data. Its reports then include kernels, if coverage.py loads the plugin `cucore.coverage_plugin`.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from . import coverage_run, kernel_coverage_report
from .kernel_coverage import FileCoverage, read, totals

# Kind of report -> (field of coverage_run.Outputs, default path).
_REPORTS = {
    "html": ("html", "kernel_coverage_html"),
    "lcov": ("lcov", "kernel_coverage.info"),
    "xml": ("xml", "kernel_coverage.xml"),
    "json": ("json_file", "kernel_coverage.json"),
}


def add_options(group: Any) -> None:
    group.addoption(
        "--cuda-coverage",
        action="store_true",
        help="count the lines and branches of kernels on the CPU device",
    )
    group.addoption(
        "--cuda-coverage-report",
        action="append",
        default=[],
        metavar="KIND[:PATH]",
        help=f"write a report of kernel coverage: {', '.join(_REPORTS)}",
    )
    group.addoption(
        "--cuda-coverage-fail-under",
        type=float,
        metavar="PERCENT",
        help="fail the run if kernel coverage is lower",
    )


def _outputs(config: pytest.Config) -> coverage_run.Outputs:
    outputs = coverage_run.Outputs(fail_under=config.getoption("--cuda-coverage-fail-under"))
    for text in config.getoption("--cuda-coverage-report"):
        kind, _, path = text.partition(":")
        if kind not in _REPORTS:
            raise pytest.UsageError(f"--cuda-coverage-report: unknown kind {kind!r}: give one of {', '.join(_REPORTS)}")
        name, default = _REPORTS[kind]
        setattr(outputs, name, path or default)
    return outputs


class KernelCoverage:
    """The plugin of a session with kernel coverage. Not registered in workers of pytest-xdist, which only count."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.outputs = _outputs(config)
        self.folder = Path(coverage_run.DEFAULT_FOLDER).absolute()
        self.files: list[FileCoverage] = []
        self.said: list[str] = []
        coverage_run.start(self.folder, append=False)
        os.environ["CUCORE_COVERAGE"] = str(self.folder)  # inherited by workers and other processes

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtestloop(self) -> Generator[None, Any, Any]:
        result = yield
        self.files = read(self.folder)
        self.said = coverage_run.write(self.files, self.outputs)
        self.join_pytest_cov()  # pytest-cov's wrapper of this hook, which combines all data, returns after this one
        return result

    def join_pytest_cov(self) -> None:
        plugin = self.config.pluginmanager.getplugin("_cov")
        controller = getattr(plugin, "cov_controller", None)
        if controller is None or getattr(controller, "cov", None) is None or not self.files:
            return
        options = controller.cov.get_option
        if kernel_coverage_report.PLUGIN not in (options("run:plugins") or []):
            self.said.append(
                f"coverage.py reports no kernels: add `plugins = {kernel_coverage_report.PLUGIN}` to its section [run]"
            )
            return
        path = Path(f"{Path(str(options('run:data_file'))).absolute()}.kernels.{os.getpid()}")
        kernel_coverage_report.write_coverage_data(self.files, path, bool(options("run:branch")))

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if self.is_below() and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def is_below(self) -> bool:
        limit = self.outputs.fail_under
        return limit is not None and totals(self.files).percent < limit

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.section("kernel coverage", red=self.is_below())
        if self.files:
            terminalreporter.line(kernel_coverage_report.table(self.files))
        else:
            terminalreporter.line("no kernel was loaded on the CPU device")
        for line in self.said:
            terminalreporter.line(line)
        if self.is_below():
            terminalreporter.line(f"kernel coverage is below {self.outputs.fail_under:g}%", red=True)
