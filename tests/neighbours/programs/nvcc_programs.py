# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ programs of tests/python/cudart, built by nvcc with the shared runtime."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from rows import main, row

SOURCES = Path(__file__).resolve().parents[2] / "python" / "cudart" / "programs"
TOOLKIT = Path(sysconfig.get_path("purelib")) / "nvidia" / "cu13"
PROGRAMS = {  # sources, and options of nvcc
    "launch syntax and printf": ("launch.cu",),
    "managed and constant variables": ("variables.cu",),
    "relocatable code of several files": ("rdc_main.cu", "rdc_part.cu", "-rdc=true"),
    "streams, events, graphs and cooperative launches": ("streams.cu",),
    "textures": ("textures.cu",),
    "per-thread default streams": ("per_thread.cu", "--default-stream", "per-thread"),
    "Thrust": ("thrust.cu",),
}


def run(name: str) -> None:
    sources = [str(SOURCES / part) if part.endswith(".cu") else part for part in PROGRAMS[name]]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "libcudart.so").symlink_to(
            TOOLKIT / "lib" / "libcudart.so.13"
        )  # the wheel has no name for linking
        program = Path(folder) / "program"
        nvcc = [str(TOOLKIT / "bin" / "nvcc"), "-std=c++17", "-cudart", "shared", f"-L{folder}", "-arch=sm_90"]
        subprocess.run([*nvcc, *sources, "-o", str(program)], check=True)
        command = [sys.executable, "-m", "cucore", "run", "--cpu", str(program)]
        out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    assert out == (SOURCES / PROGRAMS[name][0]).with_suffix(".txt").read_text(), out


for _name in PROGRAMS:
    row(_name)(lambda name=_name: run(name))  # type: ignore[misc]

if __name__ == "__main__":
    main()
