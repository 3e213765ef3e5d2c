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
    "rdc": lambda f: build(f, "rdc", ("rdc_main.cu", "rdc_part.cu"), *PTX, "-rdc=true"),
    "rdc_sm_90": lambda f: build(f, "rdc_sm_90", ("rdc_main.cu", "rdc_part.cu"), "-arch=sm_90", "-rdc=true"),
    "static": lambda f: build(f, "static", ("textures.cu",), *PTX, "-cudart", "static"),
    "variables": lambda f: build(f, "variables", ("variables.cu",), *PTX),
    "streams": lambda f: build(f, "streams", ("streams.cu",), *PTX),
    "textures": lambda f: build(f, "textures", ("textures.cu",), *PTX),
    "per_thread": lambda f: build(f, "per_thread", ("per_thread.cu",), *PTX, "--default-stream", "per-thread"),
    "devices": lambda f: build(f, "devices", ("devices.cu",), *PTX),
    "plugin": lambda f: build(f, "plugin.so", ("plugin.cu",), *PTX, "-shared", "-Xcompiler", "-fPIC"),
    "thrust": lambda f: build(f, "thrust", ("thrust.cu",), *PTX),
    "scale": lambda f: build(f, "scale.fatbin", ("scale.cu",), *PTX, "--fatbin"),
}


class Programs:
    """The programs by name. Those that the selected tests have as parameter are compiled next to each other from the
    start, because thrust.cu takes as long as all others together; the rest when a test asks for it."""

    def __init__(self, folder: Path, wanted: set[str]) -> None:
        (folder / "libcudart.so").symlink_to(TOOLKIT / "lib" / "libcudart.so.13")  # the wheel has no name for linking
        self.folder = folder
        self.pool = ThreadPoolExecutor(max_workers=os.cpu_count())
        self.builds: dict[str, Future[Path]] = {}
        for name in sorted(wanted, key=lambda name: name != "thrust"):
            self.submit(name)

    def submit(self, name: str) -> Future[Path]:
        if name not in self.builds:
            self.builds[name] = self.pool.submit(BUILDS[name], self.folder)
        return self.builds[name]

    def __getitem__(self, name: str) -> Path:
        return self.submit(name).result()


@pytest.fixture(scope="session")
def programs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Programs:
    assert NVCC.exists(), "nvcc is missing: pip install -r tools/requirements.txt"
    names = {item.callspec.params.get("name") for item in request.session.items if hasattr(item, "callspec")}
    return Programs(tmp_path_factory.mktemp("nvcc"), {name for name in names if name in BUILDS})


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
def test_nvcc_program_prints_the_expected_output(programs: Programs, name: str) -> None:
    done = run(programs[name])
    check(done, name)
    assert done.stderr == ""


@pytest.mark.parametrize("name", ["rdc", "rdc_sm_90"])
def test_relocatable_code_of_several_files_is_linked(programs: Programs, name: str) -> None:
    check(run(programs[name]), "rdc_main")


@pytest.mark.cpu_only
def test_variables_exist_once_per_device(programs: Programs) -> None:
    command = [sys.executable, "-m", "cucore", "run", "--cpu", "--devices", "2", programs["devices"]]
    check(subprocess.run(command, capture_output=True, text=True), "devices")


def test_library_with_device_code_can_be_loaded_again(programs: Programs) -> None:
    source = (
        "import _ctypes, ctypes, sys\n"
        "for _ in range(2):\n"
        "    plugin = ctypes.CDLL(sys.argv[1])\n"
        "    print(plugin.run_plugin(), plugin.run_plugin())\n"
        "    _ctypes.dlclose(plugin._handle)\n"
    )
    done = run(Path(sys.executable), "-c", source, str(programs["plugin"]))
    assert done.stdout == "41 42\n41 42\n", done.stderr


def test_arch_sm_90_alone_keeps_ptx_in_the_program(programs: Programs) -> None:
    check(run(programs["launch_sm_90"]), "launch")


@pytest.mark.cpu_only
@pytest.mark.parametrize("name", ["launch_rpath", "launch_runpath"])
def test_program_with_a_path_to_nvidias_runtime_gets_ours(programs: Programs, name: str) -> None:
    check(run(programs[name]), "launch")


@pytest.mark.cpu_only
def test_program_with_machine_code_only_says_which_option_adds_ptx(programs: Programs) -> None:
    done = run(programs["cubin_only"])
    assert done.returncode == 1
    assert "no kernel image is available" in done.stdout
    assert "machine code for GPUs only" in done.stderr and "-gencode arch=compute_90,code=compute_90" in done.stderr


@pytest.mark.cpu_only
def test_program_with_the_static_runtime_says_how_to_link_it(programs: Programs) -> None:
    done = run(programs["static"])
    assert done.returncode == 1 and "operation not supported" in done.stdout
    assert "nvcc -cudart shared" in done.stderr


def test_program_of_cuda_12_gets_its_own_signatures_and_structs(programs: Programs, tmp_path: Path) -> None:
    program = tmp_path / "version12"
    library = f"-l:libcudart.so.12 -L{cucore.CUDART_FOLDER} -Wl,-rpath-link,{cucore.LIBRARY_FOLDER}"
    subprocess.run(["c++", "-std=c++17", PROGRAMS / "version12.cpp", "-o", program, *library.split()], check=True)
    check(run(program, str(programs["scale"])), "version12")


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
