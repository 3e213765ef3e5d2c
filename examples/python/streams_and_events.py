"""Two streams take turns on the chunks of a large job, so that copies overlap with kernels; events order and time it."""

from __future__ import annotations

import asyncio

import numpy as np
from cuda.core import Device, EventOptions, LaunchConfig, PinnedMemoryResource, Program, ProgramOptions, launch

SOURCE = r"""
extern "C" __global__ void work(float* x, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i >= n) return;
  float value = x[i];
  for (int step = 0; step < 200; ++step) value = value * 0.5f + 1.0f;  // converges to 2
  x[i] = value;
}
"""
CHUNK, CHUNKS = 1 << 14, 8


async def main() -> None:
    device = Device()
    device.set_current()
    kernel = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin").get_kernel("work")
    config = LaunchConfig(grid=CHUNK // 256, block=256)
    streams = [device.create_stream(), device.create_stream()]
    first, second = streams

    # Only page-locked host memory is copied while the host continues.
    host = PinnedMemoryResource().allocate(4 * CHUNK * CHUNKS, stream=first)
    first.sync()
    data = np.from_dlpack(host).view(np.float32).reshape(CHUNKS, CHUNK)
    data[:] = np.arange(CHUNKS)[:, None]
    buffers = [device.allocate(4 * CHUNK, stream=stream) for stream in streams]

    timed = EventOptions(timing_enabled=True)
    start = first.record(options=timed)
    second.wait(start)  # neither begins before the clock does
    for i in range(CHUNKS):
        stream, buffer = streams[i % 2], buffers[i % 2]
        buffer.copy_from(data[i], stream=stream)
        launch(stream, config, kernel, buffer, np.int32(CHUNK))
        buffer.copy_to(data[i], stream=stream)  # while the other stream computes
    first.wait(second)  # join them again
    end = first.record(options=timed)

    await end  # other tasks of this event loop run meanwhile
    assert np.allclose(data, 2.0)
    print(f"{device.name}: {CHUNKS} chunks of {CHUNK * 4 >> 10} KiB on two streams in {end - start:.3f} ms")


if __name__ == "__main__":
    asyncio.run(main())
