"""A loop that runs on the device: a graph with a while node, whose kernel decides when it is done.

Newton's iteration for square roots. One launch of the graph runs as many steps as the slowest number needs.
"""

from __future__ import annotations

import numpy as np
from cuda import pathfinder
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

SOURCE = r"""
#include <cuda_device_runtime_api.h>
// One block: all threads take a step, then one of them decides whether the loop continues.
extern "C" __global__ void newton(cudaGraphConditionalHandle again, const float* a, float* x, int* steps) {
  const float before = x[threadIdx.x];
  const float after = 0.5f * (before + a[threadIdx.x] / before);
  x[threadIdx.x] = after;
  const int moving = __syncthreads_or(fabsf(after - before) > 1e-5f * after);
  if (threadIdx.x == 0) {
    *steps += 1;
    cudaGraphSetConditional(again, moving);
  }
}
"""


def main(n: int = 128) -> None:
    device = Device()
    device.set_current()
    stream = device.create_stream()
    headers = pathfinder.find_nvidia_header_directory("cudart")  # declares cudaGraphSetConditional
    options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}", include_path=headers)
    kernel = Program(SOURCE, "c++", options).compile("cubin").get_kernel("newton")

    numbers = np.arange(1, n + 1, dtype=np.float32)
    x, steps = np.ones(n, np.float32), np.zeros(1, np.int32)
    a_dev, x_dev = (device.allocate(numbers.nbytes, stream=stream) for _ in range(2))
    steps_dev = device.allocate(4, stream=stream)
    a_dev.copy_from(numbers, stream=stream)
    x_dev.copy_from(x, stream=stream)
    steps_dev.fill(0, stream=stream)

    builder = stream.create_graph_builder().begin_building()
    again = builder.create_condition(default_value=1)  # every launch starts with a first turn
    body = builder.while_loop(again).begin_building()
    launch(body, LaunchConfig(grid=1, block=n), kernel, again, a_dev, x_dev, steps_dev)
    body.end_building()
    graph = builder.end_building().complete()

    graph.launch(stream)
    x_dev.copy_to(x, stream=stream)
    steps_dev.copy_to(steps, stream=stream)
    stream.sync()
    assert np.allclose(x, np.sqrt(numbers), rtol=1e-5)
    assert 4 < steps[0] < 40
    print(f"{device.name}: {n} square roots in {steps[0]} steps, one launch")


if __name__ == "__main__":
    main()
