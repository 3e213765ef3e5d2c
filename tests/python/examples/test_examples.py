# SPDX-License-Identifier: Apache-2.0
"""Every Python example runs in a separate process."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).parents[3] / "examples" / "python"


def run(name: str, folder: pathlib.Path) -> subprocess.CompletedProcess[str]:
    paths = [os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    # The example runs in another folder, with two CPU devices if it needs two.
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "CUCORE_CPU_DEVICES": "2",
        "PYTHONWARNINGS": "ignore",
    }
    command = [sys.executable, str(FOLDER / f"{name}.py")]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.py")))
def test_example_runs(name: str, tmp_path: pathlib.Path) -> None:
    done = run(name, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "" and done.stdout
    if done.stdout.startswith("skipped: "):
        pytest.skip(done.stdout.removeprefix("skipped: ").strip())


def test_julia_example_writes_a_png_file(tmp_path: pathlib.Path) -> None:
    assert run("julia", tmp_path).returncode == 0
    data = (tmp_path / "julia.png").read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n") and data.endswith(b"IEND\xaeB`\x82")


def test_examples_page_lists_every_example() -> None:
    examples = FOLDER.parent
    page = (examples.parent / "docs" / "examples.md").read_text()
    listed = set(re.findall(r"\(\.\./examples/(\S+?)\)", page))
    assert listed == {
        str(path.relative_to(examples)) for path in examples.glob("*/*") if path.suffix in (".py", ".cpp")
    }


# Python examples without a C++ program of the same name, and why.
OTHER_NAME = {"saxpy_bindings": "saxpy_driver"}  # cuda.bindings in Python is the driver table in C++
NO_TWIN = {
    "cupy_extension": "CuPy is a library of Python",
    "dask_blocks": "Dask is a library of Python",
    "mpi_halo": "the example is about buffers in mpi4py; the build has no MPI",
    "ray_actors": "the example is about actors in Python",
    "torch_extension": "the example is about tensors of PyTorch in Python",
}


def test_every_python_example_has_a_cpp_twin_or_a_reason() -> None:
    python = {path.stem for path in FOLDER.glob("*.py")}
    cpp = {path.stem for path in (FOLDER.parent / "cpp").glob("*.cpp")}
    assert set(NO_TWIN) <= python and set(OTHER_NAME) <= python
    twins = {OTHER_NAME.get(name, name) for name in python - set(NO_TWIN)}
    assert twins == cpp
