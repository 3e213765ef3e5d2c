"""MPI: heat in a plate that is split over processes, which exchange their border rows in every step.

    CUCORE_CPU_DEVICES=4 mpiexec -n 4 python examples/python/mpi_halo.py

Messages are in pinned memory: kernels write and read it in place, and any MPI can send it, on CPU devices and on GPUs.
"""

from __future__ import annotations

import numpy as np
from cuda.core import Device, LaunchConfig, PinnedMemoryResource, Program, ProgramOptions, launch

SOURCE = r"""
// One step of the heat equation on rows 1..rows of a slab; rows 0 and rows + 1 are the neighbours' borders.
extern "C" __global__ void heat_step(const float* above, const float* below, const float* in, float* out, float* top,
                                float* bottom, int rows, int columns) {
    int x = threadIdx.x + blockIdx.x * blockDim.x, y = blockIdx.y;
    if (x >= columns) return;
    auto at = [&](int row, int column) {
        if (column < 0 || column >= columns) return 0.0f;
        if (row < 0) return above[column];
        if (row >= rows) return below[column];
        return in[row * columns + column];
    };
    float value = at(y, x) + 0.2f * (at(y - 1, x) + at(y + 1, x) + at(y, x - 1) + at(y, x + 1) - 4 * at(y, x));
    out[y * columns + x] = value;
    if (y == 0) top[x] = value;  // what the neighbours need of this slab
    if (y == rows - 1) bottom[x] = value;
}
"""


def reference(plate: np.ndarray, steps: int) -> np.ndarray:
    for _ in range(steps):
        wide = np.pad(plate, 1)
        sides = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
        plate = (plate + np.float32(0.2) * (sides - 4 * plate)).astype(np.float32)
    return plate


def main(columns: int = 256, total_rows: int = 256, steps: int = 20) -> None:
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # not installed, or there is no MPI library
        print(f"skipped: mpi4py: {str(error).splitlines()[0]}")
        return
    comm = MPI.COMM_WORLD
    devices = Device.get_all_devices()
    device = devices[comm.rank % len(devices)]
    device.set_current()
    stream = device.create_stream()
    program = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{device.arch}", std="c++17"))
    kernel = program.compile("cubin").get_kernel("heat_step")

    plate = np.random.default_rng(1).random((total_rows, columns), np.float32)
    slabs = np.array_split(plate, comm.size)
    slab = slabs[comm.rank].copy()
    rows = len(slab)
    here, there = (device.allocate(slab.nbytes, stream=stream) for _ in range(2))
    here.copy_from(slab, stream=stream)
    pinned = PinnedMemoryResource()
    above, below, top, bottom = (pinned.allocate(4 * columns, stream=stream) for _ in range(4))
    for border, row in ((above, None), (below, None), (top, slab[0]), (bottom, slab[-1])):
        stream.sync()
        np.from_dlpack(border).view(np.float32)[:] = 0 if row is None else row

    up = comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL
    down = comm.rank + 1 if comm.rank < comm.size - 1 else MPI.PROC_NULL
    config = LaunchConfig(grid=((columns + 127) // 128, rows), block=128)
    for _ in range(steps):
        stream.sync()  # the borders are in pinned memory now
        comm.Sendrecv([top, MPI.FLOAT], up, recvbuf=[below, MPI.FLOAT], source=down)
        comm.Sendrecv([bottom, MPI.FLOAT], down, recvbuf=[above, MPI.FLOAT], source=up)
        launch(stream, config, kernel, above, below, here, there, top, bottom, np.int32(rows), np.int32(columns))
        here, there = there, here
    here.copy_to(slab, stream=stream)
    stream.sync()

    heat = comm.allreduce(float(slab.sum(dtype=np.float64)), MPI.SUM)
    parts = comm.gather(slab, root=0)
    if comm.rank == 0:
        expected = reference(plate, steps)
        assert np.allclose(np.concatenate(parts or []), expected, atol=1e-5)
        assert abs(heat - expected.sum(dtype=np.float64)) < 1
        print(f"{comm.size} processes computed {steps} steps of a plate of {total_rows} x {columns}")


if __name__ == "__main__":
    main()
