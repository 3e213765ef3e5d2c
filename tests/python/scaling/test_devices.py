# SPDX-License-Identifier: Apache-2.0
"""Several devices in one process: 64 of them, a thread each, peer copies, and graphs with nodes on two devices."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.cpu_only  # needs many devices
PRELUDE = """
import threading
import numpy as np
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch
SOURCE = 'extern "C" __global__ void add(int* at, int n, int value) { int i = threadIdx.x + blockIdx.x * blockDim.x; if (i < n) at[i] += value; }'
devices = Device.get_all_devices()
devices[0].set_current()
code = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{devices[0].arch}")).compile("cubin")
"""


def run(source: str, devices: int, **environment: str) -> None:
    settings = {"CUCORE_DEVICE": "cpu", "CUCORE_CPU_DEVICES": str(devices), "PYTHONWARNINGS": "ignore"} | environment
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + source], env=os.environ | settings, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_sixty_four_devices_work_in_a_thread_each():
    run(
        """
assert len(devices) == 64 and len({d.uuid for d in devices}) == 64
results, failures = {}, []
def work(device):
    try:
        device.set_current()
        stream = device.create_stream()
        kernel = code.get_kernel("add")
        buffer = device.allocate(4000, stream=stream)
        buffer.fill(0, stream=stream)
        for step in range(10):
            launch(stream, LaunchConfig(grid=4, block=256), kernel, buffer, np.int32(1000), np.int32(device.device_id))
        back = np.empty(1000, np.int32)
        buffer.copy_to(back, stream=stream)
        stream.sync()
        assert Device().device_id == device.device_id
        results[device.device_id] = back
    except BaseException as error:
        failures.append(error)
threads = [threading.Thread(target=work, args=(d,)) for d in devices]
for t in threads: t.start()
for t in threads: t.join()
assert not failures, failures
assert all((results[i] == 10 * i).all() for i in range(64))
# around the ring, by peer copies
streams = [d.create_stream() if d.set_current() is None else d.create_stream() for d in devices]
buffers = [d.allocate(256, stream=s) for d, s in zip(devices, streams)]
buffers[0].fill(7, stream=streams[0])
for i in range(63):
    assert devices[i].can_access_peer(devices[i + 1])
    streams[i + 1].wait(streams[i])
    buffers[i + 1].copy_from(buffers[i], stream=streams[i + 1])
back = np.empty(256, np.uint8)
buffers[63].copy_to(back, stream=streams[63])
streams[63].sync()
assert (back == 7).all()
""",
        64,
    )


def test_too_many_devices_are_an_error():
    with pytest.raises(AssertionError, match="64"):
        run("", 65)


def test_graph_has_nodes_on_two_devices():
    run(
        """
streams, buffers, kernels = [], [], []
for device in devices:
    device.set_current()
    streams.append(device.create_stream())
    buffers.append(device.allocate(400, stream=streams[-1]))
    buffers[-1].fill(0, stream=streams[-1])
    streams[-1].sync()
first, second = streams
kernel = code.get_kernel("add")
config = LaunchConfig(grid=1, block=128)
devices[0].set_current()
assert driver.cuStreamBeginCapture(first.handle, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)[0] == 0
launch(first, config, kernel, buffers[0], np.int32(100), np.int32(1))
second.wait(first.record())  # the other device takes part in the capture
devices[1].set_current()
buffers[1].copy_from(buffers[0], stream=second)
launch(second, config, kernel, buffers[1], np.int32(100), np.int32(10))
devices[0].set_current()
first.wait(second.record())
launch(first, config, kernel, buffers[0], np.int32(100), np.int32(100))
err, graph = driver.cuStreamEndCapture(first.handle)
assert err == 0
err, ready = driver.cuGraphInstantiate(graph, 0)
assert err == 0
for turn in range(1, 4):
    assert driver.cuGraphLaunch(ready, first.handle)[0] == 0
    first.sync()
    there = np.empty(100, np.int32)
    buffers[1].copy_to(there, stream=second)
    second.sync()
    assert (there == 101 * turn - 100 + 10).all(), (turn, there)
back = np.empty(100, np.int32)
buffers[0].copy_to(back, stream=first)
first.sync()
assert (back == 303).all(), back
""",
        2,
    )
