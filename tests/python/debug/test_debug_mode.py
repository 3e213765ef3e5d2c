# SPDX-License-Identifier: Apache-2.0
"""Debug mode without a debugger: same results, code that debuggers are told of, and nothing when it is off."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.cpu_only,
    pytest.mark.skipif(os.environ.get("CUCORE_DEVICE") == "gpu", reason="about the CPU device alone"),
]

BEGIN = """
import ctypes, gc, os, sys
import numpy as np
from cuda.core import Device, LaunchConfig, LegacyPinnedMemoryResource, ObjectCode, Program, ProgramOptions, launch
device = Device(); device.set_current(); stream = device.create_stream()
memory = LegacyPinnedMemoryResource()
class Entry(ctypes.Structure): pass
Entry._fields_ = [("next", ctypes.POINTER(Entry)), ("previous", ctypes.c_void_p), ("data", ctypes.c_void_p), ("size", ctypes.c_uint64)]
class Descriptor(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("action", ctypes.c_uint32), ("entry", ctypes.c_void_p), ("first", ctypes.POINTER(Entry))]
import cucore
library = ctypes.CDLL(str(cucore.CPU_DRIVER_FOLDER / "libcuda.so.1"))
def registered():
    entry, found = Descriptor.in_dll(library, "__jit_debug_descriptor").first, []
    while entry:
        found.append(ctypes.string_at(entry.contents.data, entry.contents.size)); entry = entry.contents.next
    return found
def build(source, name="k", **options):
    return Program(source, "c++", ProgramOptions(name="test.cu", **options)).compile("ptx").get_kernel(name)
def run(kernel, count, *arguments, grid=1, block=32, shared=0):
    buffer = memory.allocate(4 * count); values = np.from_dlpack(buffer).view(np.int32); values[:] = 0
    launch(stream, LaunchConfig(grid=grid, block=block, shmem_size=shared), kernel, buffer, *arguments); stream.sync()
    return values.copy()
"""


def child(code: str, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "CUCORE_DEVICE": "cpu",
            "XDG_CACHE_HOME": str(folder),
            "CUCORE_CPU_REPORT": "1",
            "CUCORE_CPU_STRICT": "1",
            **environment,
        },
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


KERNELS = {
    "a thread waits for another": (
        """
        __shared__ volatile int flag;
        if (threadIdx.x == 0) flag = 0;
        __syncthreads();
        if (threadIdx.x == 0) { while (flag == 0) {} out[0] = flag; }
        if (threadIdx.x == 31) flag = 7;
        """,
        [7],
    ),
    "a block waits for a later one": (
        """
        if (threadIdx.x) return;
        volatile int* flag = out + 1;
        if (blockIdx.x == 0) { int seen; do { seen = *flag; } while (seen != 3); out[0] = seen; }
        if (blockIdx.x == 2) *flag = 3;
        """,
        [3],
    ),
    "recursion": ("out[threadIdx.x] = factorial(threadIdx.x % 6 + 1);", [1, 2, 6, 24, 120, 720, 1]),
    "a barrier in a function that is not inlined": (
        "__shared__ int tile[32]; exchange(tile, threadIdx.x); out[threadIdx.x] = tile[31 - threadIdx.x];",
        [31, 30, 29],
    ),
    "warp operations": (
        "int v = threadIdx.x; for (int d = 16; d; d /= 2) v += __shfl_down_sync(~0u, v, d); out[threadIdx.x] = v;",
        [496],
    ),
    "dynamic shared memory and atomics": (
        "dynamic[threadIdx.x] = 1; __syncthreads(); atomicAdd(out, dynamic[31 - threadIdx.x]);",
        [96],
    ),
    "local arrays, structures and function pointers": (
        """
        struct { short a; double b[2]; } s = {short(threadIdx.x), {1.5, 2.5}};
        int (*f)(int) = threadIdx.x % 2 ? factorial : twice;
        out[threadIdx.x] = int(s.b[threadIdx.x % 2] * 2) + s.a + f(3);
        """,
        [9, 12, 11],
    ),
    "printf and a divergent loop": (
        'int sum = 0; for (int k = 0; k < threadIdx.x; ++k) sum += k; out[threadIdx.x] = sum; if (threadIdx.x == 3) printf("three\\\\n");',
        [0, 0, 1, 3, 6, 10],
    ),
}
FUNCTIONS = """
extern __shared__ int dynamic[];
__device__ __noinline__ int factorial(int n) { return n < 2 ? 1 : n * factorial(n - 1); }
__device__ __noinline__ int twice(int n) { return 2 * n; }
__device__ __noinline__ void exchange(int* tile, int v) { tile[v] = v; __syncthreads(); }
"""


@pytest.mark.parametrize("case", KERNELS)
def test_kernel_has_the_same_result_in_debug_mode(case: str, tmp_path: Path) -> None:
    body, expected = KERNELS[case]
    source = f'{FUNCTIONS}\nextern "C" __global__ void k(int* out) {{ {body} }}'
    code = f"""
    values = run(build({source!r}), 64, grid=3, shared=256)
    assert values[:{len(expected)}].tolist() == {expected}, values
    """
    assert "debug mode" in child(code, tmp_path, CUCORE_DEBUG="1")
    assert "debug mode" not in child(code, tmp_path)


def test_debuggers_know_code_until_its_module_is_unloaded(tmp_path: Path) -> None:
    code = """
    kernel = build('extern "C" __global__ void k(int* out) { int mine = threadIdx.x; out[mine] = mine; }', debug=True)
    assert registered() == []
    assert run(kernel, 32).tolist() == list(range(32))
    (object,) = registered()
    assert object[:4] == b"\\x7fELF" and b"mine" in object and b"test.cu" in object
    del kernel; gc.collect(); device.sync()
    print("left", len(registered()))
    """
    assert "left 0" in child(code, tmp_path)


def test_without_debug_mode_nothing_is_registered(tmp_path: Path) -> None:
    code = """
    source = 'extern "C" __global__ void k(int* out) { out[threadIdx.x] = 1; }'
    run(build(source), 32)
    run(build(source, lineinfo=True), 32)
    assert registered() == []
    """
    assert "debug mode" not in child(code, tmp_path)


def test_cucore_debug_0_runs_debug_code_optimized(tmp_path: Path) -> None:
    code = """
    kernel = build('extern "C" __global__ void k(int* out) { out[threadIdx.x] = 1; }', debug=True)
    run(kernel, 32)
    print("registered", len(registered()))
    """
    assert re.search("debug mode(.|\n)*registered 1|registered 1(.|\n)*debug mode", child(code, tmp_path))
    off = child(code, tmp_path, CUCORE_DEBUG="0")
    assert "registered 0" in off and "debug mode" not in off


def test_cached_debug_code_is_not_used_without_debug_mode(tmp_path: Path) -> None:
    code = """
    ptx = Program('extern "C" __global__ void k(int* out) { out[threadIdx.x] = 1; }', "c++", ProgramOptions(lineinfo=True, debug=False)).compile("ptx")
    run(ptx.get_kernel("k"), 32)
    print("registered", len(registered()))
    """
    assert "registered 1" in child(code, tmp_path, CUCORE_DEBUG="1")
    assert "registered 0" in child(code, tmp_path)
    assert "registered 1" in child(code, tmp_path, CUCORE_DEBUG="1")


def test_unknown_value_is_an_error_that_names_the_variable(tmp_path: Path) -> None:
    code = """
    try:
        run(build('extern "C" __global__ void k(int* out) {}'), 1)
    except Exception as error:
        print(error)
    """
    assert "CUCORE_DEBUG=maybe: expected 0 or 1" in child(code, tmp_path, CUCORE_DEBUG="maybe")


def test_fault_in_debug_mode_names_line_and_thread(tmp_path: Path) -> None:
    code = """
    try:
        run(build('extern "C" __global__ void k(int* out) {\\n  if (threadIdx.x == 5)\\n    *(int*)8 = 1;\\n}'), 1)
    except Exception as error:
        print(error)
    """
    text = child(code, tmp_path, CUCORE_DEBUG="1")
    assert "test.cu:3" in text and "thread (5, 0, 0)" in text


def test_time_limit_works_without_a_debugger(tmp_path: Path) -> None:
    code = """
    try:
        run(build('extern "C" __global__ void k(volatile int* out) { while (!out[0]) {} }'), 1)
    except Exception as error:
        print(error)
    """
    assert "702" in child(code, tmp_path, CUCORE_DEBUG="1", CUCORE_CPU_TIMEOUT="0.3") or "LAUNCH_TIMEOUT" in child(
        code, tmp_path, CUCORE_DEBUG="1", CUCORE_CPU_TIMEOUT="0.3"
    )


def test_source_of_a_program_is_written_for_debuggers(tmp_path: Path) -> None:
    code = """
    source = '// mine\\nextern "C" __global__ void k(int* out) {}'
    text = Program(source, "c++", ProgramOptions(name="named.cu")).compile("ptx").code.decode()
    print(text[text.index(".file"):].splitlines()[0])
    """
    found = re.search(r'\.file\s+1 "(.*)"', child(code, tmp_path, CUCORE_DEBUG="1"))
    assert found is not None
    written = Path(found[1])
    assert written.name == "named.cu" and written.read_text().startswith("// mine\n")
    assert tmp_path in written.parents


@pytest.mark.parametrize("damage", ["truncate", "zeros", "noise"])
def test_damaged_debug_information_does_not_stop_the_kernel(damage: str, tmp_path: Path) -> None:
    code = f"""
    import random, re
    source = 'struct S {{ int a, b; }}; extern "C" __global__ void k(int* out) {{ S s = {{1, 2}}; for (int i = 0; i < 4; ++i) s.a += i; out[0] = s.a + s.b; }}'
    ptx = Program(source, "c++", ProgramOptions(debug=True)).compile("ptx").code.decode().rstrip("\\0")
    head, _, tail = ptx.partition("\\t.section")
    numbers = list(re.finditer(r"^\\.b8 (\\d+)$", tail, re.M))
    for seed in range(12):
        random.seed(seed)
        chosen = random.sample(numbers, len(numbers) // 8)
        damaged = tail
        for at in sorted(chosen, key=lambda m: -m.start()):
            new = {{"truncate": "", "zeros": ".b8 0", "noise": f".b8 {{random.randrange(256)}}"}}[{damage!r}]
            damaged = damaged[:at.start()] + new + damaged[at.end():]
        kernel = ObjectCode.from_ptx((head + "\\t.section" + damaged).encode()).get_kernel("k")
        assert run(kernel, 1).tolist() == [9]
    print("all ran")
    """
    assert "all ran" in child(code, tmp_path)
