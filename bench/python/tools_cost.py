# SPDX-License-Identifier: Apache-2.0
"""What the tools cost: the time of kernels on the CPU device with kernel coverage and with a timeline, against the plain run.

    python bench/python/tools_cost.py [--json FILE] [KERNEL...]

Every mode runs in a process of its own, on one host thread, and processor time is measured: the numbers depend little on the load of
the machine. A kernel runs until it has taken a fifth of a second; the fastest of five such runs counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCE = r"""
extern "C" __global__ void saxpy(float* y, const float* x, float a, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

extern "C" __global__ void block_sum(float* y, const float* x, float, int n) {
  __shared__ float part[256];
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  part[threadIdx.x] = i < n ? x[i] : 0.0f;
  __syncthreads();
  for (int s = 128; s > 0; s /= 2) {
    if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}

extern "C" __global__ void escape(float* y, const float* x, float a, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i >= n) return;
  float cr = x[i] - 0.7f, ci = 0.3f + 0.0001f * (i % 64), r = 0, m = 0;
  int k = 0;
  while (k < 100 && r * r + m * m < 4.0f) {
    float t = r * r - m * m + cr;
    m = 2 * r * m + ci;
    r = t;
    ++k;
  }
  y[i] = k;
}

extern "C" __global__ void stencil(float* y, const float* x, float a, int n) {
  int w = 1024, h = n / w;
  int i = threadIdx.x + blockIdx.x * 16, j = threadIdx.y + blockIdx.y * 16;
  if (i > 0 && i < w - 1 && j > 0 && j < h - 1)
    y[j * w + i] = a * (x[j * w + i - 1] + x[j * w + i + 1] + x[(j - 1) * w + i] + x[(j + 1) * w + i]);
}

extern "C" __global__ void matmul(float* y, const float* x, float a, int n) {
  __shared__ float s[16][16], t[16][16];
  int w = 256;
  int i = threadIdx.x + blockIdx.x * 16, j = threadIdx.y + blockIdx.y * 16;
  float sum = 0;
  for (int k = 0; k < w; k += 16) {
    s[threadIdx.y][threadIdx.x] = x[j * w + k + threadIdx.x];
    t[threadIdx.y][threadIdx.x] = x[(k + threadIdx.y) * w + i];
    __syncthreads();
    for (int l = 0; l < 16; ++l) sum += s[threadIdx.y][l] * t[l][threadIdx.x];
    __syncthreads();
  }
  y[j * w + i] = sum;
}
"""
ELEMENTS = 1 << 20
# kernel: grid and block
SHAPES = {
    "saxpy": ((ELEMENTS // 256,), (256,)),
    "block_sum": ((ELEMENTS // 256,), (256,)),
    "escape": ((ELEMENTS // 256,), (256,)),
    "stencil": ((1024 // 16, 1024 // 16), (16, 16)),
    "matmul": ((16, 16), (16, 16)),
}
MODES = ("plain", "coverage", "timeline")


def measure(names: list[str]) -> dict[str, float]:
    """Seconds per launch, in this process."""
    import numpy as np
    from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

    device = Device()
    device.set_current()
    stream = device.create_stream()
    options = ProgramOptions(arch=f"sm_{device.arch}")
    code = Program(SOURCE, "c++", options).compile("cubin")
    x = device.allocate(4 * ELEMENTS, stream=stream)
    y = device.allocate(4 * ELEMENTS, stream=stream)
    x.copy_from(np.linspace(0, 1, ELEMENTS, dtype=np.float32), stream=stream)
    y.fill(0, stream=stream)
    result = {}
    for name in names:
        kernel = code.get_kernel(name)
        config = LaunchConfig(grid=SHAPES[name][0], block=SHAPES[name][1])

        def run(times: int, kernel=kernel, config=config) -> float:
            start = time.process_time()
            for _ in range(times):
                launch(stream, config, kernel, y, x, np.float32(0.5), np.int32(ELEMENTS))
            stream.sync()
            return (time.process_time() - start) / times

        run(3)
        times = max(1, int(0.2 / run(1)))
        result[name] = min(run(times) for _ in range(5))
    return result


def measure_mode(mode: str, names: list[str]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, CUCORE_DEVICE="cpu", CUCORE_CPU_TIER="optimized", CUCORE_CPU_THREADS="1")
        if mode == "coverage":
            environment["CUCORE_COVERAGE"] = folder
        if mode == "timeline":
            environment["CUCORE_TRACE"] = str(Path(folder, "trace.json"))
        command = [sys.executable, __file__, "--measure", *names]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return {name: float(seconds) for name, seconds in json.loads(done.stdout).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("kernels", nargs="*", metavar="KERNEL")
    arguments = parser.parse_args()
    names = arguments.kernels or list(SHAPES)
    if arguments.measure:
        print(json.dumps(measure(names)))
        return
    times = {mode: measure_mode(mode, names) for mode in MODES}
    print(f"{'kernel':<12}{'plain':>12}{'coverage':>12}{'timeline':>12}")
    for name in names:
        plain = times["plain"][name]
        ratios = "".join(f"{times[mode][name] / plain:>11.2f}x" for mode in MODES[1:])
        print(f"{name:<12}{1e6 * plain:>9.0f} us{ratios}")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(times, indent=1) + "\n")


if __name__ == "__main__":
    main()
