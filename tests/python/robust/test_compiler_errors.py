# SPDX-License-Identifier: Apache-2.0
"""A missing, old or failing compiler raises an error that explains why, and the next compilation works."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROMISE = pytest.mark.promise("A compiler that is missing, too old or fails is an error that names it")

FAKE = r"""
#define OK(name) int name() { return 0; }
int nvrtcVersion(int* a, int* b) { *a = 11; *b = 2; return 0; }
const char* nvrtcGetErrorString(int c) { return "x"; }
static int one;
int nvrtcCreateProgram(void** p) { *p = &one; return 0; }
int nvrtcDestroyProgram(void** p) { *p = 0; return 0; }
int nvrtcGetProgramLogSize(void* p, unsigned long* n) { *n = 10; return 0; }
int nvrtcGetProgramLog(void* p, char* out) { __builtin_memcpy(out, "it burned", 10); return 0; }
#ifndef OLD
int nvrtcCompileProgram() { return 11; } /* NVRTC_ERROR_INTERNAL_ERROR: what a compiler answers when it fails */
OK(nvrtcAddNameExpression) OK(nvrtcGetLoweredName) OK(nvrtcGetPTXSize) OK(nvrtcGetPTX)
OK(nvrtcGetCUBINSize) OK(nvrtcGetCUBIN) OK(nvrtcGetLTOIRSize) OK(nvrtcGetLTOIR)
#endif
"""

USE = """
import ctypes, sys
from cuda.core import Program, ProgramOptions
for library in sys.argv[1:]: ctypes.CDLL(library, ctypes.RTLD_GLOBAL)  # a library that is loaded already is the one used
for _ in range(2):
    try:
        Program("x", "c++", ProgramOptions(arch="sm_90")).compile("ptx")
    except Exception as error:
        print(type(error).__name__, getattr(error, "code", None), str(error).replace("\\n", " "))
"""


def use(*libraries: Path, environment: dict[str, str] | None = None) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", USE, *libraries], env=environment or os.environ, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def fake(folder: Path, *flags: str) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (folder / "fake.c").write_text(FAKE)
    names = ["libnvrtc.so.13", "libnvrtc.so.12"]
    for name in names:
        command = [compiler, "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", folder / name, folder / "fake.c", *flags]
        subprocess.run(command, check=True)
    return folder / names[0]


@PROMISE
def test_failing_compiler_raises_its_error_and_the_next_compilation_works(tmp_path: Path) -> None:
    said = use(fake(tmp_path))
    assert len(said) == 2  # the second attempt raises the same error
    for line in said:
        assert line.startswith("NVRTCError 11 NVRTC_ERROR_INTERNAL_ERROR") and "it burned" in line


@PROMISE
def test_old_compiler_raises_an_error_that_names_the_missing_function(tmp_path: Path) -> None:
    for line in use(fake(tmp_path, "-DOLD")):
        assert "nvrtcCompileProgram is missing in" in line and "libnvrtc.so" in line


@PROMISE
def test_missing_compiler_raises_an_error_that_lists_the_paths_tried(
    tmp_path: Path, bare_environment: dict[str, str]
) -> None:
    """Without NVIDIA's packages on the path, the error lists the paths tried."""
    import cucore
    import cuda.core

    (tmp_path / "cuda").mkdir()
    for package in Path(cuda.core.__file__).parents[1].iterdir():
        if package.name in ("core", "bindings", "pathfinder"):
            (tmp_path / "cuda" / package.name).symlink_to(package)
    (tmp_path / "cucore").symlink_to(Path(cucore.__file__).parent)
    environment = bare_environment | {"PYTHONPATH": str(tmp_path)}
    said = {}
    for kind in ("c++", "nvvm"):
        program = USE.replace('"c++"', repr(kind))
        done = subprocess.run([sys.executable, "-S", "-c", program], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        said[kind] = done.stdout.splitlines()
    missing = [line for lines in said.values() for line in lines if line.startswith("DynamicLibNotFoundError")]
    if not missing:
        pytest.skip("this system's loader finds both compilers by itself")
    assert all("libnvrtc.so" in line or "libnvvm.so" in line for line in missing)
    assert all("tried" in line for line in missing), missing[0]
