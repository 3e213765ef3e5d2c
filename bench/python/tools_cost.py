# SPDX-License-Identifier: Apache-2.0
"""What the tools cost: the time of kernels on the CPU device with each of them, against the plain run.

    python bench/python/tools_cost.py [--rounds N] [--json FILE] [--docs docs/benchmarks/tools.md] [--modes MODE,...] [KERNEL...]

Every mode runs in a process of its own, on one host thread, and processor time is measured: the numbers depend little on the load of
the machine. A kernel runs until it has taken a fifth of a second; the fastest of five such runs, and of all rounds, counts. Modes that
run a kernel thread by thread (debug mode, random schedules) have fewer elements, and are compared with a plain run of as many. Random
schedules differ: seed and number of the launch decide how often threads switch and how many blocks are resident. So each of twenty seeds
runs once, always as the same launch of the process, and their median counts. Modes with a goal get a verdict; the exit status is 1 if one
is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tables import replace_table

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

extern "C" __global__ void histogram(float* y, const float* x, float a, int n) {
  __shared__ unsigned bins[256];
  bins[threadIdx.x] = 0;
  __syncthreads();
  for (int i = threadIdx.x + blockIdx.x * blockDim.x; i < n; i += blockDim.x * gridDim.x)
    atomicAdd(&bins[(int)(x[i] * 255.0f)], 1u);
  __syncthreads();
  atomicAdd((unsigned*)y + threadIdx.x, bins[threadIdx.x]);
}
"""
MANY, FEW = 1 << 20, 1 << 14  # elements
SEEDS = 20


def shapes(elements: int) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Grid and block of each kernel."""
    line = ((elements // 256,), (256,))
    return {
        "saxpy": line,
        "block_sum": line,
        "escape": line,
        "stencil": ((1024 // 16, elements // 1024 // 16), (16, 16)),
        "matmul": ((16, 16) if elements == MANY else (4, 4), (16, 16)),
        "histogram": ((64,), (256,)),
    }


# mode: its variables, and how many elements its kernels have. {folder} is a folder for its files.
MODES: dict[str, tuple[dict[str, str], int]] = {
    "coverage": ({"CUCORE_COVERAGE": "{folder}"}, MANY),
    "timeline": ({"CUCORE_TRACE": "{folder}/trace.json"}, MANY),
    "debug": ({"CUCORE_DEBUG": "1"}, FEW),
    "schedules": ({"CUCORE_CPU_SCHEDULE": "seed:0"}, FEW),
    "memory": ({"CUCORE_CHECK": "memory"}, MANY),
    "init": ({"CUCORE_CHECK": "init"}, MANY),
    "race": ({"CUCORE_CHECK": "race"}, MANY),
    "sync": ({"CUCORE_CHECK": "sync"}, MANY),
    "all checks": ({"CUCORE_CHECK": "all"}, MANY),
}


# The most that a mode may take, times the plain run.
GOALS = {"coverage": 3, "memory": 4, "all checks": 25}


def measure(names: list[str], elements: int) -> dict[str, list[float]]:
    """Seconds per launch, in this process: one number for each kernel, or one for each seed."""
    import numpy as np
    from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

    device = Device()
    device.set_current()
    stream = device.create_stream()
    options = ProgramOptions(arch=f"sm_{device.arch}")
    code = Program(SOURCE, "c++", options).compile("cubin")
    x = device.allocate(4 * MANY, stream=stream)
    y = device.allocate(4 * MANY, stream=stream)
    x.copy_from(np.linspace(0, 1, MANY, dtype=np.float32), stream=stream)
    y.fill(0, stream=stream)
    result = {}
    for name in names:
        kernel = code.get_kernel(name)
        grid, block = shapes(elements)[name]
        config = LaunchConfig(grid=grid, block=block)

        def run(times: int, kernel=kernel, config=config) -> float:
            start = time.process_time()
            for _ in range(times):
                launch(stream, config, kernel, y, x, np.float32(0.5), np.int32(elements))
            stream.sync()
            return (time.process_time() - start) / times

        run(1)  # compiles
        if "CUCORE_CPU_SCHEDULE" in os.environ:
            result[name] = []
            for seed in range(SEEDS):  # every launch reads the variable
                os.environ["CUCORE_CPU_SCHEDULE"] = f"seed:{seed}"
                result[name].append(run(1))
            continue
        first = run(1)
        if first < 0.2:
            run(3)
            first = run(1)
        times = max(1, int(0.2 / first))
        result[name] = [min(run(times) for _ in range(5)) if first < 1 else first]
    return result


def measure_mode(variables: dict[str, str], names: list[str], elements: int) -> dict[str, list[float]]:
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, CUCORE_DEVICE="cpu", CUCORE_CPU_TIER="optimized", CUCORE_CPU_THREADS="1")
        environment |= {name: value.format(folder=folder) for name, value in variables.items()}
        command = [sys.executable, __file__, "--measure", str(elements), *names]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return {name: [float(one) for one in seconds] for name, seconds in json.loads(done.stdout).items()}


def fastest(rounds: list[dict[str, list[float]]]) -> dict[str, list[float]]:
    return {name: [min(times) for times in zip(*(one[name] for one in rounds), strict=True)] for name in rounds[0]}


def verdicts(ratios: dict[str, dict[str, float]]) -> list[tuple[str, int, str, float]]:
    """Mode, goal, and the kernel with the largest ratio of each mode that has a goal."""
    worst = {mode: max(ratios[mode].items(), key=lambda item: item[1]) for mode in ratios if mode in GOALS}
    return [(mode, GOALS[mode], kernel, ratio) for mode, (kernel, ratio) in worst.items()]


def shown(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio < 10 else f"{ratio:,.0f}"


def markdown(ratios: dict[str, dict[str, float]], seeds: dict[str, list[float]], rounds: int) -> str:
    """`seeds`: the ratios of all schedules, by kernel."""
    modes, kernels = list(ratios), list(next(iter(ratios.values())))
    lines = [f"{platform.machine()}, Python {platform.python_version()}, best of {rounds} rounds.", ""]
    lines += ["| kernel | " + " | ".join(modes) + " |", "|---" * (len(modes) + 1) + "|"]
    lines += [f"| {name} | " + " | ".join(shown(ratios[mode][name]) for mode in modes) + " |" for name in kernels]
    lines += ["", "| mode | goal | largest ratio | verdict |", "|---|---|---|---|"]
    for mode, goal, kernel, ratio in verdicts(ratios):
        lines.append(f"| {mode} | {goal} | {shown(ratio)} ({kernel}) | {'met' if ratio <= goal else 'missed'} |")
    if seeds:
        lines += ["", f"| schedules with {SEEDS} seeds | fastest | median | slowest |", "|---|---|---|---|"]
        for name, all_ratios in seeds.items():
            numbers = min(all_ratios), statistics.median(all_ratios), max(all_ratios)
            lines.append(f"| {name} | " + " | ".join(shown(number) for number in numbers) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument(
        "--docs", metavar="FILE", help="writes the ratios into this page, under the machine's architecture"
    )
    parser.add_argument("--modes", help=f"of {', '.join(MODES)}; all of them by default")
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    parser.add_argument("kernels", nargs="*", metavar="KERNEL")
    arguments = parser.parse_args()
    names = arguments.kernels or list(shapes(MANY))
    if arguments.measure:
        print(json.dumps(measure(names, arguments.measure)))
        return
    modes = {mode: MODES[mode] for mode in (arguments.modes.split(",") if arguments.modes else MODES)}
    sizes = {elements for _, elements in modes.values()} | {MANY}
    runs: dict[object, list[dict[str, list[float]]]] = {key: [] for key in (*sizes, *modes)}
    for _ in range(arguments.rounds):  # a plain run next to each of the others
        for elements in sizes:
            runs[elements].append(measure_mode({}, names, elements))
        for mode, (variables, elements) in modes.items():
            runs[mode].append(measure_mode(variables, names, elements))
    best = {key: fastest(times) for key, times in runs.items()}
    plain = {elements: {name: best[elements][name][0] for name in names} for elements in sizes}
    ratios = {
        mode: {name: statistics.median(best[mode][name]) / plain[elements][name] for name in names}
        for mode, (_, elements) in modes.items()
    }
    seeds = {}
    if "schedules" in modes:
        seeds = {name: [time / plain[FEW][name] for time in best["schedules"][name]] for name in names}
    print(f"{'kernel':<12}{'plain':>12}" + "".join(f"{mode:>12}" for mode in modes))
    for name in names:
        print(
            f"{name:<12}{1e6 * plain[MANY][name]:>9.0f} us" + "".join(f"{ratios[mode][name]:>11.2f}x" for mode in modes)
        )
    for mode, goal, kernel, ratio in verdicts(ratios):
        print(f"{mode}: at most {ratio:.2f}x ({kernel}), goal {goal}x: {'met' if ratio <= goal else 'missed'}")
    if arguments.json:
        names_of = {MANY: "plain", FEW: f"plain, {FEW} elements"}
        written = {names_of.get(key, key): times for key, times in best.items()}
        Path(arguments.json).write_text(json.dumps(written, indent=1) + "\n")
    if arguments.docs:
        replace_table(Path(arguments.docs), platform.machine(), markdown(ratios, seeds, arguments.rounds))
    if any(ratio > goal for _, goal, _, ratio in verdicts(ratios)):
        sys.exit(1)


if __name__ == "__main__":
    main()
