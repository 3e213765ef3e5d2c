# SPDX-License-Identifier: Apache-2.0
"""Error messages and warnings: they name the value, the limit or the allowed values, and what to do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cuda.core import CUDAError, Device, LaunchConfig, NVRTCError, ObjectCode, Program, ProgramOptions, Stream, launch

SOURCE = """
extern "C" __global__ void k(int* p) { extern __shared__ int x[]; x[threadIdx.x] = 1; __syncthreads(); if (p) p[0] = x[0]; }
extern "C" __global__ void __launch_bounds__(64) few(int* p) { *p = 1; }
"""


@pytest.fixture
def refused(device: Device, stream: Stream) -> Callable[..., str]:
    """The message of a launch that the driver refuses."""
    code = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin")
    buffer = device.allocate(64, stream=stream)

    def go(kernel: str = "k", **config: object) -> str:
        with pytest.raises(CUDAError) as caught:
            launch(stream, LaunchConfig(**({"grid": 1, "block": 32} | config)), code.get_kernel(kernel), buffer)
        return str(caught.value)

    return go


def test_a_block_that_is_too_large_names_the_limit(device: Device, refused: Callable[..., str]) -> None:
    text = refused(block=2048)
    assert (
        f"2048 threads, and this device allows {device.properties.max_threads_per_block}" in text and "kernel k" in text
    )
    assert "block.z is 128, and this device allows 64" in refused(block=(1, 1, 128))
    assert "grid.y is 70000, and this device allows 65535" in refused(grid=(1, 70000))


def test_a_block_beyond_the_launch_bounds_names_the_kernels_limit(refused: Callable[..., str]) -> None:
    assert "the block has 128 threads, and this kernel allows 64" in refused("few", block=128)


def test_too_much_shared_memory_names_the_limit_and_the_attribute(device: Device, refused: Callable[..., str]) -> None:
    most = device.properties.max_shared_memory_per_block_optin
    assert f"more than this device has for a block, {most}" in refused(shmem_size=most + 4)
    text = refused(shmem_size=most - 1024)
    assert "more than this kernel may use, 49152" in text and "max_dynamic_shared_size_bytes" in text


@pytest.mark.parametrize("arch", ["sm_12", "hopper"])
def test_an_unknown_arch_lists_those_that_the_compiler_knows(arch: str) -> None:
    with pytest.raises(NVRTCError, match=rf'arch="{arch}": NVRTC \d+\.\d+ knows .*sm_90'):
        Program(SOURCE, "c++", ProgramOptions(arch=arch)).compile("ptx")


@pytest.mark.cpu_only  # the message is the device's
def test_bytes_that_are_no_cubin_are_called_so(device: Device) -> None:
    with pytest.raises(CUDAError, match=r"neither an ELF file \(cubin\), a fatbin nor PTX"):
        ObjectCode.from_cubin(b"garbage that is no code").get_kernel("k")


# ---- in processes of their own

FAULT = """
from cuda.core import CUDAError, Device, LaunchConfig, Program, launch
device = Device(); device.set_current(); stream = device.create_stream()
def message(call):
    try: call()
    except Exception as error: return str(error)
source = 'extern "C" __global__ void {name}(volatile int* p) {{ {body} }}'
kernel = Program(source, "c++").compile("cubin").get_kernel("{name}")
buffer = device.allocate(64, stream=stream); buffer.fill(0, stream=stream)
launch(stream, LaunchConfig(grid=1, block=1), kernel, buffer)
first, later, again = message(stream.sync), message(device.create_stream), message(stream.sync)
"""
BEYOND = FAULT.format(name="beyond", body="p[1000000000] = 1;")


def child(program: str, **variables: str) -> str:
    """What a program prints, with its errors."""
    environment = {**os.environ, "CUCORE_CPU_CACHE": "0", **variables}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_calls_after_a_fault_refer_to_the_first_error() -> None:
    lines = child(BEYOND + "print(first); print('---'); print(later); print('---'); print(again)").split("---")
    assert len(lines) == 3, lines
    first, later, again = lines
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in first and "this context was broken" not in first
    for text in (later, again):
        assert "CUDA_ERROR_ILLEGAL_ADDRESS: this context was broken by" in text
        assert "see the first error, from cuStreamSynchronize" in text
    assert "not by cuStreamCreate" in later


@pytest.mark.cpu_only
def test_a_fault_after_a_reset_is_a_first_error_again() -> None:
    program = BEYOND + (
        "from cuda.bindings import driver; driver.cuDevicePrimaryCtxReset(0); device.set_current()\n"
        "stream = device.create_stream(); buffer = device.allocate(64, stream=stream)\n"
        "launch(stream, LaunchConfig(grid=1, block=1), kernel, buffer); print(message(stream.sync))"
    )
    text = child(program)
    assert "kernel beyond: illegal memory access" in text and "this context was broken" not in text


@pytest.mark.cpu_only
def test_a_kernel_over_the_time_limit_names_the_variable() -> None:
    text = child(FAULT.format(name="spin", body="while (*p == 0);") + "print(first)", CUCORE_CPU_TIMEOUT="0.2")
    assert "kernel spin ran over the time limit of CUCORE_CPU_TIMEOUT" in text


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (
            "CUCORE_CHECK",
            "memroy",
            "CUCORE_CHECK=memroy: expected a list of memory, race, init, sync, leak and continue, or all",
        ),
        ("CUCORE_CPU_DEVICES", "65", 'CUCORE_CPU_DEVICES="65" cannot be read; expected a number from 1 to 64'),
        (
            "CUDA_VISIBLE_DEVICES",
            "5",
            'CUDA_VISIBLE_DEVICES="5" hides every device: unset it, or list different numbers (only 0',
        ),
    ],
)
def test_a_variable_that_cannot_be_read_is_in_the_exception(name: str, value: str, words: str) -> None:
    program = "from cuda.core import Device\ntry: Device()\nexcept RuntimeError as error: print(error)"
    assert words in child(program, **{name: value}).rpartition("Tried:")[2]


NO_NVRTC = """
from cuda.pathfinder import _environment
_environment.site_folders = lambda: []
_environment.refresh()
{imports}
try: {call}
except RuntimeError as error: print(error); print(len(getattr(error, "attempts", [1, 2, 3])))
"""


@pytest.mark.parametrize(
    ("imports", "call"),
    [
        ("from cuda.core import Program", "Program('', 'c++')"),
        ("from cuda.bindings import nvrtc", "nvrtc.nvrtcVersion()"),
        ("from cuda import pathfinder", "pathfinder.load_nvidia_dynamic_lib('nvrtc')"),
    ],
)
def test_a_missing_nvrtc_names_the_command_first(imports: str, call: str, tmp_path: Path) -> None:
    nowhere = {"CUDA_HOME": str(tmp_path), "CUDA_PATH": str(tmp_path), "CONDA_PREFIX": "", "LD_LIBRARY_PATH": ""}
    text = child(NO_NVRTC.format(imports=imports, call=call), **nowhere)
    if not text:
        pytest.skip("NVRTC is on the linker's path here")
    lines = text.splitlines()
    assert 'install it with: pip install "cucore[cu13]"' in lines[0], text
    assert len(lines) == 3 and "cucore info --why nvrtc" in lines[1] and int(lines[2]) > 2


@pytest.mark.cpu_only
def test_a_long_kernel_in_check_mode_says_how_far_it_is() -> None:
    program = FAULT.format(name="long_one", body="for (int i = 0; i < 1000; ++i) atomicAdd((int*)p, i);").replace(
        "grid=1, block=1", "grid=1 << 30, block=32"
    )
    environment = {**os.environ, "CUCORE_CHECK": "memory", "CUCORE_CPU_CACHE": "0"}
    with subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        line = next((line for line in running.stderr if line.startswith("cucore: check: ")), "")
        running.kill()
    found = re.search(r"kernel long_one: (\d+) of 1073741824 blocks \((\d+) %\)", line)
    assert found, line
    assert found[2] == f"{100 * int(found[1]) / 2**30:.0f}", line  # a fast machine is beyond 0 %


# ---- warnings


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    "program",
    [
        "from cuda.core import Device\n\nDevice()\n",
        "from cuda.bindings import driver\n\ndriver.cuInit(0)\n",
        "from cuda.core import Device\n\nDevice.get_all_devices()\n",
    ],
)
def test_the_warning_about_the_cpu_device_points_to_the_users_line(program: str, tmp_path: Path) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has a GPU")
    script = tmp_path / "mine.py"
    script.write_text(program)
    environment = {k: v for k, v in os.environ.items() if k != "CUCORE_DEVICE"}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{script}:3: CucoreWarning: no usable GPU was found" in done.stderr
    lines = 'import warnings\nfrom cucore.warning import CucoreWarning\nwarnings.simplefilter("{}", CucoreWarning)\n'
    for action, status in (("ignore", 0), ("error", 1)):
        script.write_text(lines.format(action) + program)
        done = subprocess.run(
            [sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == status and (status == 1 or done.stderr == ""), done.stderr


def test_a_warning_passes_the_frames_of_our_packages(tmp_path: Path) -> None:
    import warnings

    from cucore.warning import CucoreWarning, warn

    inner = compile("def call(): warn('text')", "ours.py", "exec")
    namespace = {"__name__": "cuda.core.inner", "warn": warn}
    exec(inner, namespace)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        namespace["call"]()
    assert [(w.category, w.filename) for w in caught] == [(CucoreWarning, __file__)]
    assert issubclass(CucoreWarning, RuntimeWarning) and issubclass(CucoreWarning, UserWarning)


# ---- notebooks


def test_devices_streams_and_pools_have_tables_for_notebooks(device: Device, stream: Stream) -> None:
    from xml.etree import ElementTree

    from cuda.core import DeviceMemoryResource, DeviceMemoryResourceOptions, PinnedMemoryResource

    pool = DeviceMemoryResource(device, DeviceMemoryResourceOptions())
    buffer = pool.allocate(4096, stream=stream)
    stream.sync()
    for thing, words in (
        (device, ["Device 0", device.name, "multiprocessors"]),
        (stream, [f"Stream {int(stream.handle):#x}", "done"]),
        (pool, ["DeviceMemoryResource", "4.0 KiB"]),
        (PinnedMemoryResource(), ["PinnedMemoryResource", "used"]),
    ):
        text = "".join(ElementTree.fromstring(thing._repr_html_()).itertext())
        assert [word for word in words if word not in text] == [], text
    buffer.close(stream)
    closed = device.create_stream()
    closed.close()
    assert "closed" in closed._repr_html_()
