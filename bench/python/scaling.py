# SPDX-License-Identifier: Apache-2.0
"""How work scales over processes: a map and a halo exchange on 1 to 4 of them, and messages of several sizes.

    python bench/python/scaling.py [--docs docs/guide/scaling.md]

Every process has one CPU device with one thread. Prints tables, and writes them into the page between its `measured`
comments. Efficiency compares with what the cores of the machine allow: two processes on one core cannot be faster than one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from tables import replace_table

PROCESSES = (1, 2, 3, 4)
SIZES = (4 << 10, 64 << 10, 1 << 20, 16 << 20)
ROUNDS = 9
SOURCE = r"""
extern "C" __global__ void iterate(float* data, int n, int rounds) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i >= n) return;
    float value = data[i];
    for (int k = 0; k < rounds; ++k) value = value * 0.999f + 0.001f;
    data[i] = value;
}
"""


def setup() -> tuple[Any, Any]:
    from cuda.core import Device

    device = Device(0)
    device.set_current()
    return device, device.create_stream()


def task(kernel: Any, n: int, rounds: int) -> float:
    """A part of the map: only its number comes back."""
    from cuda.core import LaunchConfig, launch

    device, stream = setup()
    data = device.allocate(4 * n, stream=stream)
    data.fill(0, stream=stream)
    launch(stream, LaunchConfig(grid=(n + 255) // 256, block=256), kernel, data, np.int32(n), np.int32(rounds))
    back = np.empty(n, np.float32)
    data.copy_to(back, stream=stream)
    stream.sync()
    return float(back[0])


def make(size: int, pinned: bool, shared: bool = False) -> Any:
    from cuda.core import DeviceMemoryResource, DeviceMemoryResourceOptions, PinnedMemoryResource

    device, stream = setup()
    resource: Any = device.memory_resource
    if pinned:
        resource = PinnedMemoryResource()
    if shared:
        resource = DeviceMemoryResource(device, DeviceMemoryResourceOptions(ipc_enabled=True))
    buffer = resource.allocate(size, stream=stream)
    buffer.fill(1, stream=stream)
    stream.sync()
    return buffer


def touch(buffer: Any) -> int:
    return int(buffer.size)


def map_seconds(workers: int) -> float:
    """The shortest of several maps over a cluster of this many workers."""
    from cuda.core import Program, ProgramOptions
    from distributed import Client, LocalCluster

    kernel = Program(SOURCE, "c++", ProgramOptions(arch="sm_90")).compile("cubin").get_kernel("iterate")
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.run(task, kernel, 1 << 12, 100)  # compiles
        times = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            client.gather(client.map(task, [kernel] * 24, n=1 << 18, rounds=2000, pure=False))
            times.append(time.perf_counter() - start)
        return min(times)


def message_seconds(size: int) -> dict[str, float]:
    """How long a worker takes to get another one's buffer; the shortest of several."""
    from distributed import Client, LocalCluster, wait

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        first, second = sorted(client.scheduler_info(n_workers=-1)["workers"])
        found = {}
        kinds = {"device": (False, False), "pinned": (True, False), "reference": (False, True)}
        for name, (pinned, shared) in kinds.items():
            times = []
            for _ in range(ROUNDS + 1):
                made = client.submit(make, size, pinned, shared, workers=[first], pure=False)
                wait(made)
                start = time.perf_counter()
                client.submit(touch, made, workers=[second], pure=False).result()
                times.append(time.perf_counter() - start)
            found[name] = min(times)
        return found


def copy_seconds(size: int) -> float:
    source, target = np.ones(size, np.uint8), np.empty(size, np.uint8)
    times = []
    for _ in range(20):
        start = time.perf_counter()
        np.copyto(target, source)
        times.append(time.perf_counter() - start)
    return min(times)


def rank_main() -> None:
    """Runs in every process of an MPI job: a halo exchange and a ping-pong."""
    from cuda.core import LaunchConfig, PinnedMemoryResource, Program, ProgramOptions, launch
    from mpi4py import MPI

    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "python"))
    from mpi_halo import SOURCE as HEAT

    comm = MPI.COMM_WORLD
    device, stream = setup()
    kernel = Program(HEAT, "c++", ProgramOptions(arch="sm_90", std="c++17")).compile("cubin").get_kernel("heat_step")
    columns, rows, steps = 2048, 2048 // comm.size, 20
    pinned = PinnedMemoryResource()
    here, there = (device.allocate(4 * rows * columns, stream=stream) for _ in range(2))
    above, below, top, bottom = borders = [pinned.allocate(4 * columns, stream=stream) for _ in range(4)]
    for buffer in (here, there, *borders):
        buffer.fill(0, stream=stream)
    up = comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL
    down = comm.rank + 1 if comm.rank < comm.size - 1 else MPI.PROC_NULL
    config = LaunchConfig(grid=(columns // 128, rows), block=128)
    times = []
    for _ in range(ROUNDS):
        comm.Barrier()
        start = time.perf_counter()
        for _ in range(steps):
            stream.sync()
            comm.Sendrecv([top, MPI.FLOAT], up, recvbuf=[below, MPI.FLOAT], source=down)
            comm.Sendrecv([bottom, MPI.FLOAT], down, recvbuf=[above, MPI.FLOAT], source=up)
            launch(stream, config, kernel, above, below, here, there, top, bottom, np.int32(rows), np.int32(columns))
            here, there = there, here
        stream.sync()
        comm.Barrier()
        times.append(time.perf_counter() - start)
    answer: dict[str, Any] = {"halo": min(times), "messages": {}}
    if comm.size == 2:
        for size in SIZES:
            for name, memory in (("pinned", pinned), ("device", device.memory_resource)):
                buffer = memory.allocate(size, stream=stream)
                stream.sync()
                trips = []
                for _ in range(20):
                    comm.Barrier()
                    start = time.perf_counter()
                    if comm.rank == 0:
                        comm.Send([buffer, MPI.BYTE], 1)
                        comm.Recv([buffer, MPI.BYTE], 1)
                    else:
                        comm.Recv([buffer, MPI.BYTE], 0)
                        comm.Send([buffer, MPI.BYTE], 0)
                    trips.append((time.perf_counter() - start) / 2)
                answer["messages"][f"{name} {size}"] = min(trips)
    if comm.rank == 0:
        print("answer", json.dumps(answer), flush=True)


def mpi_job(processes: int) -> dict[str, Any]:
    mpiexec = Path(sys.executable).with_name("mpiexec")
    command = [
        str(mpiexec) if mpiexec.exists() else "mpiexec",
        "-n",
        str(processes),
        sys.executable,
        __file__,
        "--rank",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.partition("answer ")[2])
    return found


def efficiency(times: dict[int, float]) -> dict[int, int]:
    """Percent of what the cores of the machine allow."""
    cores = len(os.sched_getaffinity(0))
    return {n: round(100 * times[1] / (min(n, cores) * t)) for n, t in times.items()}


def shown(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def times(ratio: float) -> str:
    """Two digits."""
    digits = max(0, len(str(int(ratio))) - 2)
    return f"{round(ratio, -digits):.0f} ×" if ratio >= 10 else f"{ratio:.1f} ×"


def tables() -> str:
    maps = efficiency({n: map_seconds(n) for n in PROCESSES})
    jobs = {n: mpi_job(n) for n in PROCESSES}
    halos = efficiency({n: job["halo"] for n, job in jobs.items()})
    lines = [
        f"Measured on {len(os.sched_getaffinity(0))} cores by `bench/python/scaling.py`. Efficiency, of what the cores allow:",
        "",
        "| processes | " + " | ".join(str(n) for n in PROCESSES) + " |",
        "|---|" + "---|" * len(PROCESSES),
        "| a map of 24 tasks (Dask) | " + " | ".join(f"{maps[n]} %" for n in PROCESSES) + " |",
        "| a halo exchange, 2048 × 2048 (MPI) | " + " | ".join(f"{halos[n]} %" for n in PROCESSES) + " |",
        "",
        "A buffer from one process to another, against a copy of the same size inside a process (`np.copyto`):",
        "",
        "| size | MPI, pinned | MPI, device | Dask, pinned | Dask, device | Dask, by reference |",
        "|---|---|---|---|---|---|",
    ]
    for size in SIZES:
        copy, dask = copy_seconds(size), message_seconds(size)
        values = [jobs[2]["messages"][f"{name} {size}"] for name in ("pinned", "device")]
        values += [dask[name] for name in ("pinned", "device", "reference")]
        lines.append(f"| {shown(size)} | " + " | ".join(times(v / copy) for v in values) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", type=Path, help="the page to write the tables into")
    parser.add_argument("--rank", action="store_true", help="one process of an MPI job")
    given = parser.parse_args()
    os.environ.update(CUCORE_DEVICE="cpu", CUCORE_CPU_THREADS="1", PYTHONWARNINGS="ignore")
    if given.rank:
        rank_main()
        return
    text = tables()
    print(text)
    if given.docs:
        replace_table(given.docs, "measured", text)


if __name__ == "__main__":
    main()
