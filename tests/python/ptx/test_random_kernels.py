# SPDX-License-Identifier: Apache-2.0
"""Random CUDA C++ and PTX programs (tests/fuzz/kernels): a short fuzzer run, and recorded programs that run on every device.

`make fuzz-kernels SECONDS=1800` runs longer, with new programs each time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ptxsuite.nvrtc import library

FUZZ = Path(__file__).resolve().parents[2] / "fuzz"


def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(FUZZ), *(p for p in [os.environ.get("PYTHONPATH")] if p)])
    command = [sys.executable, "-m", "kernels", *words]
    return subprocess.run(command, env=os.environ | {"PYTHONPATH": path} | variables, capture_output=True, text=True)


@pytest.mark.cpu_only
def test_random_programs_give_one_result_in_every_mode(tmp_path: Path) -> None:
    if os.environ.get("CUCORE_DEVICE") == "gpu":
        pytest.skip("about the CPU device's code")
    if os.environ.get("CUCORE_CPU_W") or os.environ.get("CUCORE_CPU_TIER"):
        pytest.skip("runs in every mode without that")
    try:
        library()
    except OSError as error:
        pytest.skip(str(error))
    done = run(
        "--seed", "1", "--programs", "40", "--seconds", "3000", "--reduce", "20", "--finds", "3", "--out", str(tmp_path)
    )
    finds = "\n".join(
        f.read_text() for f in tmp_path.rglob("kernel.*") if f.suffix == (".cu" if "cuda-" in str(f) else ".ptx")
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{finds}"
    assert "0 finds" in done.stdout


def test_recorded_programs_give_the_recorded_results() -> None:
    done = run("--replay", str(FUZZ / "kernels" / "sample.xz"))
    assert done.returncode == 0, done.stdout + done.stderr
