"""Managed memory: one address for host and device, and hints about where it should be."""

from __future__ import annotations

import numpy as np
from cuda.core import Device, Host, LaunchConfig, ManagedMemoryResource, Program, ProgramOptions, launch

SOURCE = r"""
extern "C" __global__ void smooth(const float* in, float* out, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i < n) out[i] = (in[max(i - 1, 0)] + in[i] + in[min(i + 1, n - 1)]) / 3;
}
"""


def main(n: int = 10_000) -> None:
    device = Device()
    device.set_current()
    stream = device.create_stream()
    kernel = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin").get_kernel("smooth")

    memory = ManagedMemoryResource()
    source, target = (memory.allocate(4 * n, stream=stream) for _ in range(2))
    stream.sync()
    x, y = (np.from_dlpack(buffer).view(np.float32) for buffer in (source, target))
    x[:] = np.random.default_rng(5).random(n)  # the host writes in place: nothing is copied by hand

    source.prefetch(device, stream=stream)  # move it before it is needed
    launch(stream, LaunchConfig(grid=(n + 255) // 256, block=256), kernel, source, target, np.int32(n))
    target.prefetch(Host(), stream=stream)  # and back, while the host does something else
    stream.sync()

    padded = np.pad(x, 1, mode="edge")
    assert np.allclose(y, (padded[:-2] + padded[1:-1] + padded[2:]) / 3, atol=1e-6)
    print(f"{device.name}: smoothed {n:,} numbers in managed memory")


if __name__ == "__main__":
    main()
