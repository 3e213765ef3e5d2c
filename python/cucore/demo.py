"""`cucore demo`: one kernel from source text to a checked result, with what happened on the way."""

from __future__ import annotations

import sys
import time
import warnings

SOURCE = r"""
extern "C" __global__ void saxpy(float a, const float* x, const float* y, float* out, size_t n) {
    size_t i = threadIdx.x + size_t{blockIdx.x} * blockDim.x;
    if (i < n) out[i] = a * x[i] + y[i];
}
"""


def step(title: str) -> None:
    if sys.stdout.isatty():
        print(f"  {title} ...", end="\r", flush=True)


def line(title: str, text: str) -> None:
    print(f"  {title:<16} {text}")


def demo(n: int = 1 << 22) -> int:
    import numpy as np

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the CPU device is named below
        from cuda.core import Device, EventOptions, LaunchConfig, PinnedMemoryResource, Program, ProgramOptions, launch

        device = Device()
        device.set_current()
    print("saxpy: out = a * x + y, in CUDA C++")
    line("device", f"{device.name}, compute capability {'.'.join(map(str, device.compute_capability))}")

    step("compiling")
    start = time.perf_counter()
    options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
    kernel = Program(SOURCE, code_type="c++", options=options).compile("cubin").get_kernel("saxpy")
    line("compiled in", f"{(time.perf_counter() - start) * 1e3:.1f} ms")

    stream = device.create_stream()
    random = np.random.default_rng(1)
    nbytes = n * 4
    pinned = PinnedMemoryResource()
    host = [pinned.allocate(nbytes, stream=stream) for _ in range(3)]
    stream.sync()
    x, y, result = (np.frombuffer(memoryview(buffer), np.float32) for buffer in host)
    x[:] = random.random(n, dtype=np.float32)
    y[:] = random.random(n, dtype=np.float32)
    buffers = [device.allocate(nbytes, stream=stream) for _ in range(3)]
    for buffer, data in zip(buffers[:2], host[:2], strict=True):
        buffer.copy_from(data, stream=stream)

    config = LaunchConfig(grid=(n + 255) // 256, block=256)
    arguments = (np.float32(2.5), *buffers, np.uint64(n))
    step("first launch (machine code is made now)")
    start = time.perf_counter()
    launch(stream, config, kernel, *arguments)
    stream.sync()
    line("first launch", f"{(time.perf_counter() - start) * 1e3:.1f} ms, machine code included")

    repeats = 20
    timing = EventOptions(timing_enabled=True)
    begin = stream.record(options=timing)
    for _ in range(repeats):
        launch(stream, config, kernel, *arguments)
    end = stream.record(options=timing)
    end.sync()
    milliseconds = (end - begin) / repeats
    line("kernel time", f"{milliseconds:.3f} ms for {n:,} elements")
    line("bandwidth", f"{3 * nbytes / milliseconds / 1e6:.1f} GB/s")

    buffers[2].copy_to(host[2], stream=stream)
    stream.sync()
    expected = np.float32(2.5) * x + y
    right = bool(np.allclose(result, expected, rtol=1e-6))
    line("against NumPy", "✓ equal" if right else "✗ DIFFERENT")
    return 0 if right else 1
