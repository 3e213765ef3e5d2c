"""Runs every benchmark of what a call costs, all sides interleaved in one run, and prints ratios.

    python bench/run.py [--rounds N] [--json FILE] [--svg FILE] [--build FOLDER]

Sides: `driver` (the C API), `C++` (our library), `ours` (our Python packages), `NVIDIA` (their Python packages, where they are
installed; found in the interpreter's own site-packages behind ours). Each round runs every side once, in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent

# Goals on a GPU in nanoseconds: beyond the C call (+) or whole. From the project's speed table.
GOALS = {
    "launch_3": "+150", "graph_launch_20": "+150", "event_record": "+40", "stream_wait": "+40", "alloc_free_4k": "+100",
    "b_device_get_count": "+35", "b_device_get_attribute": "+35", "b_stream_query": "+35", "b_launch_ctypes": "+400",
    "device": "40", "get_kernel": "120", "launch_config": "120",
}  # fmt: skip


def sides(build: Path, device: str) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Side name -> command and environment, for those that can run here."""
    ours = os.environ.get("PYTHONPATH", "")
    result: dict[str, tuple[list[str], dict[str, str]]] = {}
    environment = dict(os.environ, CUCORE_DEVICE=device)
    raw = build / "bench/cpp/overhead/bench_overhead_raw"
    library = "libcuda.so.1"
    if device == "cpu":
        import cucore

        library = str(cucore.CPU_DRIVER_FOLDER / "libcuda.so.1")
        environment["CUCORE_CPU_LIBRARY"] = str(cucore.LIBRARY_FOLDER / "libcucore_cpu.so")  # the build folder's libraries lie apart
    if raw.exists():
        result["driver"] = ([str(raw), library], environment)
    core = build / "bench/cpp/overhead/bench_overhead_core"
    if core.exists():
        result["C++"] = ([str(core)], environment)
    result["ours"] = ([sys.executable, str(HERE / "python/overhead.py")], environment)
    if device == "gpu" and ours:
        without = {k: v for k, v in environment.items() if k != "PYTHONPATH"}
        probe = subprocess.run([sys.executable, "-c", "import cuda.core"], env=without, capture_output=True, cwd="/")
        if probe.returncode == 0:
            result["NVIDIA"] = ([sys.executable, str(HERE / "python/overhead.py")], without)
    return result


def import_time(module: str, environment: dict[str, str]) -> float:
    """Milliseconds that importing a module adds to a bare interpreter: best of several, since only noise adds."""

    def best(code: str) -> float:
        times = []
        for _ in range(7):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], env=environment, check=True, cwd="/", stderr=subprocess.DEVNULL)
            times.append(time.perf_counter() - start)
        return min(times) * 1e3

    return best(f"import {module}") - best("pass")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--build", type=Path)
    options = parser.parse_args()
    device = os.environ.get("CUCORE_DEVICE", "cpu")
    build = options.build or ROOT / ("build/gpu" if device == "gpu" else "build/dev")
    chosen = sides(build, device)
    samples: dict[str, dict[str, list[float]]] = {side: {} for side in chosen}
    for number in range(options.rounds):
        for side, (command, environment) in chosen.items():
            print(f"round {number + 1} of {options.rounds}: {side:<10}", end="\r", file=sys.stderr, flush=True)
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            if done.returncode != 0:
                print(f"{side} failed:\n{done.stderr[-2000:]}", file=sys.stderr)
                continue
            output = json.loads(done.stdout[done.stdout.index('{"results"') :])
            for name, values in output["results"].items():
                samples[side].setdefault(name, []).append(statistics.median(values))
            if number == 0:
                for name, reason in output["skipped"].items():
                    print(f"{side}: {name} left out: {reason}", file=sys.stderr)

    names = list(dict.fromkeys(name for side in ("ours", "driver") for name in samples.get(side, {})))
    print(f"\n{platform.machine()}, device {device}, {options.rounds} rounds, nanoseconds per call (median; spread over rounds in %)")
    print(f"{'call':<24}" + "".join(f"{side:>16}" for side in chosen) + f"{'ours-driver':>13}{'NVIDIA/ours':>13}{'goal':>7}")
    rows = {}
    for name in names:
        cells, row = "", {}
        for side in chosen:
            values = samples[side].get(name)
            if values:
                row[side] = statistics.median(values)
                spread = (max(values) - min(values)) / row[side] * 100 if row[side] else 0
                cells += f"{row[side]:>10.0f} ±{spread:3.0f}%"
            else:
                cells += f"{'':>16}"
        beyond = f"{row['ours'] - row['driver']:>13.0f}" if {"ours", "driver"} <= row.keys() else f"{'':>13}"
        ratio = f"{row['NVIDIA'] / row['ours']:>13.2f}" if {"ours", "NVIDIA"} <= row.keys() and row["ours"] else f"{'':>13}"
        print(f"{name:<24}{cells}{beyond}{ratio}{GOALS.get(name, ''):>7}")
        rows[name] = row
    imports = {}
    for side in ("ours", "NVIDIA"):
        if side in chosen:
            for module in ("cuda.core", "cuda.bindings.driver", "cuda.bindings.runtime", "cuda.pathfinder"):
                try:
                    imports.setdefault(module, {})[side] = import_time(module, chosen[side][1])
                except subprocess.CalledProcessError:
                    continue
    for module, row in imports.items():
        print(f"import {module:<24}" + "".join(f"  {side} {value:7.1f} ms" for side, value in row.items()))
    if options.json:
        facts = {"machine": platform.machine(), "python": platform.python_version(), "device": device, "rounds": options.rounds}
        options.json.write_text(json.dumps({"facts": facts, "calls": rows, "imports": imports}, indent=1))
    if options.svg:
        options.svg.write_text(plot(rows, list(chosen)))
    return 0


def plot(rows: dict[str, dict[str, float]], chosen: list[str]) -> str:
    """A bar chart, one group per call, on a logarithmic axis."""
    import math

    colours = {"driver": "#999999", "C++": "#4c72b0", "ours": "#55a868", "NVIDIA": "#c44e52"}
    height, left, width = 14 * len(chosen) + 10, 190, 560
    lines = []
    for index, (name, row) in enumerate(rows.items()):
        top = 30 + index * height
        lines.append(f'<text x="{left - 8}" y="{top + 14}" text-anchor="end">{name}</text>')
        for offset, side in enumerate(s for s in chosen if s in row):
            length = max(1.0, math.log10(max(row[side], 1)) / 6 * width)
            y = top + offset * 14
            lines.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="12" fill="{colours[side]}"/>')
            lines.append(f'<text x="{left + length + 4:.1f}" y="{y + 10}" font-size="10">{side} {row[side]:.0f} ns</text>')
    total = 40 + len(rows) * height
    body = "\n".join(lines)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 140}" height="{total}" '
        f'font-family="sans-serif" font-size="12">\n<text x="8" y="18">nanoseconds per call (logarithmic)</text>\n{body}\n</svg>\n'
    )


if __name__ == "__main__":
    sys.exit(main())
