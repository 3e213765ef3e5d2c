# SPDX-License-Identifier: Apache-2.0
"""MPI: a job of four processes on CPU devices sends and reduces pinned and device memory through mpi4py."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mpi4py", reason="mpi4py is not installed")
pytestmark = pytest.mark.cpu_only  # needs several devices
ROOT = Path(__file__).resolve().parents[3]

PRELUDE = """
import sys
import numpy as np
from mpi4py import MPI
from cuda.core import Device, LaunchConfig, PinnedMemoryResource, Program, ProgramOptions, launch
from cuda.core.utils import StridedMemoryView
comm = MPI.COMM_WORLD
device = Device(comm.rank)
device.set_current()
stream = device.create_stream()
def make(values, pinned):
    data = np.asarray(values, np.float32)
    buffer = (PinnedMemoryResource() if pinned else device.memory_resource).allocate(data.nbytes, stream=stream)
    buffer.copy_from(data, stream=stream)
    stream.sync()
    return buffer
def read(buffer, dtype=np.float32):
    back = np.empty(buffer.size // np.dtype(dtype).itemsize, dtype)
    buffer.copy_to(back, stream=stream)
    return back
"""


def run(source: str, tmp_path: Path, processes: int = 4) -> str:
    mpiexec = Path(sys.executable).with_name("mpiexec")
    command = str(mpiexec) if mpiexec.exists() else shutil.which("mpiexec")
    if command is None:
        pytest.skip("there is no mpiexec")
    script = tmp_path / "job.py"
    script.write_text(PRELUDE + source + "\nimport os; os.write(1, f'rank {comm.rank} is done\\n'.encode())\n")
    done = subprocess.run(
        [command, "-n", str(processes), sys.executable, str(script)],
        env=os.environ | {"CUCORE_CPU_DEVICES": "4", "CUCORE_CPU_THREADS": "1", "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(line for line in done.stdout.splitlines() if line.startswith("rank")) == [
        f"rank {i} is done" for i in range(processes)
    ], done.stdout + done.stderr
    return done.stdout


def test_processes_send_reduce_and_gather_memory_of_both_kinds(tmp_path):
    run(
        """
for pinned in (True, False):
    for count in (1, 1000, 300_000):  # through shared memory, and by rendezvous
        mine = make(np.arange(count) + comm.rank, pinned)
        # a ring
        theirs = make(np.zeros(count), pinned)
        comm.Sendrecv([mine, MPI.FLOAT], (comm.rank + 1) % comm.size, recvbuf=[theirs, MPI.FLOAT], source=(comm.rank - 1) % comm.size)
        assert np.array_equal(read(theirs), np.arange(count, dtype=np.float32) + (comm.rank - 1) % comm.size)
        # reductions
        total = make(np.zeros(count), pinned)
        comm.Allreduce([mine, MPI.FLOAT], [total, MPI.FLOAT], MPI.SUM)
        assert np.array_equal(read(total), 4 * np.arange(count, dtype=np.float32) + 6), (pinned, count)
        comm.Allreduce(MPI.IN_PLACE, [mine, MPI.FLOAT], MPI.MAX)
        assert np.array_equal(read(mine), np.arange(count, dtype=np.float32) + 3)
        # collectives
        comm.Bcast([theirs, MPI.FLOAT], root=2)
        assert np.array_equal(read(theirs), np.arange(count, dtype=np.float32) + 1)
        every = make(np.zeros(4 * count), pinned)
        comm.Allgather([theirs, MPI.FLOAT], [every, MPI.FLOAT])
        assert np.array_equal(read(every), np.tile(np.arange(count, dtype=np.float32) + 1, 4))
        request = comm.Isend([mine, MPI.FLOAT], comm.rank)
        comm.Recv([theirs, MPI.FLOAT], comm.rank)
        request.wait()
        assert np.array_equal(read(theirs), read(mine))
""",
        tmp_path,
    )


def test_views_and_plain_buffers_have_the_types_mpi_expects(tmp_path):
    run(
        """
for pinned in (True, False):
    buffer = make(np.full(64, comm.rank), pinned)
    view = StridedMemoryView.from_buffer(buffer, (8, 8), dtype=np.float32)
    got = make(np.zeros(64), pinned)
    into = StridedMemoryView.from_buffer(got, (8, 8), dtype=np.float32)
    comm.Allreduce(view, into, MPI.SUM)  # the type comes with the view
    assert (read(got) == 6).all()
    comm.Bcast(buffer, root=3)  # bytes
    assert (read(buffer) == 3).all()
""",
        tmp_path,
    )


def test_pickled_objects_travel(tmp_path):
    run(
        """
source = 'extern "C" __global__ void add(float* at, int value) { at[threadIdx.x] += value; }'
kernel = None
if comm.rank == 0:
    kernel = Program(source, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin").get_kernel("add")
kernel = comm.bcast(kernel)
buffer = comm.bcast(make(np.arange(32), False) if comm.rank == 0 else None)
launch(stream, LaunchConfig(grid=1, block=32), kernel, buffer, np.int32(comm.rank))
assert np.array_equal(read(buffer), np.arange(32, dtype=np.float32) + comm.rank)
assert buffer.device_id == comm.rank
""",
        tmp_path,
    )


@pytest.mark.parametrize("processes", [1, 3, 4])
def test_halo_example_agrees_with_one_process(tmp_path, processes):
    mpiexec = Path(sys.executable).with_name("mpiexec")
    command = str(mpiexec) if mpiexec.exists() else shutil.which("mpiexec")
    if command is None:
        pytest.skip("there is no mpiexec")
    done = subprocess.run(
        [command, "-n", str(processes), sys.executable, str(ROOT / "examples/python/mpi_halo.py")],
        env=os.environ | {"CUCORE_CPU_DEVICES": "4", "CUCORE_CPU_THREADS": "1", "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{processes} processes computed")
