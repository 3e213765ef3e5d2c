"""Captures a chain of kernels once, replays it many times, and shows what that saves."""

import ctypes
import time

from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

SOURCE = r"""
extern "C" __global__ void step(float* x, float a, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i < n) x[i] = x[i] * a + 1.0f;
}
"""
N, STEPS, REPLAYS = 1 << 12, 20, 50


def main() -> None:
    device = Device()
    device.set_current()
    stream = device.create_stream()
    kernel = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin").get_kernel("step")
    config = LaunchConfig(grid=(N + 255) // 256, block=256)
    data = device.allocate(4 * N, stream=stream)
    data.fill(0, stream=stream)

    builder = stream.create_graph_builder().begin_building()
    for _ in range(STEPS):
        launch(builder, config, kernel, data, ctypes.c_float(0.5), ctypes.c_int(N))
    graph = builder.end_building().complete()
    graph.upload(stream)

    begin = time.perf_counter()
    for _ in range(REPLAYS):
        graph.launch(stream)
    queued = time.perf_counter() - begin
    stream.sync()

    result = (ctypes.c_float * N)()
    data.copy_to(result, stream=stream)
    assert all(abs(value - 2.0) < 1e-5 for value in result)  # the fixed point of x/2 + 1
    print(f"{device.name}: {REPLAYS} launches of {STEPS} kernels queued in {1e6 * queued / REPLAYS:.1f} us each")
    graph.close()
    data.close(stream)
    stream.close()


if __name__ == "__main__":
    main()
