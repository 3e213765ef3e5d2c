# SPDX-License-Identifier: Apache-2.0
"""Dask: a cluster of worker processes on CPU devices moves, spills and frees objects of cuda.core, also when a worker dies."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda.core import (
    Device,
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    LaunchConfig,
    PinnedMemoryResource,
    Program,
    ProgramOptions,
    launch,
)
from cuda.core.utils import StridedMemoryView

distributed = pytest.importorskip("distributed", reason="dask and distributed are not installed")
import cloudpickle  # noqa: E402
import dask  # noqa: E402
from dask.sizeof import sizeof  # noqa: E402

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import a test
pytestmark = pytest.mark.cpu_only  # two workers on one GPU share its memory, which these tests count

ROOT = Path(__file__).resolve().parents[3]
TURNS = 300 if "CUCORE_SOAK" not in os.environ else 200 * int(os.environ["CUCORE_SOAK"])  # make soak: 10,000
SOURCE = 'extern "C" __global__ void add(int* at, int n, int value) { int i = threadIdx.x + blockIdx.x * blockDim.x; if (i < n) at[i] += value; }'
# Small, so that a few buffers reach the limit at which a worker spills; Dask's own measurement of the process is left out.
SETTINGS = {
    "distributed.worker.memory.target": 0.02,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
}


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch, dask.config.set(SETTINGS):
        patch.setenv("CUCORE_CPU_DEVICES", "2")
        patch.setenv("CUCORE_CPU_THREADS", "1")
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, memory_limit="4GB", dashboard_address=None
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client


def workers(client: Any) -> list[str]:
    client.wait_for_workers(2)
    return sorted(client.scheduler_info(n_workers=-1)["workers"])


def ready() -> tuple[Device, Any]:
    device = Device(0)
    device.set_current()
    return device, device.create_stream()


def make(value: int, size: int, pinned: bool = False) -> Any:
    device, stream = ready()
    buffer = (PinnedMemoryResource() if pinned else device.memory_resource).allocate(size, stream=stream)
    buffer.fill(value, stream=stream)  # asynchronous: the sender of the buffer waits
    return buffer


def values(buffer: Any) -> tuple[set[int], int, int]:
    _, stream = ready()
    back = bytearray(buffer.size)
    buffer.copy_to(back, stream=stream)
    return set(back), buffer.size, os.getpid()


def in_use() -> int:
    gc.collect()
    device, stream = ready()
    stream.sync()
    return device.memory_resource.attributes.used_mem_current


def test_shared_buffer_reaches_a_worker_by_reference(client, device, stream):
    pool = DeviceMemoryResource(device, DeviceMemoryResourceOptions(ipc_enabled=True))
    buffer = pool.allocate(1 << 16, stream=stream)
    buffer.fill(3, stream=stream)
    stream.sync()

    def change(there: Any) -> bool:
        _, stream = ready()
        there.fill(9, stream=stream)
        stream.sync()
        return bool(there.is_mapped)

    assert client.submit(change, buffer, pure=False).result()
    back = np.empty(1 << 16, np.uint8)
    buffer.copy_to(back, stream=stream)
    assert set(back) == {9}


@pytest.mark.parametrize("pinned", [False, True], ids=["device", "pinned"])
def test_buffer_moves_from_worker_to_worker(client, pinned):
    first, second = workers(client)
    made = client.submit(make, 7, 3 << 20, pinned, workers=[first], pure=False)
    found = client.submit(values, made, workers=[second], pure=False).result()
    here = client.submit(values, made, workers=[first], pure=False).result()
    assert found[:2] == here[:2] == ({7}, 3 << 20) and found[2] != here[2]
    assert values(made.result())[0] == {7}  # and to the client


def test_kernel_program_config_and_views_travel(client, device, stream):
    program = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{device.arch}"))
    kernel = program.compile("cubin").get_kernel("add")

    def run(kernel: Any, config: Any, view: Any, value: int) -> Any:
        _, stream = ready()
        launch(stream, config, kernel, view.exporting_obj, np.int32(view.size), np.int32(value))
        stream.sync()
        return view

    buffer = device.allocate(400, stream=stream)
    buffer.copy_from(np.arange(100, dtype=np.int32), stream=stream)
    view = StridedMemoryView.from_buffer(buffer, (10, 10), dtype=np.int32)
    config = LaunchConfig(grid=1, block=128)
    futures = [client.submit(run, kernel, config, view, value, pure=False) for value in range(4)]
    for value, answer in enumerate(client.gather(futures)):
        back = np.empty((10, 10), np.int32)
        answer.exporting_obj.copy_to(back, stream=stream)
        assert answer.shape == (10, 10) and np.array_equal(back.ravel(), np.arange(100) + value)
    compiled = client.submit(lambda p: p.compile("cubin").get_kernel("add").name, program, pure=False)
    assert compiled.result() == "add"


def test_dask_knows_sizes(client, device, stream):
    buffer = device.allocate(1 << 20, stream=stream)
    view = StridedMemoryView.from_buffer(buffer, (10, 10), dtype=np.int32)
    code = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("ptx")
    assert 1 << 20 <= sizeof(buffer) < (1 << 20) + 1000 and sizeof(view) >= 1 << 20
    assert sizeof(code) > len(code.code)
    made = client.submit(make, 1, 5 << 20, pure=False)
    distributed.wait(made)
    assert client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.tasks[made.key].nbytes) >= 5 << 20


def test_release_of_a_future_frees_device_memory(client):
    first, _ = workers(client)
    before = client.run(in_use, workers=[first])[first]
    made = [client.submit(make, i, 1 << 20, workers=[first], pure=False) for i in range(4)]
    distributed.wait(made)
    # Futures of the tests before may still be counted in `before`: the scheduler releases them later.
    assert client.run(in_use, workers=[first])[first] >= 4 << 20
    del made
    while client.run(in_use, workers=[first])[first] > before:
        time.sleep(0.02)


def test_worker_spills_buffers_and_reads_them_back(client):
    first, _ = workers(client)
    made = client.map(
        make, range(8), size=16 << 20, pinned=False, workers=[first], pure=False
    )  # 128 MiB, the limit is 80
    distributed.wait(made)

    def spilled(dask_worker: Any) -> tuple[int, int]:
        return len(dask_worker.data.fast), len(dask_worker.data.slow)

    fast, slow = client.run(spilled, workers=[first])[first]
    assert slow >= 3
    assert client.run(in_use, workers=[first])[first] <= (fast + 1) * (16 << 20)  # what is spilled is freed
    found = client.gather(client.map(values, made, workers=[first], pure=False))
    assert [v[0] for v in found] == [{i} for i in range(8)]


def test_work_of_a_killed_worker_is_done_by_another(client, device, stream, resident):
    pool = DeviceMemoryResource(device, DeviceMemoryResourceOptions(ipc_enabled=True))
    shared = pool.allocate(1 << 20, stream=stream)
    shared.fill(2, stream=stream)
    stream.sync()
    pids = client.run(os.getpid)
    victim, _ = workers(client)

    def slow(i: int, there: Any) -> int:
        time.sleep(0.05)
        return sum(values(there)[0]) * 100 + i

    def hold(dask_worker: Any, there: Any) -> None:
        dask_worker.held = there

    client.run(hold, there=shared, workers=[victim])
    parts = client.map(make, range(6), size=1 << 16, workers=[victim], allow_other_workers=True, pure=False)
    distributed.wait(parts)
    there = client.scatter(shared, broadcast=True)  # arguments of submit() stay with the scheduler
    futures = [client.submit(slow, i, there, pure=False) for i in range(30)]
    while not any(f.done() for f in futures):
        time.sleep(0.01)
    os.kill(pids[victim], signal.SIGKILL)
    assert client.gather(futures) == [200 + i for i in range(30)]
    found = client.gather(client.map(values, parts, pure=False))  # results it had are computed again
    assert [v[0] for v in found] == [{i} for i in range(6)]
    client.wait_for_workers(2)
    del futures, parts, found, there
    shared.close(stream)
    while pool.attributes.used_mem_current:  # what the dead worker had open, and what others have, comes back
        stream.sync()
        gc.collect()
        time.sleep(0.02)


def test_thousands_of_buffers_between_workers_leave_memory_flat(client, resident):
    first, second = workers(client)
    pids = client.run(os.getpid)

    def turn(start: int, count: int) -> None:
        """Makes on one worker, reads on the other, drops both."""
        made = client.map(make, range(start, start + count), size=1 << 16, workers=[first], pure=False)
        made = [client.submit(lambda b: b, m, workers=[second], pure=False) for m in made]
        found = client.gather(client.map(values, made, workers=[second], pure=False))
        assert [v[0] for v in found] == [{i} for i in range(start, start + count)]

    def sizes() -> list[int]:
        used = client.run(in_use)
        assert sum(used.values()) <= 16 << 20, used
        return [resident(pid) for pid in pids.values()]

    for _ in range(4):
        turn(0, 25)
    before = sizes()
    for i in range(TURNS // 25):
        turn(i % 8 * 25, 25)
    after = sizes()
    grown = [b - a for a, b in zip(before, after, strict=True)]
    assert max(grown) < max(48 << 20, TURNS * (1 << 16) // 8), grown  # kept buffers would be 64 KiB each


def test_local_cuda_cluster_runs_on_cpu_devices(tmp_path):
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    script = tmp_path / "cluster.py"
    script.write_text(
        """
import os, sys
import numpy as np

def work(value):
    from cuda.core import Device
    device = Device()
    device.set_current()
    stream = device.create_stream()
    buffer = device.allocate(8 << 20, stream=stream)
    buffer.fill(value, stream=stream)
    return buffer

def total(buffer):
    from cuda.core import Device
    device = Device()
    device.set_current()
    stream = device.create_stream()
    back = np.empty(buffer.size, np.uint8)
    buffer.copy_to(back, stream=stream)
    return int(back.sum(dtype=np.int64)) // buffer.size, device.uuid

def spilled(dask_worker):
    return len(dask_worker.data.device_buffer.fast), len(dask_worker.data.device_buffer.slow)

if __name__ == "__main__":
    from dask_cuda import LocalCUDACluster
    from distributed import Client, wait
    with LocalCUDACluster(n_workers=2, device_memory_limit="40MB", dashboard_address=None) as cluster, Client(cluster) as client:
        seen = client.run(lambda: os.environ["CUDA_VISIBLE_DEVICES"])
        made = client.map(work, range(16), pure=False)
        wait(made)
        found = client.gather(client.map(total, made, pure=False))
        print(sorted(seen.values()), [v for v, _ in found], len({u for _, u in found}), client.run(spilled).values())
"""
    )
    done = subprocess.run(
        [sys.executable, "-m", "cucore", "run", "--cpu", str(script)],
        env=os.environ | {"CUCORE_CPU_DEVICES": "2", "CUCORE_CPU_THREADS": "1", "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"['0,1', '1,0'] {list(range(16))} 2 "), done.stdout
    counts = [
        int(n) for n in done.stdout.rpartition("[")[2].replace("(", "").replace(")", "").replace("]", "").split(",")
    ]
    assert counts[1] + counts[3] >= 4, done.stdout  # 128 MB on devices of 40 MB each: the rest is on the host
