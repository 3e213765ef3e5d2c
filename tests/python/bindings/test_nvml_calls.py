# SPDX-License-Identifier: Apache-2.0
"""Every function of cuda.bindings.nvml passes its arguments to C in order (tests/doubles/nvml_calls.cpp records them)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / "codegen")]
import doubles  # noqa: E402
from factfile import read_facts  # noqa: E402

# Functions of a release whose headers are not there yet: the double has none of them.
LATER = {row["python"] for row in read_facts(HERE.parents[2] / "api" / "later" / "nvml.json")["functions"].values()}
BY_HAND = {"error_string": "answers with a text, not a code"}  # test_nvml_queries


@pytest.fixture(scope="module")
def said() -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if name != "CUCORE_DEVICE"}
    environment["LD_LIBRARY_PATH"] = doubles.path()
    command = [sys.executable, str(HERE / "nvml_calls.py"), str(doubles.folder() / "libnvidia-ml.so.1")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout[-500:], done.stderr[-2000:])
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def test_every_nvml_function_passes_its_arguments_in_order(said: dict[str, str]) -> None:
    assert len(said) > 300
    wrong = {name: text for name, text in said.items() if text not in ("ok", "own") and name not in BY_HAND}
    assert {name for name in wrong if name not in LATER} == set()
    assert all("not found" in text for text in wrong.values())


def test_functions_implemented_by_the_double_are_tested_elsewhere(said: dict[str, str]) -> None:
    shapes = (HERE / "test_nvml_arrays.py").read_text()
    own = [name for name, text in said.items() if text == "own"]
    assert [name for name in own if name not in shapes] == ["init_v2", "shutdown"]
