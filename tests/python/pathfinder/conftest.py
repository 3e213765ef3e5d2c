# SPDX-License-Identifier: Apache-2.0
"""Fixtures: folder trees of wheels, conda environments and toolkits, and a separate interpreter for each search."""

import json
import os
import pathlib
import subprocess
import sys
import sysconfig

import pytest

COMPILER = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"


def pytest_configure(config):
    config.addinivalue_line("markers", "network: installs packages from the index; skipped where it cannot be reached")


@pytest.fixture(scope="session")
def shared_library(tmp_path_factory):
    """Builds a shared library with a given soname; its function returns its path."""
    folder = tmp_path_factory.mktemp("libraries")

    def build(path, marker=1):
        path = pathlib.Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        source = folder / "marker.c"
        source.write_text(f"int cucore_marker(void) {{ return {marker}; }}\n")
        command = [*COMPILER.split()[:1], "-shared", "-fPIC", f"-Wl,-soname,{path.name}", str(source), "-o", str(path)]
        subprocess.run(command, check=True)
        return str(path)

    return build


@pytest.fixture
def ask(tmp_path):
    """Runs a snippet in a new interpreter with a clean environment; returns the JSON that it prints."""
    import cuda.pathfinder

    # Only cucore's packages: their installation folder may also contain NVIDIA's wheels.
    package_root = tmp_path / "packages"
    package_root.mkdir()
    installed = pathlib.Path(cuda.pathfinder.__file__).parents[2]
    for name in ("cuda", "cucore"):
        (package_root / name).symlink_to(installed / name)

    def run(snippet, *, cwd=None, python=sys.executable, **environment):
        clean = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(package_root)}
        clean.update({key: str(value) for key, value in environment.items()})
        text = "import json, sys\nbefore = set(sys.modules)\nfrom cuda import pathfinder\n" + snippet
        done = subprocess.run(
            [python, "-c", text], env=clean, cwd=cwd or tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.strip().splitlines()[-1])

    return run
