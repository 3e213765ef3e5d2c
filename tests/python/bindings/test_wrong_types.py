# SPDX-License-Identifier: Apache-2.0
"""Python objects of wrong types raise an exception and never crash the interpreter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


MODULES = ["driver", "runtime", "nvrtc", "nvjitlink", "nvvm", "nvfatbin", "nvml", "cufile"]
MODULES += ["driver.raising", "runtime.raising", "nvrtc.raising"]


@pytest.mark.parametrize("module", MODULES)
def test_wrong_argument_of_every_parameter_raises_an_error_that_names_it(module: str) -> None:
    """Passes a wrong type, a too large number and an invalid negative number to every parameter and struct field."""
    command = [sys.executable, str(HERE / "wrong_arguments.py"), f"cuda.bindings.{module}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    *wrong, last = done.stdout.splitlines() or [""]
    assert done.returncode == 0 and wrong == [], (done.stdout[-3000:], done.stderr[-2000:])
    assert int(last.split()[1]) > 50


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("module", MODULES)
def test_wrong_types_raise_and_never_crash(module: str, seed: int) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "wrong_types.py"), f"cuda.bindings.{module}", str(seed)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert done.returncode == 0, (
        f"{lines[-1] if lines else 'nothing'} ended the process ({done.returncode}):\n{done.stderr[-2000:]}"
    )
    _, called, raised = lines[-1].split()
    assert int(called) > 20, done.stdout
    assert int(raised) > int(called) // 2
