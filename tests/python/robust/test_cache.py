# SPDX-License-Identifier: Apache-2.0
"""Damaged program caches, invalid environment variables, and libraries in the working directory."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cuda.core.utils import FileStreamProgramCache

SOURCE = 'extern "C" __global__ void k(int* p) { *p = 41 + 1; }'


@pytest.mark.promise(
    "Cache folders are private to their owner, links are not followed, and folders of other owners are refused"
)
def test_cache_is_private_to_its_owner_with_umask_zero(tmp_path):
    before = os.umask(0)
    try:
        cache = FileStreamProgramCache(tmp_path / "cache")
        cache["a"] = b"code"
    finally:
        os.umask(before)
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in (tmp_path / "cache").iterdir())


@pytest.mark.promise(
    "Cache folders are private to their owner, links are not followed, and folders of other owners are refused"
)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another owner")
def test_cache_folder_of_another_owner_raises(tmp_path):
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    os.chown(folder, 12345, 12345)
    with pytest.raises(RuntimeError, match="belongs to another user"):
        FileStreamProgramCache(folder)
    cache = FileStreamProgramCache(tmp_path / "mine")
    cache["a"] = b"code"
    (entry,) = (tmp_path / "mine").iterdir()
    os.chown(entry, 12345, 12345)
    assert cache.get("a") is None


RUN = """
import sys
from cuda.core import Device, LaunchConfig, ObjectCode, launch
device = Device(0); device.set_current(); stream = device.create_stream()
PTX = ".version 8.0\\n.target sm_80\\n.address_size 64\\n.visible .entry k(.param .u64 p) {\\n.reg .b64 %rd<2>;\\nld.param.u64 %rd1, [p];\\nst.global.u32 [%rd1], NUMBER;\\nret;\\n}\\n"
b = device.allocate(4, stream=stream)
launch(stream, LaunchConfig(grid=1, block=1), ObjectCode.from_ptx(PTX.replace("NUMBER", sys.argv[1]).encode()).get_kernel("k"), b)
out = bytearray(4); b.copy_to(out, stream=stream); print(int.from_bytes(out, "little"))
"""


def run(folder, number):
    environment = os.environ | {"CUCORE_CACHE_DIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", RUN, str(number)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def entries(folder):
    return sorted(folder.rglob("*.o"))


@pytest.mark.cpu_only
@pytest.mark.promise("A damaged, truncated or swapped cache entry is compiled again, never run")
def test_damaged_or_swapped_cache_entry_is_compiled_again(tmp_path):
    """The machine code cache of the CPU device never runs swapped, changed or truncated entries."""
    folder = tmp_path / "cache"
    assert run(folder, 1) == 1
    first = entries(folder)
    assert first, "the CPU device caches what it compiles"
    assert all(path.stat().st_mode & 0o077 == 0 for path in [folder, *folder.rglob("*")])
    assert run(folder, 2) == 2
    (second,) = set(entries(folder)) - set(first)
    shutil.copy(first[0], second)  # replaces the entry of one kernel with that of another
    assert run(folder, 2) == 2
    data = bytearray(second.read_bytes())
    for change in ("flip", "cut", "empty"):
        changed = bytearray(data)
        if change == "flip":
            changed[len(changed) // 2] ^= 1
        second.write_bytes(b"" if change == "empty" else changed[:-7] if change == "cut" else changed)
        assert run(folder, 2) == 2
    target = tmp_path / "elsewhere"
    target.write_bytes(first[0].read_bytes())
    second.unlink()
    second.symlink_to(target)
    assert run(folder, 2) == 2
    os.chmod(folder, 0o777)
    assert run(folder, 3) == 3  # works without the cache


TWO_KERNELS = r"""
import numpy as np
from cuda.core import Device, LaunchConfig, ObjectCode, launch
device = Device(0); device.set_current(); stream = device.create_stream()
PTX = '''.version 8.0
.target sm_80
.address_size 64
.func (.param .b32 r) twice(.param .b32 x) { .reg .b32 %a; ld.param.b32 %a, [x]; add.u32 %a, %a, %a; st.param.b32 [r], %a; ret; }
.visible .entry plain(.param .u64 p) { .reg .b32 %t; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [p]; mov.u32 %t, %tid.x; mad.wide.u32 %rd1, %t, 4, %rd1; st.global.u32 [%rd1], %t; ret; }
.visible .entry pointed(.param .u64 p) { .reg .b32 %t; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [p]; mov.u32 %t, %tid.x; mad.wide.u32 %rd1, %t, 4, %rd1; mov.u64 %rd2, twice;
  proto: .callprototype (.param .b32 _) _ (.param .b32 _);
  { .param .b32 x; .param .b32 r; st.param.b32 [x], %t; call (r), %rd2, (x), proto; ld.param.b32 %t, [r]; }
  st.global.u32 [%rd1], %t; ret; }
'''
code = ObjectCode.from_ptx(PTX.encode())
b = device.allocate(256, stream=stream)
out = np.zeros(64, np.uint32)
for name, factor in (("plain", 1), ("pointed", 2)):
    launch(stream, LaunchConfig(grid=1, block=64), code.get_kernel(name), b)
    b.copy_to(out, stream=stream); stream.sync()
    assert out.tolist() == [factor * i for i in range(64)]
"""


@pytest.mark.cpu_only
def test_second_run_of_a_program_loads_all_code_from_the_cache(tmp_path):
    environment = os.environ | {"CUCORE_CACHE_DIR": str(tmp_path / "cache"), "CUCORE_CPU_REPORT": "1"}
    reports = []
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", TWO_KERNELS], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        reports.append([line for line in done.stderr.splitlines() if "cucore" in line])
    first, second = reports
    assert any("vector: " in line for line in first) and any("scalar, " in line for line in first), first
    assert any("address-taken functions: compiled" in line for line in first), first
    assert len(second) >= 3 and all(line.endswith("from the cache on disk") for line in second), second


@pytest.mark.promise("Processes can use one cache folder concurrently")
def test_concurrent_processes_share_one_cache_folder(tmp_path):
    command = [sys.executable, "-c", f"""
from cuda.core import Program, ProgramOptions
from cuda.core.utils import FileStreamProgramCache
cache = FileStreamProgramCache({str(tmp_path / "cache")!r})
codes = {{Program({SOURCE!r}, "c++", ProgramOptions(arch="sm_90")).compile("ptx", cache=cache).code for _ in range(20)}}
assert len(codes) == 1 and b"42" in codes.pop()
"""]  # fmt: skip
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(6)]
    for process in processes:
        assert (process.communicate()[1], process.returncode) == ("", 0)
    assert len(list((tmp_path / "cache").iterdir())) == 1


UNREADABLE = {
    "CUCORE_DEVICE": ("tpu", "CPU", "cpu,gpu"),
    "CUCORE_CPU_DEVICES": ("many", "0", "65", "1.5", "99999999999999999999"),
    "CUCORE_CPU_ARCH": ("13.0", "9", "sm_90a", "9.0,12.0", ","),
    "CUCORE_CPU_FEATURES": ("avx512f", "-", "-no_such_feature"),
    "CUCORE_CPU_THREADS": ("-1", "0", "two", "4097"),
    "CUCORE_CPU_MEMORY": ("lots", "-4G", "4X", "1K", "nan", "1e30"),
    "CUCORE_CPU_TIMEOUT": ("soon", "-1", "nan", "inf", "5s"),
    "CUCORE_CPU_W": ("7", "0", "-4", "wide", "18446744073709551620"),
    "CUCORE_CPU_DUMP": ("everything", "ptx,,asm", ",", "after:magic"),
    "CUCORE_CPU_CACHE": ("maybe", "2"),
    "CUCORE_CPU_SCHEDULE": ("7", "seed:", "seed:-1", "keep:p0.0.0.0"),
    "CUCORE_DEBUG": ("yes", "2"),
    "CUCORE_CPU_REPORT": ("yes please",),
    "CUCORE_CPU_STRICT": ("very",),
    "CUCORE_CPU_NAN": ("payload",),
    "CUCORE_CPU_QUICK": ("soon", "2"),
    "CUCORE_CPU_TIER": ("best", "quick"),
    "CUCORE_CPU_TIMES": ("often",),
    "CUCORE_CACHE_SIZE": ("-3", "big", "nan", "1e300"),
    "CUCORE_CPU_LIBRARY": ("relative/path.so", "/no/such/library.so", "/proc/self/maps"),
    "CUCORE_CHECK": ("everything and more", "continue"),
    "CUCORE_CHECK_SUPPRESS": ("k", "speed:k", "race"),
}
ANYTHING = {
    "CUCORE_CACHE_DIR",
    "CUCORE_COVERAGE",
    "CUCORE_CPU_DUMP_DIR",
    "CUCORE_SITE_PACKAGES",
    "CUCORE_TRACE",
}  # any text is a valid path
OF_COMPILERS = {"CUCORE_COMPILE_CACHE"}  # tests/python/core/test_compile_cache.py
SWITCHES = {"CUCORE_LEAK_WARNINGS", "CUCORE_STAND_INS"}  # any value is valid
OF_CUCORE_RUN = {"CUCORE_PTXAS", "CUCORE_RUN_PYTHON"}  # set for the programs that it starts


def variables_read() -> set[str]:
    """Names of all environment variables that the sources read."""
    root = Path(__file__).resolve().parents[3]
    files = [path for folder in ("cpu", "src", "include") for path in (root / folder).rglob("*.[ch]pp")]
    files += (root / "python").rglob("*.py")
    return {name for path in files for name in re.findall(r"""["'](CUCORE_[A-Z_]+)["']""", path.read_text())}


@pytest.mark.cpu_only
@pytest.mark.promise("An invalid setting is an error that names the variable and the accepted values")
@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in UNREADABLE.items() for value in values])
def test_invalid_environment_variable_raises_an_error_that_names_it(name, value):
    done = subprocess.run(
        [sys.executable, "-c", RUN, "1"], env=os.environ | {name: value}, capture_output=True, text=True
    )
    assert done.returncode == 1 and "Traceback" in done.stderr
    assert name in done.stderr and value in done.stderr
    assert re.search("expected |must be |No such file|invalid ELF", done.stderr), done.stderr


@pytest.mark.cpu_only
@pytest.mark.promise("An invalid setting is an error that names the variable and the accepted values")
def test_every_environment_variable_of_the_sources_is_tested():
    assert variables_read() == set(UNREADABLE) | ANYTHING | OF_COMPILERS | SWITCHES | OF_CUCORE_RUN


@pytest.mark.cpu_only
@pytest.mark.promise("No library is loaded from the working directory")
def test_library_in_the_working_directory_is_not_loaded(tmp_path):
    plant = tmp_path / "plant.c"
    plant.write_text(
        '#include <unistd.h>\n__attribute__((constructor)) static void f() { write(2, "PWNED", 5); }\nint cuInit() { return 0; }'
    )
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    for name in (
        "libcuda.so.1",
        "libcuda.so",
        "libcucore_cpu.so",
        "libnvrtc.so.13",
        "libnvrtc.so",
        "libnvJitLink.so.13",
    ):
        subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / name, plant], check=True)
    program = "import warnings; warnings.simplefilter('ignore')\n" + RUN
    for variable, value in (
        ("LD_LIBRARY_PATH", ""),
        ("LD_LIBRARY_PATH", ":"),
        ("LD_LIBRARY_PATH", "."),
        ("LD_LIBRARY_PATH", "::/usr/lib"),
    ):
        for device in ("auto", "cpu"):
            before = os.environ.get(variable)  # LLVM may be installed there
            environment = os.environ | {variable: f"{value}:{before}" if before else value, "CUCORE_DEVICE": device}
            done = subprocess.run(
                [sys.executable, "-c", program, "5"], env=environment, cwd=tmp_path, capture_output=True, text=True
            )
            assert (done.returncode, done.stdout, done.stderr) == (0, "5\n", ""), (value, device)


PLANT = """
#include <unistd.h>
__attribute__((constructor)) static void run() { if (write(2, "PWNED", 5) < 0) {} }
int cuInit() { return 0; }
int cuDeviceGetCount(int* n) { *n = 0; return 0; }
"""
COMPILE = """
import os, warnings
warnings.simplefilter("ignore")
os.environ.pop("LD_LIBRARY_PATH") if {forget} else None  # the linker has read it before
if {bindings}:
    from cuda.bindings import nvrtc
    program = nvrtc.nvrtcCreateProgram(b"__global__ void k() {{}}", b"k.cu", 0, [], [])[1]
    assert nvrtc.nvrtcCompileProgram(program, 1, [b"-arch=sm_90"])[0] == 0
else:
    from cuda.core import *
    Program('extern "C" __global__ void k() {{}}', "c++", ProgramOptions(arch="sm_90")).compile("cubin").get_kernel("k")
    Device(0).set_current()
    Device(0).create_stream().sync()
print("done")
"""


@pytest.mark.cpu_only
@pytest.mark.promise("No library is loaded from the working directory")
@pytest.mark.parametrize("bindings", [False, True])
@pytest.mark.parametrize(("path", "device", "forget"), [
    ("{folder}", "cpu", False), (":/nowhere", "cpu", False), ("", "auto", False), (":/nowhere", "auto", False),
    (".", "auto", True), (":/nowhere", "auto", True),
])  # fmt: skip
def test_driver_in_the_working_directory_is_not_loaded_by_nvrtc(tmp_path, path, device, forget, bindings):
    """NVRTC loads libcuda.so.1 by name: it gets the CPU device if that is selected, never a file in the working directory."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    (tmp_path / "plant.c").write_text(PLANT)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "libcuda.so.1", tmp_path / "plant.c"], check=True)
    before, path = os.environ.get("LD_LIBRARY_PATH"), path.format(folder=tmp_path)
    environment = os.environ | {"LD_LIBRARY_PATH": f"{path}:{before}" if before else path, "CUCORE_DEVICE": device}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE.format(forget=forget, bindings=bindings)],
        env=environment, cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


@pytest.mark.cpu_only
@pytest.mark.promise("The CPU device is used by choice or with a warning that says so")
def test_fallback_to_the_cpu_device_warns(child):
    status, out, err = child.run(
        "import warnings; warnings.simplefilter('always')\nprint(Device(0).name)", CUCORE_DEVICE="auto"
    )
    assert status == 0
    assert ("CPU device" not in out) or ("CPU device" in err and "CUCORE_DEVICE=cpu" in err)
    assert "CPU device" in child.ok("print(Device(0).name)", CUCORE_DEVICE="cpu")
