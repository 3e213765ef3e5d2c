"""Dask: a matrix product and a stencil over arrays that are split into blocks; kernels compute the blocks on all workers.

    CUCORE_CPU_DEVICES=2 python examples/python/dask_blocks.py     # two workers with a CPU device each, on any machine

Dask decides which worker computes which block, moves blocks between them, and exchanges the borders of neighbouring blocks
for the stencil.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

SOURCE = r"""
extern "C" __global__ void add_product(const float* a, const float* b, float* c, int n, int k) {  // c += a * b
    int column = threadIdx.x + blockIdx.x * blockDim.x, row = blockIdx.y;
    if (column >= n) return;
    float sum = c[row * n + column];
    for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + column];
    c[row * n + column] = sum;
}
extern "C" __global__ void heat_step(const float* in, float* out, int rows, int columns) {
    int x = threadIdx.x + blockIdx.x * blockDim.x, y = blockIdx.y;
    if (x >= columns) return;
    int i = y * columns + x;
    bool inside = x > 0 && y > 0 && x < columns - 1 && y < rows - 1;
    out[i] = inside ? in[i] + 0.2f * (in[i - 1] + in[i + 1] + in[i - columns] + in[i + columns] - 4 * in[i]) : in[i];
}
"""


@functools.cache
def setup() -> tuple[Device, Any, dict[str, Any]]:
    """The device of this worker, a stream and the kernels: made once in a process."""
    from distributed import get_worker

    devices = Device.get_all_devices()
    device = devices[int(get_worker().name) % len(devices)]
    device.set_current()
    code = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin")
    return device, device.create_stream(), {name: code.get_kernel(name) for name in ("add_product", "heat_step")}


def on_device(array: np.ndarray) -> Any:
    device, stream, _ = setup()
    buffer = device.allocate(array.nbytes, stream=stream)
    buffer.copy_from(np.ascontiguousarray(array), stream=stream)
    return buffer


def product(rows_of_a: list[np.ndarray], columns_of_b: list[np.ndarray]) -> np.ndarray:
    """One block of the product: the sum of the products of a row of blocks and a column of blocks."""
    device, stream, kernels = setup()
    device.set_current()
    m, n = rows_of_a[0].shape[0], columns_of_b[0].shape[1]
    c = device.allocate(4 * m * n, stream=stream)
    c.fill(0, stream=stream)
    for a, b in zip(rows_of_a, columns_of_b, strict=True):
        config = LaunchConfig(grid=((n + 127) // 128, m), block=128)
        launch(stream, config, kernels["add_product"], on_device(a), on_device(b), c, np.int32(n), np.int32(a.shape[1]))
    result = np.empty((m, n), np.float32)
    c.copy_to(result, stream=stream)
    stream.sync()
    return result


def heat_step(block: np.ndarray) -> np.ndarray:
    """A block with the borders of its neighbours, one step later."""
    device, stream, kernels = setup()
    device.set_current()
    rows, columns = block.shape
    out = device.allocate(block.nbytes, stream=stream)
    config = LaunchConfig(grid=((columns + 127) // 128, rows), block=128)
    launch(stream, config, kernels["heat_step"], on_device(block), out, np.int32(rows), np.int32(columns))
    result = np.empty_like(block, order="C")
    out.copy_to(result, stream=stream)
    stream.sync()
    return result


def main(n: int = 384, block: int = 128, steps: int = 4) -> None:
    try:
        import dask.array as da
        from distributed import Client, LocalCluster
    except ImportError:
        print("skipped: dask and distributed are not installed")
        return
    count = max(2, len(Device.get_all_devices()))
    with (
        LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        numbers = np.random.default_rng(1)
        a, b = (numbers.random((n, n), np.float32) for _ in range(2))
        blocks_a, blocks_b = (da.from_array(x, chunks=block) for x in (a, b))
        c = da.blockwise(product, "ij", blocks_a, "ik", blocks_b, "kj", dtype=np.float32, concatenate=False)
        assert np.allclose(c.compute(), a @ b, rtol=1e-4)

        plate = blocks_a
        for _ in range(steps):
            plate = da.map_overlap(
                heat_step, plate, depth=1, boundary=0.0, dtype=np.float32, meta=np.empty((0, 0), np.float32)
            )
        expected = a
        for _ in range(steps):
            wide = np.pad(expected, 1)
            sides = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
            expected = expected + np.float32(0.2) * (sides - 4 * expected)
        assert np.allclose(plate.compute(), expected, atol=1e-4)
        print(f"{count} workers computed {c.npartitions} blocks of a product and {steps} steps of a stencil")


if __name__ == "__main__":
    main()
