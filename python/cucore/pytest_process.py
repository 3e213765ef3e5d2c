# SPDX-License-Identifier: Apache-2.0
"""Runs tests of a pytest session in a new process, and returns their reports to the session.

The plugin uses it after a fault that only a new process recovers from. `remaining_reports` starts the process, which
runs `main`. The process has the options and plugins of the session, like a worker of pytest-xdist, and writes the
reports of its tests as lines of JSON.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

# Options of the session that do not apply to a process that runs given tests, and their values there.
_OPTIONS_OF_THE_PROCESS = {
    "usepdb": False,
    "looponfail": False,
    "dist": "no",
    "tx": [],
    "numprocesses": None,
    "maxprocesses": None,
    "lf": False,
    "failedfirst": False,
    "newfirst": False,
    "stepwise": False,
    "stepwise_skip": False,
    "collectonly": False,
    "keyword": "",
    "markexpr": "",
    "deselect": None,
    "basetemp": None,
    "xmlpath": None,
    "cov_source": [],
}


def _options(config: pytest.Config) -> dict[str, Any]:
    result = {}
    for name, value in vars(config.option).items():
        try:
            pickle.dumps(value)
        except Exception:  # a value that cannot be pickled, such as an open file
            continue
        result[name] = value
    known = {name: value for name, value in _OPTIONS_OF_THE_PROCESS.items() if name in result}
    result.update(known)
    result.pop("file_or_dir", None)  # the tests are passed separately
    result["plugins"] = [*result.get("plugins", []), "no:terminal", "no:cacheprovider"]
    return result


def remaining_reports(config: pytest.Config, tests: Sequence[str]) -> dict[str, list[Any]]:
    """Runs these tests in one new process and returns their reports. A test without reports was not reached."""
    with tempfile.TemporaryDirectory(prefix="cucore-pytest-") as folder:
        job, answers = Path(folder, "job"), Path(folder, "reports")
        job.write_bytes(pickle.dumps({"options": _options(config), "tests": list(tests), "root": str(config.rootpath)}))
        program = "import sys; from cucore.pytest_process import main; sys.exit(main(sys.argv[1:]))"
        command = [sys.executable, "-c", program, str(job), str(answers)]
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, sys.path)))
        subprocess.run(command, cwd=config.invocation_params.dir, env=environment, check=False)
        lines = answers.read_text().splitlines() if answers.exists() else []
    result: dict[str, list[Any]] = {}
    for line in lines:
        report = config.hook.pytest_report_from_serializable(config=config, data=json.loads(line))
        result.setdefault(report.nodeid, []).append(report)
    return result


_is_child = False


def is_running() -> bool:
    """Returns whether this is the new process."""
    return _is_child


class _Writer:
    """Writes each report immediately, so that a crash does not lose the reports of earlier tests."""

    def __init__(self, config: pytest.Config, path: str) -> None:
        self.config, self.path = config, path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        with open(self.path, "a") as file:
            file.write(json.dumps(data) + "\n")


def main(arguments: Sequence[str]) -> int:
    global _is_child
    _is_child = True
    job_path, answers = arguments
    job = pickle.loads(Path(job_path).read_bytes())
    config = pytest.Config.fromdictargs(job["options"], [f"--rootdir={job['root']}", *job["tests"]])
    config.option.cuda_after_fault = "stop"  # the session starts the next process
    config.pluginmanager.register(_Writer(config, answers), "cucore-report-writer")
    return int(config.hook.pytest_cmdline_main(config=config))
