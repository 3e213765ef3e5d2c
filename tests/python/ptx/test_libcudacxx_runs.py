# SPDX-License-Identifier: Apache-2.0
"""Every function of libcu++'s cuda::ptx runs, with every qualifier that it takes, on a CPU device of each capability that has it. A
function that a newer header adds fails a test here until it has a plan, or a reason why it does not run."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from ptxsuite import libcudacxx, ptx_calls, tensor_calls
from ptxsuite.device import DriverError
from ptxsuite.libcudacxx import Call
from ptxsuite.nvrtc import compile_ptx, skip_module_without_nvrtc
from ptxsuite.program import Program, device
from ptxsuite.two_devices import program as on_two_devices

pytestmark = pytest.mark.cpu_only
skip_module_without_nvrtc()

TARGETS = {"90a": "9.0", "100a": "10.0", "103a": "10.3", "110a": "11.0", "120a": "12.0", "121a": "12.1"}
NEWEST = 940  # the ISA version of NVRTC 13.4
PART = 48  # calls in a kernel
# Header: why no function of it runs.
NOT_RUN = {
    "fabric_": "the CPU device has no NVLink fabric: the instructions are errors, see test_libcudacxx.py",
    "fence_proxy_fabric": "as above",
    "fence_proxy_generic_fabric": "as above",
}
# Header: the test of this file that runs its functions in a kernel of its own.
APART = {
    "clusterlaunchcontrol": "test_cluster_launch_control",
    "exit": "test_exit",
    "trap": "test_trap",
    "multimem_": "test_multimem",
    "tcgen05_": "test_tcgen05",
}


def chosen(target: str) -> list[Call]:
    found = [f for f in libcudacxx.functions() if f.isa <= NEWEST and f.runs_on(target)]
    if not found:
        pytest.skip(f"this version of libcu++ has no functions for sm_{target}")
    return [call for function in found for call in libcudacxx.calls(function)]


def is_of(call: Call, headers: dict[str, str]) -> bool:
    return any(
        call.header == h
        or (h.endswith("_") and call.header.startswith(h))
        or (h in NOT_RUN and call.header.startswith(h))
        for h in headers
    )


def test_every_function_is_placed() -> None:
    unplaced = {
        f.header
        for f in libcudacxx.functions()
        if f.isa <= NEWEST
        and any(f.runs_on(target) for target in TARGETS)
        and f.header not in ptx_calls.PLANS
        and not is_of(libcudacxx.calls(f)[0], NOT_RUN)
        and not is_of(libcudacxx.calls(f)[0], APART)
    }
    assert not unplaced, unplaced


@pytest.mark.parametrize("flip", [0, 1], ids=["first", "second"])
@pytest.mark.parametrize("target", TARGETS)
def test_calls(target: str, flip: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUCORE_CPU_ARCH", TARGETS[target])
    calls = [c for c in chosen(target) if c.header in ptx_calls.PLANS]
    if flip:  # only what depends on the rank of the block
        calls = [c for c in calls if "there(" in ptx_calls.PLANS[c.header](c).body]
    plans = [ptx_calls.PLANS[c.header](c) for c in calls]
    parts = [plans[n : n + PART] for n in range(0, len(plans), PART)]
    program = Program(ptx_calls.source(parts), arch=f"compute_{target}")
    wrong = []
    for number, part in enumerate(parts):
        names = calls[PART * number : PART * number + len(part)]
        wrong += [f"{name}: {text}" for name, text in zip(names, run(program, number, part, flip), strict=True) if text]
    assert not wrong, (len(wrong), wrong)


def run(program: Program, number: int, plans: list[ptx_calls.Plan], flip: int) -> list[str]:
    """Runs one kernel; for each plan what differs from its expectation."""
    rng = np.random.default_rng(number + 1)
    source = rng.integers(0, 256, 4096).astype(np.uint8)
    source.view(np.uint64)[:64:7] &= np.uint64(0xFF)
    count = len(plans)
    rows = rng.integers(0, 256, (count, ptx_calls.ROW)).astype(np.uint8)
    memory = device().memory(rows)
    given = device().memory(source)
    tiles, results = device().memory(count * 2 * ptx_calls.TILE), device().memory(count * 2 * 32 * 32)
    maps = np.zeros((count, 128), np.uint8)
    for n, plan in enumerate(plans):
        if plan.map:
            maps[n] = np.frombuffer(bytes(plan.map(memory.address.value + ptx_calls.ROW * n)), np.uint8)  # type: ignore[arg-type]
    tables = device().memory(maps)
    arguments = [given.address, memory.address, tiles.address, results.address, tables.address]
    arguments.append(ctypes.c_uint32(flip))
    device().launch(device().function(program.module, f"part{number}"), 2 * count, 32, arguments)
    device().sync()
    got_rows = memory.read(np.uint8, rows.size).reshape(rows.shape)
    got_tiles = tiles.read(np.uint8, count * 2 * ptx_calls.TILE).reshape(count, 2, ptx_calls.TILE)
    got_words = results.read(np.uint64, count * 2 * 32 * 4).reshape(count, 2, 32, 4)
    answers = []
    for n, plan in enumerate(plans):
        expected = ptx_calls.State(
            source,
            rows[n].copy(),
            source.reshape(2, -1).copy(),
            np.zeros((2, 32, 4), np.uint64),
            np.zeros(0, np.int64),
            flip,
        )
        got = ptx_calls.State(source, got_rows[n], got_tiles[n], got_words[n], expected.ignored)
        plan.effect(expected)
        if plan.changed:
            made = bytes(plan.changed(memory.address.value + ptx_calls.ROW * n))  # type: ignore[arg-type]
            expected.row[:128] = np.frombuffer(made, np.uint8)
        answers.append(difference(plan, expected, got, n, 2 * count))
    for buffer in (memory, given, tiles, results, tables):
        buffer.free()
    return answers


def difference(plan: ptx_calls.Plan, expected: ptx_calls.State, got: ptx_calls.State, which: int, grid: int) -> str:
    got.tile[0, expected.ignored] = expected.tile[0, expected.ignored]
    if plan.verify:
        expected.words[0, 0, 2:] = grid, which
        try:
            plan.verify(expected, got)
        except AssertionError as error:
            return str(error)
    elif not np.array_equal(expected.words, got.words):
        at = tuple(np.argwhere(expected.words != got.words)[0])
        return f"word {at}: {got.words[at]:#x} instead of {expected.words[at]:#x}"
    for name in ("row", "tile"):
        if not np.array_equal(getattr(expected, name), getattr(got, name)):
            if plan.changed and plan.verify and name == "row":
                continue
            where = np.argwhere(getattr(expected, name) != getattr(got, name))
            return f"{name} differs in {len(where)} bytes from {where[0]}"
    return ""


def refused_by_ptxas(call: Call, target: str) -> bool:
    """Where the comments of the headers and ptxas differ, ptxas decides."""
    return target == "103a" and "kind_i8" in call.words


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("target", ["100a", "103a", "110a"])
def test_tcgen05(target: str, group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUCORE_CPU_ARCH", TARGETS[target])
    calls = [
        c
        for c in chosen(target)
        if is_of(c, {"tcgen05_": ""}) and tensor_calls.group_of(c) == group and not refused_by_ptxas(c, target)
    ]
    assert len(calls) > 100
    wrong = []
    for start in range(0, len(calls), 96):
        part = calls[start : start + 96]
        settings = [tensor_calls.SETTINGS[c.header](c) for c in part]
        program = Program(tensor_calls.source(settings, group), arch=f"compute_{target}")
        for n, (call, setting) in enumerate(zip(part, settings, strict=True)):
            if text := tensor_calls.run(program, n, setting):
                wrong.append(f"{call}: {text}")
    assert not wrong, (len(wrong), wrong)


STEAL = r"""
__device__ u64 asked;
extern "C" __global__ void @CLUSTER@ steal(u32* visits, u32* wrong) {
  __shared__ alignas(16) longlong2 response;
  __shared__ alignas(8) u64 bar;
  const u32 rank = ptx::get_sreg_cluster_ctarank();
  if (threadIdx.x == 0) ptx::mbarrier_init(&bar, 1);
  u32 x = blockIdx.x - rank, y = blockIdx.y, z = blockIdx.z;
  for (u32 phase = 0;; phase ^= 1) {
    ptx::barrier_cluster_arrive();
    ptx::barrier_cluster_wait();
    if (threadIdx.x == 0) ptx::mbarrier_arrive_expect_tx(ptx::sem_relaxed, ptx::scope_cluster, ptx::space_shared, &bar, 16);
    if (threadIdx.x == 0 && @WHO@) @CALL@(&response, &bar);
    atomicAdd(&visits[x + rank + gridDim.x * (y + gridDim.y * z)], 1);
    while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &bar, phase)) {}
    if (!ptx::clusterlaunchcontrol_query_cancel_is_canceled(response)) break;
    u32 all[4];
    ptx::clusterlaunchcontrol_query_cancel_get_first_ctaid(all, response);
    x = ptx::clusterlaunchcontrol_query_cancel_get_first_ctaid_x<u32>(response);
    y = ptx::clusterlaunchcontrol_query_cancel_get_first_ctaid_y<u32>(response);
    z = ptx::clusterlaunchcontrol_query_cancel_get_first_ctaid_z<u32>(response);
    if (all[0] != x || all[1] != y || all[2] != z || x % @SIZE@ != 0) atomicAdd(wrong, 1);
    ptx::fence_proxy_async_generic_sync_restrict(ptx::sem_release, ptx::space_shared, ptx::scope_cluster);
  }
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();
}
"""


@pytest.mark.parametrize("multicast", [False, True], ids=["block", "cluster"])
@pytest.mark.parametrize("target", [t for t in TARGETS if t != "90a"])
def test_cluster_launch_control(target: str, multicast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUCORE_CPU_ARCH", TARGETS[target])
    known = {c.name for c in chosen(target) if c.header == "clusterlaunchcontrol"}
    if not known:
        pytest.skip("this version of libcu++ has none of these functions")
    name = "clusterlaunchcontrol_try_cancel" + ("_multicast" if multicast else "")
    words = {
        "@CLUSTER@": "__cluster_dims__(2, 1, 1)" if multicast else "", "@CALL@": f"ptx::{name}",
        "@WHO@": "rank == 0" if multicast else "true", "@SIZE@": "2" if multicast else "1",
    }  # fmt: skip
    text = STEAL
    for word, value in words.items():
        text = text.replace(word, value)
    assert known - {n for n in known if f"{n}(" in text or f"{n}<" in text} == {
        "clusterlaunchcontrol_try_cancel" if multicast else "clusterlaunchcontrol_try_cancel_multicast"
    }
    visits, wrong = np.zeros(6 * 5 * 4, np.uint32), np.zeros(1, np.uint32)
    Program(ptx_calls.KERNEL.replace("@FUNCTIONS@", text), arch=f"compute_{target}").run(
        "steal", (6, 5, 4), 32, visits, wrong
    )
    assert (visits == 32).all() and wrong[0] == 0


LAST = """
extern "C" __global__ void leave(u32* out) { if (threadIdx.x % 3 == 0) ptx::exit(); out[threadIdx.x] = 1; }
extern "C" __global__ void stop(u32* out) { out[threadIdx.x] = 1; if (threadIdx.x == 5) ptx::trap(); }
"""


@pytest.mark.parametrize("target", TARGETS)
def test_exit(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUCORE_CPU_ARCH", TARGETS[target])
    out = np.zeros(64, np.uint32)
    Program(ptx_calls.KERNEL.replace("@FUNCTIONS@", LAST), arch=f"compute_{target}").run("leave", 1, 64, out)
    assert np.array_equal(out, np.arange(64) % 3 != 0)


@pytest.mark.parametrize("target", TARGETS)
def test_trap(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUCORE_CPU_ARCH", TARGETS[target])
    program = Program(ptx_calls.KERNEL.replace("@FUNCTIONS@", LAST), arch=f"compute_{target}")
    with pytest.raises(DriverError) as error:
        program.run("stop", 1, 32, np.zeros(32, np.uint32))
    assert error.value.code == 715 or error.value.code == 719, error.value
    device().reset()


MULTIMEM = """
import pathlib
text = pathlib.Path(PTX).read_bytes()
module = ok(driver.cuModuleLoadData(text + b"\\0"))
rng = np.random.default_rng(3)
for n, (op, kind, dtype) in enumerate(CASES):
    dtype = np.dtype(dtype)
    a, b, given = (rng.integers(0, 256, 64).astype(np.uint8) for _ in range(3))
    fill(a, b)
    source = ok(driver.cuMemAlloc(64))
    ok(driver.cuMemcpyHtoD(source, given.ctypes.data, 64))
    kernel = ok(driver.cuModuleGetFunction(module, f"k{n}".encode()))
    values = ((int(everywhere), int(source), int(out)), (ctypes.c_uint64,) * 3)
    ok(driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, values, 0))
    assert driver.cuCtxSynchronize()[0] == 0
    def reduced(x, y):
        x, y = x.view(dtype)[0], y.view(dtype)[0]
        with np.errstate(over="ignore"):
            return {"add": lambda: x + y, "min": lambda: min(x, y), "max": lambda: max(x, y), "and_op": lambda: x & y,
                    "or_op": lambda: x | y, "xor_op": lambda: x ^ y, "": lambda: y}[op]()
    if kind == "ld_reduce":
        assert read(out, dtype, 1)[0] == reduced(a, b), (op, dtype)
        assert np.array_equal(read(copies[0], np.uint8, 64), a) and np.array_equal(read(copies[1], np.uint8, 64), b)
    else:
        for copy, before in zip(copies, (a, b)):
            wanted = before.copy()
            wanted.view(dtype)[0] = reduced(before, given)
            assert np.array_equal(read(copy, np.uint8, 64), wanted), (op, kind, dtype)
"""


@pytest.mark.parametrize("target", TARGETS)
def test_multimem(target: str, tmp_path: Path) -> None:
    calls = [c for c in chosen(target) if c.header.startswith("multimem_")]
    kernels, cases = [], []
    for n, call in enumerate(calls):
        kind = call.header.removeprefix("multimem_")
        type_ = ptx_calls.element(call.type_of("addr"))
        size = ptx_calls.sized(type_)
        op = next((w.removeprefix("op_") for w in call.words if w.startswith("op_")), "")
        unsigned = "uint" in type_ or op in ("and_op", "or_op", "xor_op", "")
        cases.append((op, kind, f"{'u' if unsigned else 'i'}{size}"))
        text = call.text(addr=f"({call.type_of('addr')})everywhere", val=f"*(const {type_}*)in")
        kernels.append(
            f'extern "C" __global__ void k{n}(void* everywhere, const void* in, void* out) {{ '
            + (f"*({type_}*)out = {text};" if kind == "ld_reduce" else f"{text};")
            + " }"
        )
    path = tmp_path / "calls.ptx"
    path.write_bytes(compile_ptx(ptx_calls.KERNEL.replace("@FUNCTIONS@", "\n".join(kernels)), arch=f"compute_{target}"))
    arch = TARGETS[target]
    on_two_devices(f"PTX = {str(path)!r}\nCASES = {cases!r}\n{MULTIMEM}", CUCORE_CPU_ARCH=f"{arch},{arch}")


def test_every_header_has_a_test() -> None:
    assert all(name in globals() for name in APART.values())
