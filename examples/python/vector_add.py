"""Add two vectors: the whole path from CUDA C++ text to a checked result.

python examples/python/vector_add.py          # on a GPU or, with none, on the CPU device
"""

from __future__ import annotations

import numpy as np
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

SOURCE = r"""
extern "C" __global__ void add(const float* a, const float* b, float* c, size_t n) {
  size_t i = threadIdx.x + size_t{blockIdx.x} * blockDim.x;
  if (i < n) c[i] = a[i] + b[i];  // the last block has threads to spare
}
"""


def main(n: int = 100_000) -> None:
    device = Device()  # device 0, or what is current
    device.set_current()
    stream = device.create_stream()

    program = Program(SOURCE, "c++", ProgramOptions(std="c++17", arch=f"sm_{device.arch}"))
    kernel = program.compile("cubin").get_kernel("add")

    random = np.random.default_rng(1)
    a, b = random.random((2, n), dtype=np.float32)
    c = np.empty_like(a)

    # Device memory, taken from a pool and given back in stream order.
    with (
        device.allocate(a.nbytes, stream=stream) as a_dev,
        device.allocate(b.nbytes, stream=stream) as b_dev,
        device.allocate(c.nbytes, stream=stream) as c_dev,
    ):
        a_dev.copy_from(a, stream=stream)
        b_dev.copy_from(b, stream=stream)
        config = LaunchConfig(grid=(n + 255) // 256, block=256)
        launch(stream, config, kernel, a_dev, b_dev, c_dev, np.uint64(n))
        c_dev.copy_to(c, stream=stream)
        stream.sync()  # everything above was only queued

    assert np.array_equal(c, a + b)
    print(f"{device.name}: added {n:,} numbers")


if __name__ == "__main__":
    main()
