# SPDX-License-Identifier: Apache-2.0
"""Packages installed in temporary environments without network: the metadata wheels, and conflicts with NVIDIA's files."""

from __future__ import annotations

import importlib.util
import json
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

# Files that both NVIDIA's wheels and cucore install, and a file that only NVIDIA's have (see cucore/mixed.py).
THEIRS = {
    "cuda-core": {
        "cuda/core/__init__.py": b"from cuda.bindings import driver as driver\n",
        "cuda/core/_resource_handles.pxd": b"",
    },
    "cuda-bindings": {"cuda/bindings/__init__.py": b"", "cuda/bindings/driver.pxd": b""},
    "cuda-pathfinder": {"cuda/pathfinder/__init__.py": b"", "cuda/pathfinder/_dynamic_libs/__init__.py": b""},
}


def our_wheel(folder: Path) -> Path:
    """The installed package as a wheel, so that an environment needs no compilation."""
    spec = importlib.util.find_spec("cucore")
    assert spec is not None and spec.origin is not None
    site = Path(spec.origin).parents[1]
    version = metadata_wheels.tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    files = {str(path.relative_to(site)): path.read_bytes() for path in (site / "cuda").glob("*.py")}
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


def test_metadata_wheels_satisfy_requirements_of_other_packages(environment: Environment) -> None:
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


def test_metadata_wheels_satisfy_exact_requirements_and_precede_nvidias(
    environment: Environment, wheels: Path, tmp_path: Path
) -> None:
    path = tmp_path / "cuda_core-1.2.2-py3-none-any.whl"  # a package of NVIDIA's, as an index would offer it
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


def test_metadata_wheels_have_the_versions_of_the_modules(environment: Environment) -> None:
    program = (
        "from importlib.metadata import version as v; import cuda.core, cuda.bindings, cuda.pathfinder as p;"
        "assert v('cuda-core') == cuda.core.__version__ + '+cucore' and v('cuda-bindings') == cuda.bindings.__version__ + '+cucore';"
        "assert v('cuda-pathfinder') == p.__version__ + '+cucore'"
    )
    done = environment.run("-c", program)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", THEIRS)
def test_mixed_files_of_nvidias_package_raise_an_error_with_the_remedy(
    environment: Environment, wheels: Path, tmp_path: Path, name: str
) -> None:
    """As pip installs them: NVIDIA's first, cucore last, so that cucore's `__init__` runs."""
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
        shutil.rmtree(folder)  # including its bytecode cache
    assert environment.run("-c", f"import {module}").returncode == 0


def test_nvidias_files_in_another_folder_are_not_an_error(environment: Environment, tmp_path: Path) -> None:
    with zipfile.ZipFile(their_wheel(tmp_path, "cuda-core")) as archive:
        archive.extractall(tmp_path / "other")
    program = f"import sys, cucore.mixed as m; sys.path.insert(0, {str(tmp_path / 'other')!r}); print(m.found())"
    done = environment.run("-c", program)
    assert (done.returncode, done.stdout) == (0, "{}\n"), done.stderr


def test_nvidias_bindings_installed_over_cucore_raise(environment: Environment, wheels: Path, tmp_path: Path) -> None:
    environment.install(
        "--no-deps", "--force-reinstall", their_wheel(tmp_path, "cuda-bindings")
    )  # NVIDIA's installed last
    try:
        done = environment.run("-c", "from cuda.bindings import driver")
        assert done.returncode == 1 and "are mixed: both provide cuda.bindings" in done.stderr
        assert "BROKEN" in environment.run("-m", "cucore", "info").stdout
    finally:
        environment.install("--no-deps", "--force-reinstall", *wheels.glob("cuda_bindings-*.whl"))
        environment.install("--no-deps", "--force-reinstall", next(wheels.glob("cucore-*.whl")))


def restore(environment: Environment, wheels: Path) -> None:
    for name in THEIRS:
        environment.install("--no-deps", "--force-reinstall", *wheels.glob(f"{name.replace('-', '_')}-*.whl"))
    environment.install("--no-deps", "--force-reinstall", next(wheels.glob("cucore-*.whl")))
    site = next(environment.python.parents[1].glob("lib/python*/site-packages"))
    shutil.rmtree(site / "cuda" / "pathfinder" / "_dynamic_libs", ignore_errors=True)
    assert environment.run("-c", "import cuda.core, cuda.bindings.driver, cuda.pathfinder").stderr == ""


# What pip leaves when one of NVIDIA's packages is installed over ours: these replace ours together.
MIXTURES = [
    ("cuda-pathfinder",),
    ("cuda-core", "cuda-pathfinder"),
    ("cuda-bindings", "cuda-pathfinder"),
    ("cuda-core", "cuda-bindings", "cuda-pathfinder"),
]


@pytest.mark.parametrize("names", MIXTURES, ids=" ".join)
def test_the_doctor_repairs_every_mixture_by_the_commands_it_prints(
    environment: Environment, wheels: Path, tmp_path: Path, names: tuple[str, ...]
) -> None:
    environment.install("--no-deps", "--force-reinstall", *(their_wheel(tmp_path, name) for name in names))
    numpy = next(environment.python.parents[1].glob("lib/python*/site-packages")) / "numpy.py"
    try:
        info = environment.run("-m", "cucore", "info")
        assert info.returncode == 1 and "Traceback" not in info.stderr, info.stderr
        assert "are mixed" in info.stdout and "cucore doctor" in info.stdout
        if names != ("cuda-pathfinder",):
            numpy.write_text("")  # the demo looks for it first
            demo = environment.run("-m", "cucore", "demo", "--json")
            assert demo.returncode == 1 and "Traceback" not in demo.stderr, demo.stderr
            provided = ", ".join(name.replace("-", ".") for name in names)
            wanted = f"are mixed: both provide {provided}. (cucore doctor says what to do)"
            assert json.loads(demo.stdout)["error"].endswith(wanted), demo.stdout
        for module in ("cuda.core", "cuda.bindings.driver"):
            done = environment.run("-c", f"import {module}")
            assert "are mixed: both provide" in done.stderr, done.stderr
            assert f"pip uninstall -y {' '.join(names)} && pip install" in done.stderr
            if names != ("cuda-pathfinder",):
                assert done.returncode == 1 and "ImportError" in done.stderr
        done = environment.run("-m", "cucore", "doctor", "--json")
        assert done.returncode == 1 and done.stderr == ""
        found = {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}
        assert found["packages"]["status"] == "problem"
        offline = {
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(wheels),
            "PATH": f"{environment.python.parent}:{os.environ['PATH']}",
        }
        for command in found["packages"]["fix"]:
            subprocess.run(["bash", "-c", command], env=offline, check=True, capture_output=True)
        assert environment.run("-c", "import cuda.core, cuda.bindings.driver, cuda.pathfinder").returncode == 0
        found = json.loads(environment.run("-m", "cucore", "doctor", "--json").stdout)["findings"]
        assert found[0]["name"] == "packages" and found[0]["status"] == "ok", found[0]
    finally:
        numpy.unlink(missing_ok=True)
        restore(environment, wheels)


def test_files_that_an_uninstall_took_along_are_missed_and_put_back(
    environment: Environment, wheels: Path, tmp_path: Path
) -> None:
    environment.install("--no-deps", "--force-reinstall", *(their_wheel(tmp_path, name) for name in THEIRS))
    try:
        assert environment.run("-m", "pip", "uninstall", "-q", "-y", *THEIRS).returncode == 0
        (wheel,) = wheels.glob("cucore-*.whl")
        for program in (
            "from cuda.bindings import driver",
            "from cuda.core import Device",
            "import cuda.core",
            "import cuda.pathfinder",
        ):
            done = environment.run("-c", program)
            assert done.returncode == 1 and "has lost files of cuda.core, cuda.bindings, cuda.pathfinder" in done.stderr
            assert f"pip install --force-reinstall --no-deps {wheel}" in done.stderr
        assert "Traceback" not in environment.run("-m", "cucore", "info").stderr
        found = json.loads(environment.run("-m", "cucore", "doctor", "--json").stdout)["findings"][0]
        assert found["status"] == "problem" and len(found["fix"]) == 1
        path = f"{environment.python.parent}{os.pathsep}{os.environ['PATH']}"
        subprocess.run(
            ["bash", "-ec", found["fix"][0]], env=os.environ | {"PATH": path}, check=True, capture_output=True
        )
        assert environment.run("-c", "from cuda.bindings import driver").returncode == 0, "the command repairs it"
    finally:
        restore(environment, wheels)


def test_a_changed_file_of_ours_is_noticed(environment: Environment) -> None:
    site = next(environment.python.parents[1].glob("lib/python*/site-packages"))
    path = site / "cuda" / "core" / "utils.py"
    kept = path.read_bytes()
    try:
        path.write_bytes(b"# changed\n")
        found = json.loads(environment.run("-m", "cucore", "doctor", "--json").stdout)["findings"][0]
        assert found["status"] == "problem" and found["details"]["changed"] == ["cuda/core/utils.py"]
    finally:
        path.write_bytes(kept)


def test_the_same_wheel_is_written_every_time(tmp_path: Path) -> None:
    first, second = tmp_path / "a.whl", tmp_path / "b.whl"
    for path in (first, second):
        wheel_file.write(path, {"x/y.py": b"1"}, "x.dist-info/RECORD")
    assert first.read_bytes() == second.read_bytes()
