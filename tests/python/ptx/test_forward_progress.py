# SPDX-License-Identifier: Apache-2.0
"""Blocks that wait for each other, for the host or for another kernel make progress, and an endless wait can be ended.

Every kind of wait runs in a separate process, so that a hang is an error of one test.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from ptxsuite.nvrtc import compile_ptx, skip_module_without_nvrtc

skip_module_without_nvrtc()

ON_GPU = os.environ.get("CUCORE_DEVICE", "cpu") == "gpu"
cpu_only = pytest.mark.skipif(ON_GPU, reason="about the CPU device alone")
TIMEOUT = 702

# Ways to read a flag.
LOOKS = {
    "volatile": "((volatile int*)flag)[{}]",
    "plain": "flag[{}]",
    "ldcg": "__ldcg(&flag[{}])",
    "ldcv": "__ldcv(&flag[{}])",
    "acquire": "acquire(&flag[{}])",
    "relaxed": "relaxed(&flag[{}])",
    "add": "atomicAdd(&flag[{}], 0)",
    "or": "atomicOr(&flag[{}], 0)",
    "compare": "atomicCAS(&flag[{}], 1, 1)",
    "exchange": "atomicExch(&flag[{}], 0)",  # consumes the value: for a single thread
    "function": "look(&flag[{}])",
}
# Ways to wait: END is true in the first block, LOOK reads the flag, SET releases the next block.
WAITS = {
    "flag_then_barrier": "bool done = false; while (!done) { if (END || LOOK) { SET; done = true; } __syncthreads(); }",
    "two_barriers": "bool done = false; while (!done) { __syncthreads(); if (END || LOOK) { SET; done = true; } __syncthreads(); }",
    "flag_then_fence": "bool done = false; while (!done) { if (END || LOOK) { SET; done = true; } __threadfence(); }",
    "flag": "bool done = false; while (!done) { if (END || LOOK) { SET; done = true; } }",
    "count": "int left = 3; while (left > 0) { if (END || LOOK) { SET; left -= 1; } __syncthreads(); }",
    "break": "for (;;) { bool go = END || LOOK; __syncthreads(); if (go) { SET; break; } }",
    "loop": "if (!(END)) while (!(LOOK)) {} __syncthreads(); SET;",
    "one_thread": "if (threadIdx.x == 0 && !(END)) while (!(LOOK)) {} __syncthreads(); SET;",
    "one_thread_and_fence": "if (threadIdx.x == 0) { bool done = END; while (!done) { if (LOOK) done = true; __threadfence(); } } __syncthreads(); SET;",
    "sleep": "if (threadIdx.x == 0 && !(END)) while (!(LOOK)) __nanosleep(100); __syncthreads(); SET;",
    "one_thread_tells": "__shared__ int go; for (;;) { if (threadIdx.x == 0) go = END || LOOK; __syncthreads(); int g = go; __syncthreads(); if (g) break; } SET;",
    "any_thread": "while (!__syncthreads_or(END || LOOK)) {} SET;",
    "all_threads": "while (!__syncthreads_and(END || LOOK)) {} SET;",
    "goto": "unsigned n = 0; if (END) goto done; if (blockIdx.x & 1) goto middle; top: n += 1; if (LOOK) goto done; "
    "middle: n += 3; if (!(LOOK)) goto top; done: __syncthreads(); if (n != 77777777u) SET;",
    "nested": "for (int i = 0; i < 3; ++i) { bool done = false; while (!done) { if (END || LOOK) done = true; __syncthreads(); } } SET;",
}
ORDERS = {"next": "blockIdx.x + 1", "previous": "blockIdx.x - 1"}
ONE_THREAD = {"one_thread", "one_thread_and_fence", "sleep", "one_thread_tells"}
# Compilers reload plain memory at barriers and fences; a GPU's L1 cache may still return stale values.
WITHOUT_ORDER = {"flag", "loop", "goto", "one_thread", "sleep"}
FEW = ("volatile", "acquire", "add") if ON_GPU else ("volatile", "plain", "acquire", "add")

BEFORE = r"""
__device__ __noinline__ int look(volatile int* p) { return *p; }
__device__ int acquire(int* p) { int v; asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
__device__ int relaxed(int* p) { int v; asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
"""


def shapes(wait: str, looks: tuple[str, ...]) -> dict[str, str]:
    """The kernels with one kind of wait, by name."""
    kernels = {}
    for look in looks:
        if look == "exchange" and wait not in ONE_THREAD:
            continue
        if look in ("plain", "ldcg") and (wait in WITHOUT_ORDER or (ON_GPU and look == "plain")):
            continue
        for order, at in ORDERS.items():
            body = WAITS[wait].replace("LOOK", LOOKS[look].format(at)).replace("END", "blockIdx.x == first")
            body = body.replace("SET", "{ __threadfence(); if (threadIdx.x == 0) atomicExch(&flag[blockIdx.x], 1); }")
            name = f"{look}_{wait}_{order}"
            kernels[name] = (
                f'extern "C" __global__ void {name}(int* flag, int* out, unsigned first) {{ {body} '
                "out[blockIdx.x * blockDim.x + threadIdx.x] = blockIdx.x + threadIdx.x; }\n"
            )
    return kernels


CHILD = r"""
import ctypes, json, sys
import numpy as np
from cuda.bindings import driver
job = json.loads(sys.stdin.read())
def ok(answer):
    if answer[0].value: raise RuntimeError(answer[0].value)
    return answer[1] if len(answer) == 2 else answer[1:]
def start():
    ok(driver.cuCtxSetCurrent(ok(driver.cuDevicePrimaryCtxRetain(0))))
    return ok(driver.cuModuleLoadData(job["ptx"].encode() + b"\0"))
ok(driver.cuInit(0))
module = start()
grid, block = job["grid"], job["block"]
answers = {}
for name in job["kernels"]:
    try:
        bytes = 4 * (grid + 2 + grid * block)
        memory = ok(driver.cuMemAlloc(bytes))
        ok(driver.cuMemsetD8(memory, 0, bytes))
        flag, out = int(memory) + 4, int(memory) + 4 * (grid + 2)
        first = -1 if job["endless"] else grid - 1 if name.endswith("next") else 0
        values = [ctypes.c_uint64(flag), ctypes.c_uint64(out), ctypes.c_uint32(first & 0xffffffff)]
        pointers = (ctypes.c_void_p * 3)(*(ctypes.addressof(v) for v in values))
        function = ok(driver.cuModuleGetFunction(module, name.encode()))
        ok(driver.cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0, 0, ctypes.addressof(pointers), 0))
        ok(driver.cuCtxSynchronize())
        got = np.zeros(grid * block, np.int32)
        ok(driver.cuMemcpyDtoH(got.ctypes.data, out, got.nbytes))
        right = np.array_equal(got.reshape(grid, block), np.arange(grid)[:, None] + np.arange(block)[None])
        answers[name] = 0 if right else "wrong"
        ok(driver.cuMemFree(memory))
    except RuntimeError as error:
        answers[name] = error.args[0]
        driver.cuDevicePrimaryCtxReset(0)
        module = start()
print(json.dumps(answers))
"""


def answers(
    kernels: dict[str, str], settings: dict[str, str], grid: int = 24, block: int = 64, endless: bool = False
) -> dict[str, int | str]:
    text = compile_ptx(BEFORE + "".join(kernels.values())).decode()
    job = {"ptx": text, "kernels": list(kernels), "grid": grid, "block": block, "endless": endless}
    environment = {**os.environ, "CUCORE_CPU_TIMEOUT": "20", **settings}
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=json.dumps(job),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300 if ON_GPU else None,  # the CPU device ends the wait with its time limit
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, int | str] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.mark.parametrize("wait", WAITS)
def test_blocks_that_wait_for_each_other_make_progress(wait: str) -> None:
    if ON_GPU and wait == "nested":
        pytest.skip("threads that are in different turns of a loop with a barrier wait for ever on a GPU")
    kernels = shapes(wait, tuple(LOOKS))
    assert answers(kernels, {"CUCORE_CPU_THREADS": "1"}) == dict.fromkeys(kernels, 0)


@cpu_only
@pytest.mark.parametrize(
    "settings",
    [
        {"CUCORE_CPU_THREADS": "2"},
        {"CUCORE_CPU_W": "1"},
        {"CUCORE_CPU_W": "4"},
        {"CUCORE_CPU_W": "32"},
        {"CUCORE_CPU_TIER": "baseline", "CUCORE_CPU_STRICT": "0"},
        {"CUCORE_CHECK": "memory,init"},
    ],
    ids=lambda settings: "-".join(settings.values()),
)
def test_waiting_blocks_make_progress_in_every_mode(settings: dict[str, str]) -> None:
    kernels = {name: text for wait in WAITS for name, text in shapes(wait, FEW).items()}
    assert answers(kernels, {"CUCORE_CPU_THREADS": "1", **settings}) == dict.fromkeys(kernels, 0)


@pytest.mark.parametrize(
    "wait,blocks,threads", [("one_thread_tells", 132, 1024), ("one_thread", 1056, 64), ("loop", 40, 1024)]
)
def test_resident_blocks_of_a_gpu_make_progress(wait: str, blocks: int, threads: int) -> None:
    kernels = shapes(wait, ("volatile",))
    assert answers(kernels, {"CUCORE_CPU_THREADS": "1"}, blocks, threads) == dict.fromkeys(kernels, 0)


def test_clusters_that_wait_for_each_other_make_progress() -> None:
    kernels = {name: text for wait in WAITS for name, text in shapes(wait, ("volatile",)).items()}
    clusters = {name: text.replace("void ", "__cluster_dims__(2, 1, 1) void ", 1) for name, text in kernels.items()}
    assert answers(clusters, {"CUCORE_CPU_THREADS": "1"}) == dict.fromkeys(kernels, 0)


def test_block_waits_for_another_block_of_its_cluster() -> None:
    """The first block of each cluster is notified through its shared memory, which its loop never writes."""
    kernels = {
        "cluster_next": r"""
        #include <cooperative_groups.h>
        extern "C" __global__ __cluster_dims__(2, 1, 1) void cluster_next(int* flag, int* out, unsigned first) {
          __shared__ int told;
          auto cluster = cooperative_groups::this_cluster();
          if (threadIdx.x == 0) told = 0;
          cluster.sync();
          if (cluster.block_rank() == 1) {
            if (threadIdx.x == 0) atomicExch(cluster.map_shared_rank(&told, 0), 1);
          } else {
            while (!__syncthreads_or(told)) {}
          }
          out[blockIdx.x * blockDim.x + threadIdx.x] = blockIdx.x + threadIdx.x;
          cluster.sync();
        }
        """
    }
    assert answers(kernels, {"CUCORE_CPU_THREADS": "1"}) == {"cluster_next": 0}


@cpu_only
@pytest.mark.parametrize("settings", [{}, {"CUCORE_CPU_W": "1"}], ids=["chosen", "scalar"])
def test_endless_wait_ends_with_the_time_limit(settings: dict[str, str]) -> None:
    kernels = {
        name: text for wait in WAITS for name, text in shapes(wait, ("volatile",)).items() if name.endswith("next")
    }
    limit = {"CUCORE_CPU_TIMEOUT": "0.2", "CUCORE_CPU_THREADS": "1"}
    assert answers(kernels, {**limit, **settings}, 4, endless=True) == dict.fromkeys(kernels, TIMEOUT)


BESIDE = r"""
import ctypes, sys, time
from cuda.bindings import driver
ptx, what = sys.stdin.read().encode() + b"\0", sys.argv[1]
def ok(answer):
    assert answer[0].value == 0, answer[0]
    return answer[1] if len(answer) == 2 else answer[1:]
ok(driver.cuInit(0))
ok(driver.cuCtxSetCurrent(ok(driver.cuDevicePrimaryCtxRetain(0))))
module = ok(driver.cuModuleLoadData(ptx))
memory = ok(driver.cuMemHostAlloc(8, driver.CU_MEMHOSTALLOC_DEVICEMAP))
words = (ctypes.c_int32 * 2).from_address(int(memory))
words[0] = words[1] = 0
address = ctypes.c_uint64(int(ok(driver.cuMemHostGetDevicePointer(memory, 0))))
values = (ctypes.c_void_p * 1)(ctypes.addressof(address))
def launch(name, stream):
    ok(driver.cuLaunchKernel(ok(driver.cuModuleGetFunction(module, name)), 4, 1, 1, 64, 1, 1, 0, stream, ctypes.addressof(values), 0))
first, second = (ok(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)) for _ in range(2))
launch(b"waits", first)
if what == "host":
    time.sleep(0.05)
    words[0] = 1
else:
    launch(b"sets", second)
ok(driver.cuStreamSynchronize(first))
ok(driver.cuStreamSynchronize(second))
print(words[1])
"""


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("what", ["host", "stream"])
@pytest.mark.parametrize("wait", ["flag_then_barrier", "loop", "one_thread", "one_thread_tells", "all_threads"])
def test_kernel_waits_for_the_host_or_another_stream(wait: str, what: str, threads: str) -> None:
    body = WAITS[wait].replace("LOOK", "flag[0]").replace("END", "false").replace("SET", "")
    source = (
        'extern "C" __global__ void sets(volatile int* flag) { if (blockIdx.x == 0 && threadIdx.x == 0) flag[0] = 1; }\n'
        f'extern "C" __global__ void waits(volatile int* flag) {{ {body} __threadfence_system(); '
        "if (blockIdx.x == 0 && threadIdx.x == 0) flag[1] = 7; }\n"
    )
    ptx = compile_ptx(source).decode()
    # On a GPU, lazy loading of the second kernel would wait for the running one and deadlock.
    settings = {**os.environ, "CUCORE_CPU_TIMEOUT": "20", "CUCORE_CPU_THREADS": threads, "CUDA_MODULE_LOADING": "EAGER"}
    done = subprocess.run(
        [sys.executable, "-c", BESIDE, what],
        input=ptx,
        env=settings, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.stdout.split() == ["7"], done.stdout + done.stderr


# Threads of one block that wait for each other, without barriers: one fiber runs several of them.
NEIGHBOURS = r"""
import ctypes, sys
import numpy as np
from cuda.bindings import driver
ptx, kernel = sys.stdin.read().encode() + b"\0", sys.argv[1]
def ok(answer):
    assert answer[0].value == 0, answer[0]
    return answer[1] if len(answer) == 2 else answer[1:]
ok(driver.cuInit(0))
ok(driver.cuCtxSetCurrent(ok(driver.cuDevicePrimaryCtxRetain(0))))
function = ok(driver.cuModuleGetFunction(ok(driver.cuModuleLoadData(ptx)), kernel.encode()))
blocks, shape = 5, (7, 5, 3)
threads = shape[0] * shape[1] * shape[2]
memory = ok(driver.cuMemAlloc(8 * blocks * (threads + 1)))
ok(driver.cuMemsetD8(memory, 0, 8 * blocks * (threads + 1)))
values = ctypes.c_uint64(int(memory)), ctypes.c_uint64(int(memory) + 4 * blocks * (threads + 1))
pointers = (ctypes.c_void_p * 2)(*(ctypes.addressof(v) for v in values))
ok(driver.cuLaunchKernel(function, blocks, 1, 1, *shape, 0, 0, ctypes.addressof(pointers), 0))
answer = driver.cuCtxSynchronize()[0].value
got = np.zeros(blocks * threads, np.int32)
if answer == 0:
    ok(driver.cuMemcpyDtoH(got.ctypes.data, values[1].value, got.nbytes))
z, y, x = np.meshgrid(*(np.arange(n) for n in shape[::-1]), indexing="ij")
print(answer, np.array_equal(got.reshape(blocks, threads), np.broadcast_to((x + 100 * y + 10000 * z).reshape(1, -1), (blocks, threads))))
"""
IN_BLOCK = r"""
#define INDEX int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z), n = blockDim.x * blockDim.y * blockDim.z; \
  flag += blockIdx.x * (n + 1); out += blockIdx.x * n;
#define RESULT out[t] = threadIdx.x + 100 * threadIdx.y + 10000 * threadIdx.z;
// Each thread waits for the next one, which has not started yet.
extern "C" __global__ void later(int* flag, int* out) {
  INDEX if (t + 1 < n) while (atomicCAS(flag + t + 1, 1, 1) != 1) {} RESULT atomicExch(flag + t, 1);
}
// Each thread waits for the one before it, which has ended, as a rule.
extern "C" __global__ void earlier(int* flag, int* out) {
  INDEX if (t > 0) while (atomicCAS(flag + t - 1, 1, 1) != 1) {} RESULT atomicExch(flag + t, 1);
}
// Three slots: threads with even numbers take one, 53 in all, and those with odd numbers give 52 back.
extern "C" __global__ void slots(int* flag, int* out) {
  INDEX
  if (t % 2 == 0) {
    for (int at = t % 3; atomicCAS(flag + at, 0, 1) != 0; at = (at + 1) % 3) {}
  } else {
    for (int at = t % 3; atomicCAS(flag + at, 1, 0) != 1; at = (at + 1) % 3) {}
  }
  RESULT
}
// Some threads return at once.
extern "C" __global__ void leaves(int* flag, int* out) {
  INDEX RESULT atomicExch(flag + t, 1); if (t % 4 == 1) return; if (t + 1 < n) while (atomicCAS(flag + t + 1, 1, 1) != 1) {}
}
"""


def neighbours(kernel: str, threads: str) -> subprocess.CompletedProcess[str]:
    settings = {**os.environ, "CUCORE_CPU_TIMEOUT": "20", "CUCORE_CPU_THREADS": threads}
    return subprocess.run(
        [sys.executable, "-c", NEIGHBOURS, kernel], input=compile_ptx(IN_BLOCK).decode(),
        env=settings, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("kernel", ["later", "earlier", "slots", "leaves"])
def test_threads_of_a_block_wait_for_each_other_without_barriers(kernel: str, threads: str) -> None:
    done = neighbours(kernel, threads)
    assert done.stdout.split() == ["0", "True"], done.stdout + done.stderr


@cpu_only
def test_report_lists_the_kernels_that_spin() -> None:
    kernels = {**shapes("flag_then_barrier", ("plain",)), **shapes("one_thread_tells", ("volatile",))}
    kernels["queue"] = (
        'extern "C" __global__ void queue(int* next, int* out, unsigned n) { unsigned i; '
        "while ((i = atomicAdd(next, 1)) < n) out[i] = i; }\n"
    )
    text = compile_ptx(BEFORE + "".join(kernels.values())).decode()
    job = {"ptx": text, "kernels": list(kernels), "grid": 4, "block": 64, "endless": False}
    settings = {**os.environ, "CUCORE_CPU_REPORT": "1", "CUCORE_CPU_CACHE": "0", "CUCORE_CPU_TIMEOUT": "20"}
    done = subprocess.run(
        [sys.executable, "-c", CHILD], input=json.dumps(job), env=settings, capture_output=True, text=True, check=False
    )
    lines = [line for line in done.stderr.splitlines() if " ms" in line]
    spins = {name: any(f"kernel {name}:" in line and " spins" in line for line in lines) for name in kernels}
    assert spins == {name: name != "queue" for name in kernels}, done.stderr
