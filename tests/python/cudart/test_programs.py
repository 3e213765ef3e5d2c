# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ programs built by nvcc with the shared runtime, run with our libcudart: their output is the expected one.

nvcc comes from the wheels of tools/requirements.txt. On the CPU device the programs run under `cucore run --cpu`; on a
GPU they load our library, too, which then uses NVIDIA's driver.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import cucore
import pytest

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"
TOOLKIT = Path(sysconfig.get_path("purelib")) / "nvidia" / "cu13"
NVCC = TOOLKIT / "bin" / "nvcc"
IS_GPU = os.environ.get("CUCORE_DEVICE") == "gpu"
PTX = ("-gencode", "arch=compute_90,code=compute_90")

pytestmark = pytest.mark.skipif(
    not NVCC.exists()
    and (IS_GPU or (sys.platform, platform.machine()) not in {("linux", "x86_64"), ("linux", "aarch64")}),
    reason="no wheel of nvcc for this platform, or none installed on this GPU machine",
)


def build(folder: Path, name: str, sources: tuple[str, ...], *options: str) -> Path:
    program = folder / name
    runtime = [] if "-cudart" in options else ["-cudart", "shared"]
    command = [NVCC, "-std=c++17", *runtime, f"-L{folder}", *options, "-o", program]
    command += [PROGRAMS / source for source in sources]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return program


BUILDS: dict[str, Callable[[Path], Path]] = {
    "launch": lambda f: build(f, "launch", ("launch.cu",), *PTX),
    "launch_sm_90": lambda f: build(f, "launch_sm_90", ("launch.cu",), "-arch=sm_90"),
    "launch_rpath": lambda f: build(
        f, "launch_rpath", ("launch.cu",), *PTX, "-Xlinker", f"-rpath={TOOLKIT / 'lib'},--disable-new-dtags"
    ),
    "launch_runpath": lambda f: build(
        f, "launch_runpath", ("launch.cu",), *PTX, "-Xlinker", f"-rpath={TOOLKIT / 'lib'},--enable-new-dtags"
    ),
    "cubin_only": lambda f: build(f, "cubin_only", ("launch.cu",), "-gencode", "arch=compute_90,code=sm_90"),
    "static": lambda f: build(f, "static", ("textures.cu",), *PTX, "-cudart", "static"),
    "variables": lambda f: build(f, "variables", ("variables.cu",), *PTX),
    "streams": lambda f: build(f, "streams", ("streams.cu",), *PTX),
    "textures": lambda f: build(f, "textures", ("textures.cu",), *PTX),
    "per_thread": lambda f: build(f, "per_thread", ("per_thread.cu",), *PTX, "--default-stream", "per-thread"),
    "thrust": lambda f: build(f, "thrust", ("thrust.cu",), *PTX),
    "scale": lambda f: build(f, "scale.fatbin", ("scale.cu",), *PTX, "--fatbin"),
}


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Future[Path]]:
    """All programs, being compiled next to each other: thrust.cu takes as long as the others together."""
    assert NVCC.exists(), "nvcc is missing: pip install -r tools/requirements.txt"
    folder = tmp_path_factory.mktemp("nvcc")
    (folder / "libcudart.so").symlink_to(TOOLKIT / "lib" / "libcudart.so.13")  # the wheel has no name for linking
    pool = ThreadPoolExecutor(max_workers=os.cpu_count())
    longest_first = sorted(BUILDS, key=lambda name: name != "thrust")
    return {name: pool.submit(BUILDS[name], folder) for name in longest_first}


def run(program: Path, *arguments: str, cudart: int | None = None) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ)
    options = ["--gpu" if IS_GPU else "--cpu", *(["--cudart", str(cudart)] if cudart else [])]
    if IS_GPU:  # the command leaves the library path alone
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(
            filter(None, [str(cucore.CUDART_FOLDER), environment.get("LD_LIBRARY_PATH")])
        )
    command = [sys.executable, "-m", "cucore", "run", *options, str(program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def check(done: subprocess.CompletedProcess[str], expected: str) -> None:
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == (PROGRAMS / f"{expected}.txt").read_text(), done.stderr


@pytest.mark.parametrize("name", ["launch", "variables", "streams", "textures", "per_thread", "thrust"])
def test_nvcc_program_prints_the_expected_output(programs: dict[str, Future[Path]], name: str) -> None:
    done = run(programs[name].result())
    check(done, name)
    assert done.stderr == ""


def test_arch_sm_90_alone_keeps_ptx_in_the_program(programs: dict[str, Future[Path]]) -> None:
    check(run(programs["launch_sm_90"].result()), "launch")


@pytest.mark.cpu_only
@pytest.mark.parametrize("name", ["launch_rpath", "launch_runpath"])
def test_program_with_a_path_to_nvidias_runtime_gets_ours(programs: dict[str, Future[Path]], name: str) -> None:
    check(run(programs[name].result()), "launch")


@pytest.mark.cpu_only
def test_program_with_machine_code_only_says_which_option_adds_ptx(programs: dict[str, Future[Path]]) -> None:
    done = run(programs["cubin_only"].result())
    assert done.returncode == 1
    assert "no kernel image is available" in done.stdout
    assert "machine code for GPUs only" in done.stderr and "-gencode arch=compute_90,code=compute_90" in done.stderr


@pytest.mark.cpu_only
def test_program_with_the_static_runtime_says_how_to_link_it(programs: dict[str, Future[Path]]) -> None:
    done = run(programs["static"].result())
    assert done.returncode == 1 and "operation not supported" in done.stdout
    assert "nvcc -cudart shared" in done.stderr


def test_program_of_cuda_12_gets_its_own_signatures_and_structs(
    programs: dict[str, Future[Path]], tmp_path: Path
) -> None:
    program = tmp_path / "version12"
    library = f"-l:libcudart.so.12 -L{cucore.CUDART_FOLDER} -Wl,-rpath-link,{cucore.LIBRARY_FOLDER}"
    subprocess.run(["c++", "-std=c++17", PROGRAMS / "version12.cpp", "-o", program, *library.split()], check=True)
    check(run(program, str(programs["scale"].result())), "version12")


@pytest.mark.cpu_only
def test_option_cudart_preloads_that_version() -> None:
    source = (
        "import ctypes; n = ctypes.c_int(); ctypes.CDLL(None).cudaRuntimeGetVersion(ctypes.byref(n)); print(n.value)"
    )
    command = [sys.executable, "-m", "cucore", "run", "--cpu", "--cudart", "12", sys.executable, "-c", source]
    assert subprocess.check_output(command, text=True) == "12090\n"


@pytest.mark.parametrize("major", [12, 13])
def test_library_exports_the_symbols_and_versions_of_nvidias(major: int) -> None:
    name = f"libcudart.so.{major}"
    path = cucore.CUDART_FOLDER / name
    table = subprocess.check_output(["readelf", "--dyn-syms", "--wide", path], text=True)
    exported = {m[1] for m in re.finditer(rf" FUNC +GLOBAL +DEFAULT +\d+ (\w+)@@{re.escape(name)}$", table, re.M)}
    defined = {m[1] for m in re.finditer(r" FUNC +(?:GLOBAL|WEAK) +DEFAULT +\d+ ([\w@.]+)$", table, re.M)}
    assert exported == set((HERE / f"cudart{major}.txt").read_text().split())
    assert len(defined) == len(exported)  # nothing without a version
    assert f"soname: [{name}]" in subprocess.check_output(["readelf", "--dynamic", path], text=True)
