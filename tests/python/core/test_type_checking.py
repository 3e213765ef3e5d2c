# SPDX-License-Identifier: Apache-2.0
"""The packages are typed: the examples pass mypy --strict, and type errors are found."""

from __future__ import annotations

import os
import site
import subprocess
import sys
from pathlib import Path

import cuda.bindings
import cuda.core
import pytest

pytest.importorskip("mypy")

ROOT = Path(__file__).resolve().parents[3]
INSTALLED = Path(cuda.core.__file__).resolve().parents[2]


def check(*files: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs mypy on files with the installed packages in its search path."""
    config = folder / "mypy.ini"
    # Packages of others, which may be missing or have no types.
    others = ("cupy", "dask", "distributed", "mpi4py", "ray", "torch")
    elsewhere = "".join(f"[mypy-{name}.*]\nignore_missing_imports = True\nfollow_imports = skip\n" for name in others)
    options = (
        "strict = True\nnamespace_packages = True\nexplicit_package_bases = True\ndisallow_subclassing_any = False\n"
    )
    config.write_text(f"[mypy]\n{options}{elsewhere}")
    environment = dict(os.environ)
    if str(INSTALLED) not in site.getsitepackages():  # mypy searches it by itself and rejects it in MYPYPATH
        environment["MYPYPATH"] = str(INSTALLED)
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(config), "--cache-dir", str(folder), *map(str, files)],
        capture_output=True, text=True, check=False, cwd=folder, env=environment,
    )  # fmt: skip


def test_the_examples_pass_mypy_strict(tmp_path: Path) -> None:
    done = check(*sorted((ROOT / "examples" / "python").glob("*.py")), folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


WRONG = {
    "Device('zero')": "arg-type",
    "Device().no_such_thing": "attr-defined",
    "LaunchConfig(grid='many', block=1)": "arg-type",
    "Device().allocate('big', stream=Device().create_stream())": "arg-type",
    "Program(3, 'c++')": "arg-type",
    "driver.cuInit()": "call-arg",
    "driver.cuNoSuchFunction()": "attr-defined",
    "nvml.device_get_name('first')": "arg-type",
    "GraphDefinition().launch()": "call-arg",
}


def test_type_errors_are_found(tmp_path: Path) -> None:
    lines = [
        "from cuda.bindings import driver, nvml",
        "from cuda.core import Device, LaunchConfig, Program",
        "from cuda.core.graph import GraphDefinition",
        *WRONG,
    ]
    file = tmp_path / "mistakes.py"
    file.write_text("\n".join(lines) + "\n")
    done = check(file, folder=tmp_path)
    for number, (line, kind) in enumerate(WRONG.items(), 4):
        found = [
            text for text in done.stdout.splitlines() if text.startswith(f"mistakes.py:{number}:") and kind in text
        ]
        assert found, f"{line}: no {kind} in\n{done.stdout}"


def test_packages_have_a_py_typed_marker() -> None:
    for package in (cuda.core, cuda.bindings):
        assert (Path(package.__file__).parent / "py.typed").exists()  # type: ignore[arg-type]
