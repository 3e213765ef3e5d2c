# SPDX-License-Identifier: Apache-2.0
"""Repeated work does not grow memory. CUCORE_SOAK=n runs n times as many iterations (make soak)."""

from __future__ import annotations

import os

import pytest

TURNS = 60 * int(os.environ.get("CUCORE_SOAK", "1"))

PROGRAM = """
import resource
TURNS = %d
setup()
one, kernel = LaunchConfig(grid=2, block=64), code.get_kernel("add_one")
PTX = ".version 8.0\\n.target sm_80\\n.address_size 64\\n.visible .entry k() { ret; }\\n"

def resident():
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE")

def threads():
    return len(os.listdir("/proc/self/task"))

def files():
    return len(os.listdir("/proc/self/fd"))

def turn(n):
    s = device.create_stream()
    buffers = [device.allocate(1 << 14, stream=s) for _ in range(8)]
    for b in buffers:
        b.fill(n & 0xFF, stream=s)
        for _ in range(20):
            launch(s, one, kernel, b, 100)
    b.copy_to(bytearray(1 << 14), stream=s)
    builder = s.create_graph_builder().begin_building()
    for b in buffers:
        launch(builder, one, kernel, b, 100)
    builder.callback(lambda: n)
    graph = builder.end_building().complete()
    graph.launch(s)
    other = device.create_stream()
    other.wait(s.record())
    ObjectCode.from_ptx(PTX.encode()).get_kernel("k")
    try:
        device.allocate(2**60, stream=s)
    except CUDAError:
        pass
    try:
        ObjectCode.from_ptx(b"nonsense").get_kernel("k")
    except CUDAError:
        pass
    pinned = LegacyPinnedMemoryResource().allocate(4096)
    pool = DeviceMemoryResource(device, options=DeviceMemoryResourceOptions(max_size=1 << 20))
    kept = pool.allocate(4096, stream=s)
    if n %% 3 == 0:
        s.sync(); graph.close(); s.close(); pinned.close()  # else: left to the collector, in flight
    thread = threading.Thread(target=lambda: (Device(0).set_current(), Device(0).create_stream().sync()))
    thread.start(); thread.join()

for n in range(TURNS // 3):
    turn(n)
device.sync()
before = resident(), threads(), files()
for n in range(TURNS):
    turn(n)
device.sync()
after = resident(), threads(), files()
print(before, after)
"""


@pytest.mark.promise("Launching, capturing, compiling and closing repeatedly keeps memory use constant")
def test_repeated_work_does_not_grow_memory_or_threads(child):
    out = child.ok(PROGRAM % TURNS)
    before, after = (tuple(map(int, part.split(","))) for part in out.strip("()\n").split(") ("))
    assert after[0] - before[0] < (8 << 20) + before[0] // 20, (
        f"resident memory grew from {before[0]} to {after[0]} bytes"
    )
    assert after[1] <= before[1] + 4, f"threads: {before[1]}, then {after[1]}"
    assert after[2] <= before[2], f"open files: {before[2]}, then {after[2]}"
