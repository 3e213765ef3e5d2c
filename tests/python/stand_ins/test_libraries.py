# SPDX-License-Identifier: Apache-2.0
"""NVRTC and nvJitLink outside cuda.bindings: their cubins run on the CPU device under `cucore run --cpu` and the pytest plugin."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from cucore import CPU_DRIVER_FOLDER, stand_ins
from cuda.pathfinder import DynamicLibNotFoundError, find_nvidia_header_directory, load_nvidia_dynamic_lib

SOURCE = Path(__file__).parent / "cubins.cpp"
RESULT = "cubin: 42\nlimited: 42\nregisters: 24\nlinked: 42\nmixed: 42\noptimized: 42\n"


def library(name: str) -> Path:
    try:
        path = load_nvidia_dynamic_lib(name).abs_path
    except DynamicLibNotFoundError:
        path = None
    return Path(path or "missing")


NVRTC, NVJITLINK = library("nvrtc"), library("nvJitLink")
pytestmark = [
    pytest.mark.cpu_only,
    pytest.mark.skipif(not stand_ins.PTXAS.exists(), reason="this build has no CPU device"),
    pytest.mark.skipif(not (NVRTC.exists() and NVJITLINK.exists()), reason="NVRTC and nvJitLink are not installed"),
    pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++"),
]


def build(output: Path, *options: str) -> Path:
    headers = {find_nvidia_header_directory(name) for name in ("cudart", "nvrtc", "nvjitlink")} - {None}
    command = ["g++", "-std=c++20", "-Wall", "-Werror", *(f"-I{folder}" for folder in sorted(map(str, headers)))]
    driver = [f"-L{CPU_DRIVER_FOLDER / 'stubs'}", "-lcuda", "-ldl"]
    subprocess.run([*command, str(SOURCE), *options, *driver, "-o", str(output)], check=True)
    return output


@pytest.fixture(scope="module")
def loading(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A program that loads the libraries by their paths."""
    program = build(tmp_path_factory.mktemp("loading") / "program")
    return [str(program), str(NVRTC), str(NVJITLINK)]


@pytest.fixture(scope="module", params=["-Wl,-z,lazy", "-Wl,-z,now"])
def linked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A program that is linked with the libraries."""
    folders = [f"-L{path.parent}" for path in (NVRTC, NVJITLINK)] + [f"-Wl,-rpath,{NVRTC.parent}:{NVJITLINK.parent}"]
    names = [f"-l:{path.name}" for path in (NVRTC, NVJITLINK)]
    return [str(build(tmp_path_factory.mktemp("linked") / "program", "-DLINKED", request.param, *folders, *names))]


def under_run(command: list[str], **variables: str) -> str:
    environment = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "CUCORE_STAND_INS")} | variables
    done = subprocess.run(
        [sys.executable, "-m", "cucore", "run", "--cpu", *command], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_cubins_of_libraries_that_a_program_loads_run(loading: list[str]) -> None:
    assert under_run(loading) == RESULT


def test_cubins_of_libraries_that_a_program_is_linked_with_run(linked: list[str]) -> None:
    assert under_run(linked) == RESULT


def test_without_stand_ins_the_error_names_the_tool_and_what_to_set(loading: list[str]) -> None:
    said = dict(line.split(": ", 1) for line in under_run(loading, CUCORE_STAND_INS="0").splitlines())
    # In code that nvJitLink has optimized, ptxas alone has left its name.
    for what, maker in {"cubin": "ptxas", "linked": "nvJIT API", "optimized": "ptxas"}.items():
        assert said[what].startswith("209 ")
        assert f"made by {maker}, Cuda compilation tools" in said[what]
        assert "unset it" in said[what] and "CUCORE_STAND_INS=0" in said[what]


def test_without_run_the_error_says_how_to_start_the_program(loading: list[str]) -> None:
    environment = os.environ | {"LD_LIBRARY_PATH": str(CPU_DRIVER_FOLDER)}
    environment.pop("LD_PRELOAD", None)
    environment.pop("CUCORE_STAND_INS", None)
    done = subprocess.run(loading, capture_output=True, text=True, env=environment)
    assert "cubin: 209" in done.stdout and "cucore run --cpu" in done.stdout and "unset" not in done.stdout


LOOKED_UP = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int puts(const char* text) { return printf("next is %s\\n", dlsym(RTLD_NEXT, "puts") == (void*)puts ? "itself" : text); }
int main() {
  puts("another");
  void* main_program = dlopen(0, RTLD_NOW);
  printf("%d %d\\n", dlsym(RTLD_DEFAULT, "printf") != 0, dlsym(main_program, "nvrtcGetCUBIN") != 0);
  printf("%d %d\\n", dlsym(RTLD_DEFAULT, "nvrtcGetCUBIN") != 0, dlsym(RTLD_NEXT, "no_such_function") != 0);
}
"""


def test_other_names_are_looked_up_as_before(tmp_path: Path) -> None:
    source = tmp_path / "program.c"
    source.write_text(LOOKED_UP)
    subprocess.run(["gcc", source, "-rdynamic", "-ldl", "-o", tmp_path / "program"], check=True)
    assert under_run([str(tmp_path / "program")]) == "next is another\n1 0\n0 0\n"


IN_PROCESS = """
import ctypes

def test_cubin_runs():
    nvrtc = ctypes.CDLL({nvrtc!r})
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    source = b'extern "C" __global__ void k(int* p) {{ *p = 42; }}'
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"k.cu", 0, None, None) == 0
    assert nvrtc.nvrtcCompileProgram(program, 1, (ctypes.c_char_p * 1)(b"-arch=sm_90")) == 0
    assert nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)) == 0
    cubin = ctypes.create_string_buffer(size.value)
    assert nvrtc.nvrtcGetCUBIN(program, cubin) == 0
    assert nvrtc.nvrtcDestroyProgram(ctypes.byref(program)) == 0

    link = ctypes.CDLL({nvjitlink!r})
    handle, linked = ctypes.c_void_p(), ctypes.c_size_t()
    assert link.nvJitLinkCreate(ctypes.byref(handle), 1, (ctypes.c_char_p * 1)(b"-arch=sm_90")) == 0
    assert link.nvJitLinkAddData(handle, 1, cubin, ctypes.c_size_t(len(cubin)), b"k") == 0
    assert link.nvJitLinkComplete(handle) == 0
    assert link.nvJitLinkGetLinkedCubinSize(handle, ctypes.byref(linked)) == 0
    again = ctypes.create_string_buffer(linked.value)
    assert link.nvJitLinkGetLinkedCubin(handle, again) == 0
    assert link.nvJitLinkDestroy(ctypes.byref(handle)) == 0

    driver = ctypes.CDLL("libcuda.so.1")
    context, module, function, memory, result = *(ctypes.c_void_p() for _ in range(4)), ctypes.c_int()
    assert driver.cuInit(0) == 0
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert driver.cuCtxSetCurrent(context) == 0
    for code in (cubin, again):
        assert driver.cuModuleLoadData(ctypes.byref(module), code) == 0
        assert driver.cuModuleGetFunction(ctypes.byref(function), module, b"k") == 0
        assert driver.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4)) == 0
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(memory))
        assert driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, arguments, None) == 0
        assert driver.cuMemcpyDtoH_v2(ctypes.byref(result), memory, ctypes.c_size_t(4)) == 0
        assert driver.cuMemFree_v2(memory) == 0
        assert result.value == 42

def test_cuda_core_still_compiles():
    from cuda.core import Device, Program
    Device().set_current()
    code = Program('extern "C" __global__ void k(int* p) {{ *p = 42; }}', code_type="c++").compile("cubin")
    assert code.code.count(b".visible .entry k(") == 1
    code.get_kernel("k")
"""


@pytest.mark.parametrize("preloaded", [False, True], ids=["alone", "with the preloaded library"])
def test_plugin_replaces_the_libraries_functions_in_its_process(tmp_path: Path, preloaded: bool) -> None:
    (tmp_path / "test_it.py").write_text(textwrap.dedent(IN_PROCESS.format(nvrtc=str(NVRTC), nvjitlink=str(NVJITLINK))))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--cuda-device=cpu", str(tmp_path)]
    if preloaded:
        command = [sys.executable, "-m", "cucore", "run", "--cpu", *command]
    environment = {
        k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "CUCORE_STAND_INS", "LD_LIBRARY_PATH")
    }
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_plugin_without_stand_ins_leaves_the_libraries_alone(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(textwrap.dedent(IN_PROCESS.format(nvrtc=str(NVRTC), nvjitlink=str(NVJITLINK))))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--cuda-device=cpu", str(tmp_path)]
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"} | {
        "CUCORE_STAND_INS": "0",
        "LD_LIBRARY_PATH": str(CPU_DRIVER_FOLDER),
    }
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert "test_cubin_runs" in done.stdout and "1 failed, 1 passed" in done.stdout, done.stdout
