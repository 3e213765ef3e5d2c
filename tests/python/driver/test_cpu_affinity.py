# SPDX-License-Identifier: Apache-2.0
"""Worker threads may use the CPUs of the process, not only those of the thread that made the first call."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import pytest

pytestmark = pytest.mark.cpu_only

PROGRAM = r"""
import json, os, sys, threading
from pathlib import Path

def bind(cpu):
    os.sched_setaffinity(threading.get_native_id(), {cpu})

first, second = int(sys.argv[1]), int(sys.argv[2])
leave = threading.Event()
if sys.argv[3] == "threads":      # as OpenMP does with OMP_PROC_BIND: one CPU for each thread, the main thread among them
    bind(first)
    ready = threading.Barrier(2)
    threading.Thread(target=lambda: (bind(second), ready.wait(), leave.wait())).start()
    ready.wait()
from cuda.core import Device, LaunchConfig, Program, launch
if sys.argv[3] == "late":         # the library is loaded, then the calling thread is bound
    from cuda.bindings import driver
    driver.cuDriverGetVersion()
    bind(first)
device = Device()
device.set_current()
stream = device.create_stream()
code = Program('extern "C" __global__ void k() {}', code_type="c++").compile("ptx")
for _ in range(3):
    launch(stream, LaunchConfig(grid=64, block=32), code.get_kernel("k"))
stream.sync()
found = {}
for task in Path("/proc/self/task").iterdir():
    found.setdefault((task / "comm").read_text().strip(), set()).update(os.sched_getaffinity(int(task.name)))
leave.set()
print(json.dumps([sorted(found["cucore-worker"]), device.properties.multiprocessor_count]))
"""


def workers(case: str, cpus: set[int], **settings: str) -> tuple[set[int], int]:
    """Runs the program in a process that has these CPUs: the CPUs of its workers, and the multiprocessors of its device."""
    environment = (
        {k: v for k, v in os.environ.items() if k != "CUCORE_CPU_THREADS"} | {"CUCORE_DEVICE": "cpu"} | settings
    )
    first, second = min(cpus), max(cpus)
    before = os.sched_getaffinity(threading.get_native_id())
    os.sched_setaffinity(threading.get_native_id(), cpus)  # the process inherits them
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(first), str(second), case],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
    finally:
        os.sched_setaffinity(threading.get_native_id(), before)
    assert done.returncode == 0, done.stderr
    found, count = json.loads(done.stdout)
    return set(found), count


@pytest.fixture
def two_cpus() -> set[int]:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("this process may use one CPU only")
    return set(cpus[:2])


@pytest.mark.parametrize("case", ["threads", "late"])
def test_workers_use_the_cpus_of_the_process_when_the_caller_is_bound_to_one(case: str, two_cpus: set[int]) -> None:
    found, count = workers(case, two_cpus)
    assert found == two_cpus
    assert count in (1, 2)  # 1: where a quota of CPU time allows one


def test_workers_keep_to_the_cpus_that_the_process_was_started_with(two_cpus: set[int]) -> None:
    one = {max(two_cpus)}
    assert workers("plain", one) == (one, 1)


def test_a_chosen_number_of_threads_does_not_widen_the_cpus(two_cpus: set[int]) -> None:
    one = {min(two_cpus)}
    assert workers("plain", one, CUCORE_CPU_THREADS="3")[0] == one
