# SPDX-License-Identifier: Apache-2.0
"""The wheel of `make wheel` is self-contained, installs in empty environments of every Python that is here, and runs the tutorial.

Linking LLVM statically takes minutes, so the default suites do not build it: run `make wheel` first, then this file. The recipes for CI
are run as docs/guide/testing.md has them, which downloads NVIDIA's compiler libraries.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "python" / "docs")]

import check_wheel  # noqa: E402
import pages  # noqa: E402

TAG = f"cp{sys.version_info.major}{sys.version_info.minor}"
WHEELS = [path for path in sorted((ROOT / "dist").glob("cucore-*.whl")) if TAG in path.stem.split("-")[2].split(".")]
pytestmark = pytest.mark.skipif(not WHEELS, reason="no wheel for this Python in dist/: run `make wheel`")


def pythons() -> dict[str, Path]:
    """The Pythons of this machine that the wheel is for, by their tags."""
    found = {TAG: Path(sys.executable)}
    places = [shutil.which(f"python3.{minor}") for minor in range(10, 30)]
    places += [str(path) for path in sorted(Path("~/.pyenv/versions").expanduser().glob("3.*/bin/python3"))]
    for place in filter(None, places):
        program = "import sys; print('cp%d%d' % sys.version_info[:2])"
        done = subprocess.run([place, "-c", program], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            found.setdefault(done.stdout.strip(), Path(place))
    wanted = WHEELS[-1].stem.split("-")[2].split(".") if WHEELS else []
    return {tag: path for tag, path in found.items() if tag in wanted}


PYTHONS = pythons()


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
    assert check_wheel.check_size(WHEELS[-1]) == []


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


@pytest.mark.skipif(shutil.which("gdb") is None, reason="needs gdb")
def test_gdb_finds_the_kernels_of_the_stripped_library(python: Path, tmp_path: Path) -> None:
    page = (ROOT / "docs/guide/debugging.md").read_text()
    found = re.search(r"<!-- file: saxpy.py -->\n```python\n(.*?)```", page, re.S)
    assert found is not None
    (tmp_path / "saxpy.py").write_text(found[1])
    commands = ("set breakpoint pending on", "break saxpy.cu:9", "run", "print n")
    options = [f"--option={word}" for command in commands for word in ("-ex", command)]
    out = run(python, "cucore", "gdb", "--option=-batch", *options, "saxpy.py", folder=tmp_path)
    if "hit Breakpoint 1" not in out and "ptrace" in out:
        pytest.skip("this system does not let a debugger start a program")
    assert "hit Breakpoint 1" in out and "saxpy (n=256, a=2" in out and "$1 = 256" in out, out


def test_programs_and_libraries_of_the_cpu_device_are_there(python: Path) -> None:
    folder = next(python.parents[1].glob("lib/python*/site-packages")) / "cucore" / "lib"
    assert os.access(folder / "cpu" / "bin" / "ptxas", os.X_OK)
    stand_ins = folder.parent / "stand_ins"
    assert [
        path.name
        for path in stand_ins.rglob("*")
        if path.is_file() and path.read_bytes()[:2] == b"#!" and not os.access(path, os.X_OK)
    ] == []
    names = ("cpu/stubs/libcuda.so", "cpu/libcuda.so", "cpu/libcuda.so.1", "cpu/libcupti.so.12", "cpu/libcupti.so.13", "cpu/libnccl.so.2", "cpu/libnvidia-ml.so.1",
             "cudart/libcudart.so.12", "cudart/libcudart.so.13")  # fmt: skip
    for name in names:
        run(python, str(python), "-c", f"import ctypes; ctypes.CDLL({str(folder / name)!r})", folder=folder)


# ---- the recipes of docs/guide/testing.md, in an empty environment of every Python


def commands(title: str) -> list[str]:
    """The commands of the YAML block of a section."""
    section = (ROOT / "docs/guide/testing.md").read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]
    block = section.partition("```yaml\n")[2].partition("```")[0]
    found = re.findall(r"^ *- run: (.+)$", block, re.M) or re.findall(r"^    - (.+)$", block, re.M)
    assert found and found[0].startswith("pip install"), title
    return found


@pytest.fixture(scope="module", params=PYTHONS)
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A project as the guide describes it: tests, and wheels/ with the wheel. Its folder, and an environment of one Python."""
    folder = tmp_path_factory.mktemp(request.param)
    subprocess.run([str(PYTHONS[request.param]), "-m", "venv", str(folder / "venv")], check=True)
    (folder / "wheels").symlink_to(ROOT / "dist")
    page = (ROOT / "docs/guide/testing.md").read_text()
    found = re.search(r"<!-- file: test_scale.py -->\n```python\n(.*?)```", page, re.S)
    assert found is not None
    (folder / "test_scale.py").write_text(found[1])
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "LD_LIBRARY_PATH", "CUCORE_DEVICE")}
    environment |= {"PATH": f"{folder / 'venv' / 'bin'}{os.pathsep}{environment['PATH']}"}
    install = subprocess.run(
        ["bash", "-ec", commands("A recipe for GitHub Actions")[0]],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    if (
        install.returncode
        and "No matching distribution found for cucore" not in install.stderr
        and "NewConnectionError" in install.stderr
    ):
        pytest.skip("no index of packages can be reached")
    assert install.returncode == 0, install.stderr
    return folder, environment


@pytest.mark.parametrize("title", ["A recipe for GitHub Actions", "A recipe for GitLab"])
def test_the_recipe_of_the_guide_works_as_it_stands(project: tuple[Path, dict[str, str]], title: str) -> None:
    folder, environment = project
    if "GitLab" in title:
        environment = environment | {"CUCORE_DEVICE": "cpu", "CUCORE_CACHE_DIR": str(folder / ".cucore")}
    for command in commands(title):
        done = subprocess.run(
            ["bash", "-ec", command], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    assert "3 passed, 1 skipped" in done.stdout


def test_the_tutorial_and_the_demo_run_in_an_environment_of_every_python(project: tuple[Path, dict[str, str]]) -> None:
    folder, environment = project
    environment = environment | {"CUCORE_DEVICE": "cpu"}
    page = pages.read(ROOT / "docs" / "tutorial.md")
    (folder / "tutorial.py").write_text("\n".join(block.text for block in page.of("python")))
    for command in ("python tutorial.py", "cucore demo", "cucore doctor"):
        done = subprocess.run(
            ["bash", "-ec", command], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def test_cubins_of_nvrtc_and_nvjitlink_run_with_the_stand_ins_of_the_wheel(
    project: tuple[Path, dict[str, str]],
) -> None:
    folder, environment = project
    tests = ROOT / "tests" / "python" / "stand_ins" / "test_libraries.py"
    options = [
        "-q",
        "--noconftest",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
        "-k",
        "loads_run or linked_with_run or plugin_replaces",
    ]
    done = subprocess.run(
        ["python", "-m", "pytest", *options, str(tests)], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0 and " passed" in done.stdout and "skipped" not in done.stdout, done.stdout + done.stderr
