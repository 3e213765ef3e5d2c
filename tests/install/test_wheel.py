# SPDX-License-Identifier: Apache-2.0
"""The wheel of `make wheel` is self-contained, installs in an empty environment, and runs the tutorial.

Linking LLVM statically takes minutes, so the default suites do not build it: run `make wheel` first, then this file.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "python" / "docs")]

import check_wheel  # noqa: E402
import pages  # noqa: E402

TAG = f"cp{sys.version_info.major}{sys.version_info.minor}"
WHEELS = sorted((ROOT / "dist").glob(f"cucore-*-{TAG}-*.whl"))
pytestmark = pytest.mark.skipif(not WHEELS, reason="no wheel for this Python in dist/: run `make wheel`")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, and with NumPy and NVIDIA's compiler libraries of this one, because there may be no network."""
    folder = tmp_path_factory.mktemp("empty")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    command = [str(python), "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([*command, str(WHEELS[-1]), *map(str, (ROOT / "dist").glob("cuda_*.whl"))], check=True)
    site = next(folder.glob("lib/python*/site-packages"))
    for name in ("numpy", "numpy.libs", "nvidia"):
        for entry in sys.path:
            if (Path(entry) / name).is_dir():
                (site / name).symlink_to(Path(entry) / name)
                break
    return python


def run(python: Path, *arguments: str, folder: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "LD_LIBRARY_PATH")}
    environment |= {"CUCORE_DEVICE": "cpu", "PATH": f"{python.parent}{os.pathsep}{environment['PATH']}"}
    done = subprocess.run([*arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_is_self_contained() -> None:
    problems, _ = check_wheel.check(WHEELS[-1])
    assert problems == []


def test_tutorial_runs_from_the_wheel(python: Path, tmp_path: Path) -> None:
    page = pages.read(ROOT / "docs" / "tutorial.md")
    script = tmp_path / "tutorial.py"
    script.write_text("\n".join(block.text for block in page.of("python")))
    assert "cucore CPU device" in run(python, str(python), str(script), folder=tmp_path)
    for block in page.of("sh"):
        run(python, "bash", "-ec", block.text, folder=tmp_path)


def test_other_programs_load_the_driver_by_soname(python: Path, tmp_path: Path) -> None:
    program = "import ctypes; n = ctypes.c_int(); c = ctypes.CDLL('libcuda.so.1'); c.cuInit(0); c.cuDeviceGetCount(ctypes.byref(n)); print(n.value)"
    assert run(python, "cucore", "run", "--cpu", "--devices", "3", "python", "-c", program, folder=tmp_path) == "3\n"


def test_cpp_programs_build_against_the_wheel(python: Path, tmp_path: Path) -> None:
    script = "c++ -std=c++20 $0 -o consumer $(PKG_CONFIG_PATH=$(cucore info --pkg-config) pkg-config --cflags --libs cucore) && ./consumer"
    assert "ok" in run(python, "bash", "-ec", script, str(ROOT / "tests" / "install" / "main.cpp"), folder=tmp_path)
