# SPDX-License-Identifier: Apache-2.0
"""The documented programs run unchanged, each in a separate process.

A program may begin with comment lines `# needs: NAME ...`: `cupy` and `torch` are the real libraries if they are installed
and work (on a GPU machine); otherwise `cupy` is the fake in this folder. `devices=2` requires that many devices.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROGRAMS = sorted((HERE / "programs").glob("*.py"))
ON_GPU = os.environ.get("CUCORE_DEVICE") == "gpu"


def needs(program: Path) -> set[str]:
    lines = program.read_text().splitlines()
    return {word for line in lines if line.startswith("# needs:") for word in line[8:].split()}


@pytest.mark.parametrize("program", PROGRAMS, ids=[p.stem for p in PROGRAMS])
def test_documented_program_runs(program: Path, tmp_path: Path) -> None:
    wanted = needs(program)
    environment = dict(os.environ, PYTHONWARNINGS="ignore")
    path = [p for p in [environment.get("PYTHONPATH")] if p]
    if "torch" in wanted and (not ON_GPU or importlib.util.find_spec("torch") is None):
        pytest.skip("needs PyTorch with CUDA, which needs a GPU")
    if "cupy" in wanted and (not ON_GPU or importlib.util.find_spec("cupy") is None):
        path.append(str(HERE / "standin"))
    if "devices=2" in wanted:
        if ON_GPU:
            from cuda.core import Device

            if len(Device.get_all_devices()) < 2:
                pytest.skip("needs two GPUs")
        environment["CUCORE_CPU_DEVICES"] = "2"
    environment["PYTHONPATH"] = os.pathsep.join(path)
    result = subprocess.run(
        [sys.executable, str(program)], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stderr == "", result.stderr
