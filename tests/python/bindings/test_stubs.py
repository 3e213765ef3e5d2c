# SPDX-License-Identifier: Apache-2.0
"""The rendered type stubs match the runtime: mypy.stubtest compares every name and signature."""

from __future__ import annotations

import os
import site
import subprocess
import sys
from pathlib import Path

import cuda.bindings
import pytest

pytest.importorskip("mypy")

INSTALLED = Path(cuda.bindings.__file__).resolve().parents[2]  # type: ignore[arg-type]
# Includes their submodules, such as driver.raising.
MODULES = ["driver", "runtime", "nvrtc", "nvjitlink", "nvvm", "nvfatbin", "nvml", "cufile", "utils"]


def test_stubs_match_the_runtime_signatures(tmp_path: Path) -> None:
    config = tmp_path / "mypy.ini"
    config.write_text("[mypy]\nnamespace_packages = True\nexplicit_package_bases = True\n")
    environment = dict(os.environ)
    if str(INSTALLED) not in site.getsitepackages():  # mypy searches it by itself and rejects it in MYPYPATH
        environment["MYPYPATH"] = str(INSTALLED)
    command = [sys.executable, "-m", "mypy.stubtest", *(f"cuda.bindings.{name}" for name in MODULES), "--concise"]
    command += ["--mypy-config-file", str(config), "--allowlist", str(Path(__file__).with_name("stubtest.txt"))]
    command += ["--ignore-unused-allowlist"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
