# SPDX-License-Identifier: Apache-2.0
"""Host threads of the CPU device: a launch creates and wakes no more of them than it has blocks."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

PROGRAM = r"""
import json, os, sys, time
from cuda.core import Device, LaunchConfig, Program, launch

device = Device(); device.set_current()
stream = device.create_stream()
code = Program('extern "C" __global__ void spin(int n) { for (volatile int i = 0; i < n; ++i) {} }', "c++").compile("cubin")
spin = code.get_kernel("spin")


def switches():
    '''How often each worker has gone to sleep.'''
    found = {}
    for task in os.listdir("/proc/self/task"):
        try:
            if open(f"/proc/self/task/{task}/comm").read().strip() != "cucore-worker":
                continue
            status = open(f"/proc/self/task/{task}/status").read()
        except OSError:
            continue
        found[task] = int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])
    return found


def quiet():
    '''The counts once no worker runs any more.'''
    before = switches()
    while True:
        time.sleep(0.1)
        after = switches()
        if after == before:
            return after
        before = after


def run(blocks):
    before = quiet()
    launch(stream, LaunchConfig(grid=blocks, block=32), spin, 2_000)
    stream.sync()
    after = quiet()
    return {"workers": len(after), "woken": sum(after[task] != before.get(task, after[task]) for task in after)}


print(json.dumps([run(blocks) for blocks in (1, 2, 3, 60, 1, 2)]))
"""


@pytest.mark.skipif(os.environ.get("CUCORE_DEVICE", "cpu") != "cpu", reason="about the threads of the CPU device")
def test_small_grids_use_few_threads() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"CUCORE_DEVICE": "cpu", "CUCORE_CPU_THREADS": "6"},
        capture_output=True,
        text=True,
        check=True,
    )
    one, two, three, many, one_again, two_again = json.loads(done.stdout)
    assert one["workers"] <= 1
    assert two["workers"] <= 2
    assert three["workers"] <= 3
    assert many["workers"] <= 6
    # A worker that looks for work and finds none may have been woken to run the launch itself.
    assert one_again["woken"] <= 1
    assert two_again["woken"] <= 2
