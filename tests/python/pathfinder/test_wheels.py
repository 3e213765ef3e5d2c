# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's wheels in separate virtual environments. Skipped without network."""

import pathlib
import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def environment_with(tmp_path_factory):
    def make(requirement):
        folder = tmp_path_factory.mktemp("venv") / "v"
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        python = folder / "bin/python"
        command = [
            str(python),
            "-m",
            "pip",
            "install",
            "-q",
            "--no-deps",
            "--retries",
            "1",
            "--timeout",
            "20",
            requirement,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"pip cannot install {requirement} here: {done.stderr.strip().splitlines()[-1:]}")
        return folder, python

    return make


SNIPPET = """
import ctypes
d = pathfinder.load_nvidia_dynamic_lib("nvrtc")
major, minor = ctypes.c_int(), ctypes.c_int()
ctypes.CDLL(d.abs_path).nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
h = pathfinder.locate_nvidia_header_directory("nvrtc")
print(json.dumps([d.abs_path, d.found_via, major.value, h.abs_path, h.found_via]))
"""


@pytest.mark.network
@pytest.mark.parametrize(
    ("requirement", "major", "folder"),
    [("nvidia-cuda-nvrtc-cu12", 12, "nvidia/cuda_nvrtc"), ("nvidia-cuda-nvrtc==13.*", 13, "nvidia/cu13")],
)
def test_nvrtc_of_an_installed_wheel_is_found(ask, environment_with, requirement, major, folder):
    venv, python = environment_with(requirement)
    path, via, found_major, headers, headers_via = ask(SNIPPET, python=str(python))
    assert pathlib.Path(path).is_relative_to(venv)
    assert folder in path
    assert (via, found_major) == ("site-packages", major)
    assert folder in headers
    assert headers_via == "site-packages"
