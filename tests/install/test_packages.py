"""Installed packages in throw-away environments, without network: the metadata wheels, and NVIDIA's files over ours."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import metadata_wheels  # noqa: E402
import wheel_file  # noqa: E402

# What NVIDIA's wheels and ours both install, and a file only theirs has (see cucore/mixed.py).
THEIRS = {
    "cuda-core": {"cuda/core/__init__.py": b"", "cuda/core/_resource_handles.pxd": b""},
    "cuda-bindings": {"cuda/bindings/__init__.py": b"", "cuda/bindings/driver.pxd": b""},
    "cuda-pathfinder": {"cuda/pathfinder/__init__.py": b"", "cuda/pathfinder/_dynamic_libs/__init__.py": b""},
}


def our_wheel(folder: Path) -> Path:
    """The installed package packed as a wheel, so that an environment can be made from it without compiling."""
    spec = importlib.util.find_spec("cucore")
    assert spec is not None and spec.origin is not None
    site = Path(spec.origin).parents[1]
    version = metadata_wheels.tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    files = {}
    for top in ("cucore", "cuda/core", "cuda/bindings", "cuda/pathfinder"):
        for path in sorted((site / top).rglob("*")):
            if path.is_file() and not path.is_symlink() and "__pycache__" not in path.parts:
                files[str(path.relative_to(site))] = path.read_bytes()
    info = f"cucore-{version}.dist-info"
    files[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: cucore\nVersion: {version}\nProvides-Extra: cu13\n".encode()
    )
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: py3-none-any\n"
    path = folder / f"cucore-{version}-py3-none-any.whl"
    wheel_file.write(path, files, f"{info}/RECORD")
    return path


def their_wheel(folder: Path, name: str) -> Path:
    stem = f"{name.replace('-', '_')}-99.0"
    files = THEIRS[name] | {
        f"{stem}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 99.0\n".encode(),
        f"{stem}.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    path = folder / f"{stem}-py3-none-any.whl"
    wheel_file.write(path, files, f"{stem}.dist-info/RECORD")
    return path


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    our_wheel(folder)
    metadata_wheels.main(folder)
    return folder


class Environment:
    def __init__(self, folder: Path) -> None:
        self.python = folder / "bin" / "python"
        done = subprocess.run([sys.executable, "-m", "venv", str(folder)], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"cannot make an environment here: {done.stdout.strip().splitlines()[:1]}")

    def run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
        command = [str(self.python), *map(str, arguments)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    def install(self, *arguments: object) -> None:
        done = self.run("-m", "pip", "install", "-q", "--no-index", "--disable-pip-version-check", *arguments)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> Environment:
    made = Environment(tmp_path_factory.mktemp("environment"))
    made.install("--find-links", wheels, "cuda-core[cu13]", "cuda-bindings", "cuda-pathfinder", "cuda-python")
    return made


def test_requirements_of_other_packages_are_met_by_ours(environment: Environment) -> None:
    done = environment.run("-m", "pip", "check")
    assert done.returncode == 0, done.stdout
    names = environment.run("-m", "pip", "list", "--format=freeze").stdout.split()
    assert "cuda-core==1.2.2+cucore" in names and any(name.startswith("cucore==") for name in names)
    (bindings,) = (name.split("==")[1] for name in names if name.startswith("cuda-bindings=="))
    assert f"cuda-python=={bindings}" in names and bindings.endswith("+cucore")
    done = environment.run(
        "-c", "import cuda.core, cuda.bindings, cuda.pathfinder, cucore.mixed as m; print(m.found())"
    )
    assert (done.returncode, done.stdout) == (0, "{}\n"), done.stderr


def test_they_meet_exact_requirements_and_go_before_nvidias(
    environment: Environment, wheels: Path, tmp_path: Path
) -> None:
    path = tmp_path / "cuda_core-1.2.2-py3-none-any.whl"  # NVIDIA's, as an index would offer it
    info = "cuda_core-1.2.2.dist-info"
    files = {
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: cuda-core\nVersion: 1.2.2\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    wheel_file.write(path, files, f"{info}/RECORD")
    places = ("--find-links", tmp_path, "--find-links", wheels)
    done = environment.run(
        "-m", "pip", "download", "-q", "--no-index", "--no-deps", *places, "-d", tmp_path / "got", "cuda-core==1.2.2"
    )
    assert done.returncode == 0, done.stderr
    assert [entry.name for entry in (tmp_path / "got").iterdir()] == ["cuda_core-1.2.2+cucore-py3-none-any.whl"]


def test_versions_are_those_of_the_modules(environment: Environment) -> None:
    program = (
        "from importlib.metadata import version as v; import cuda.core, cuda.bindings, cuda.pathfinder as p;"
        "assert v('cuda-core') == cuda.core.__version__ + '+cucore' and v('cuda-bindings') == cuda.bindings.__version__ + '+cucore';"
        "assert v('cuda-pathfinder') == p.__version__ + '+cucore'"
    )
    done = environment.run("-c", program)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", THEIRS)
def test_their_files_among_ours_are_an_error_that_says_what_to_do(
    environment: Environment, wheels: Path, tmp_path: Path, name: str
) -> None:
    """As pip leaves them: theirs first, ours last, so that our `__init__` is the one that runs."""
    module, site = name.replace("-", "."), next(environment.python.parents[1].glob("lib/python*/site-packages"))
    stand_in = next(site.glob(f"{name.replace('-', '_')}-*.dist-info"))
    stand_in.rename(tmp_path / "stand-in")
    ours = site / module.replace(".", "/") / "__init__.py"
    kept = ours.read_bytes()
    with zipfile.ZipFile(their_wheel(tmp_path, name)) as archive:
        archive.extractall(site)
        ours.write_bytes(kept)
        try:
            done = environment.run("-c", f"import {module}")
            assert done.returncode == 1 and "ImportError" in done.stderr
            assert f"{name} 99.0 (NVIDIA's) and of cucore" in done.stderr and f"pip uninstall -y {name}" in done.stderr
        finally:
            for entry in archive.namelist():
                if site / entry != ours:
                    (site / entry).unlink()
            for folder in sorted({(site / entry).parent for entry in archive.namelist()}, reverse=True):
                if not any(folder.iterdir()):
                    folder.rmdir()
            (tmp_path / "stand-in").rename(stand_in)
    if (folder := site / "cuda" / "pathfinder" / "_dynamic_libs").exists():
        shutil.rmtree(folder)  # with what importing it compiled
    assert environment.run("-c", f"import {module}").returncode == 0


def test_their_files_in_another_folder_are_not_mixed_with_ours(environment: Environment, tmp_path: Path) -> None:
    with zipfile.ZipFile(their_wheel(tmp_path, "cuda-core")) as archive:
        archive.extractall(tmp_path / "other")
    program = f"import sys, cucore.mixed as m; sys.path.insert(0, {str(tmp_path / 'other')!r}); print(m.found())"
    done = environment.run("-c", program)
    assert (done.returncode, done.stdout) == (0, "{}\n"), done.stderr


def test_their_bindings_installed_over_ours_are_noticed_too(
    environment: Environment, wheels: Path, tmp_path: Path
) -> None:
    environment.install("--no-deps", "--force-reinstall", their_wheel(tmp_path, "cuda-bindings"))  # theirs last
    try:
        done = environment.run("-c", "from cuda.bindings import driver")
        assert done.returncode == 1 and "are mixed: both provide cuda.bindings" in done.stderr
        assert "WARNING" in environment.run("-m", "cucore", "info").stdout
    finally:
        environment.install("--no-deps", "--force-reinstall", *wheels.glob("cuda_bindings-*.whl"))
        environment.install("--no-deps", "--force-reinstall", next(wheels.glob("cucore-*.whl")))


def test_the_same_wheel_is_written_every_time(tmp_path: Path) -> None:
    first, second = tmp_path / "a.whl", tmp_path / "b.whl"
    for path in (first, second):
        wheel_file.write(path, {"x/y.py": b"1"}, "x.dist-info/RECORD")
    assert first.read_bytes() == second.read_bytes()
