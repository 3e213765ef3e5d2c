# SPDX-License-Identifier: Apache-2.0
"""A separate program builds against the installed package with find_package and with pkg-config, and runs."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
STRICT = ("-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Werror")


@pytest.fixture(scope="module")
def package() -> Path:
    """The folder of the installed C++ library: <site-packages>/cucore."""
    spec = importlib.util.find_spec("cucore")
    if spec is None or not (Path(spec.submodule_search_locations[0]) / "lib" / "cmake").exists():
        pytest.skip("the C++ library is not installed with the Python package")
    return Path(spec.submodule_search_locations[0])


def run(*command: object, **more: str) -> str:
    done = subprocess.run(
        [str(c) for c in command], capture_output=True, text=True, check=False, env={**os.environ, **more}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_program_builds_with_find_package_and_runs(package: Path, tmp_path: Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("needs cmake")
    run("cmake", "-S", HERE, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={package / 'lib' / 'cmake'}")
    run("cmake", "--build", tmp_path)
    assert "ok" in run(tmp_path / "consumer")


@pytest.fixture(scope="module")
def kernels(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder where the project that uses cucore_add_kernels was configured; its targets are built by the tests."""
    if shutil.which("cmake") is None:
        pytest.skip("needs cmake")
    folder = tmp_path_factory.mktemp("kernels")
    run("cmake", "-S", HERE / "kernels", "-B", folder, f"-DCMAKE_PREFIX_PATH={package / 'lib' / 'cmake'}")
    return folder


@pytest.mark.parametrize(("way", "form"), [("ptx", "compiled"), ("cubin", "compiled"), ("run", "source")])
def test_kernels_embedded_by_cmake_run(kernels: Path, way: str, form: str) -> None:
    run("cmake", "--build", kernels, "--target", f"kernels_{way}")
    assert run(kernels / f"kernels_{way}").strip() == f"shift.cu, {form}: ok"


def test_program_builds_with_pkg_config_and_runs(package: Path, tmp_path: Path) -> None:
    compiler = shutil.which("c++")
    if shutil.which("pkg-config") is None or compiler is None:
        pytest.skip("needs pkg-config and a C++ compiler")
    flags = run("pkg-config", "--cflags", "--libs", "cucore", PKG_CONFIG_PATH=str(package / "lib" / "pkgconfig"))
    run(compiler, *STRICT, HERE / "main.cpp", "-o", tmp_path / "consumer", *flags.split())
    assert "ok" in run(tmp_path / "consumer")


def test_a_compiler_below_cpp20_is_told_so(package: Path) -> None:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    command = [compiler, "-std=c++17", "-fsyntax-only", "-I", str(package / "include"), "-x", "c++", "-"]
    for header in ("cucore/cucore.hpp", "cucore/location.hpp"):
        done = subprocess.run(command, input=f"#include <{header}>\n", capture_output=True, text=True, check=False)
        assert done.returncode != 0 and "cucore needs C++20: compile with -std=c++20" in done.stderr, header


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
