# SPDX-License-Identifier: Apache-2.0
"""How kernels of the CPU device scale over cores, beside native C++ with OpenMP.

    python bench/python/cores.py [--cores 1,2,4] [--rounds N] [--library FILE] [--native FILE] [--json FILE] [--docs docs/benchmarks/cores.md]
                                 [kernel ...]

Needs an installed cucore (a wheel or an install folder on the path), NVRTC, NumPy and a C++ compiler with OpenMP; no LLVM. For each number
of cores a process is kept on that many cores, and both sides have that many threads. Both run in turns in the same memory, and every result
is compared with NumPy first. Wall time is measured, so other programs must not run.

"efficiency" is the speed-up of ours over its own time on one core, divided by that of OpenMP; the goal is 0.8. "ours / native" is the ratio
of the times. "launch" is an empty kernel of one block per core that is launched and waited for, beside an empty parallel region.
"synchronization" is what a launch of one block of some microseconds per core takes beyond the longest of its blocks, less the same of a
launch of one such block; "slower blocks" is by how much that longest block takes longer than one that runs alone. "turns": how many
times longer a kernel takes that comes after a parallel region of OpenMP on the same cores, and the reverse, than after one of its own kind.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from tables import replace_table

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "bench/cpp/kernels"
LAUNCHES = 1000
EFFICIENCY_GOAL = 0.8
SYNCHRONIZATION_GOAL = 3000  # nanoseconds
STEPS = 20_000  # of a recorded chain: 25 to 45 microseconds, as measured
TURNS = 200
TURN_STEPS = 100_000


def compiled_native(folder: Path) -> Path:
    """The native kernels, compiled for this machine with the options of bench/cpp/kernels/CMakeLists.txt."""
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise SystemExit("no C++ compiler was found: set CXX, or give --native a libbench_native.so")
    library = folder / "libbench_native.so"
    options = ["-std=c++20", "-O3", "-march=native", "-fno-math-errno", "-fopenmp", "-fPIC", "-shared"]
    sources = [str(path) for path in sorted(SOURCES.glob("*.cpp"))]
    subprocess.run([compiler, *options, f"-I{ROOT}", *sources, "-o", str(library)], check=True)
    return library


def processors(count: int) -> set[int]:
    """The first processors of this process, one of each core before the second threads of any core."""
    allowed = sorted(os.sched_getaffinity(0))

    def place(number: int) -> tuple[int, int]:
        path = Path(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list")
        try:
            first = int(path.read_text().split(",")[0].split("-")[0])
        except (OSError, ValueError):
            first = number
        return (first != number, number)

    return set(sorted(allowed, key=place)[:count])


def child(options: argparse.Namespace) -> None:
    """Measures on as many cores as the process may use; prints medians of wall times in nanoseconds."""
    from kernel_bench import more, ten  # noqa: F401  they register cases
    from kernel_bench.case import CASES
    from kernel_bench.device import Device
    from kernel_bench.measure import interleaved, measure, memory_of
    from kernel_bench.sides.native import Native
    from kernel_bench.sides.ours import Ours

    count = len(os.sched_getaffinity(0))
    names = sorted((path.name for path in SOURCES.glob("*.cu")), key=lambda name: (name != "source.cu", name))
    device = Device(options.library, "".join((SOURCES / name).read_text() for name in names))
    native = Native(options.native)
    ours = Ours(device, native.library)
    rows: dict[str, Any] = {}
    for make in CASES:
        if make.__module__ != ten.__name__ and not options.kernels:
            continue
        if options.kernels and not any(part in make.__name__ for part in options.kernels):
            continue
        case = make()
        with memory_of(case, device) as arrays:
            times, wrong = measure(case, [native, ours], arrays, options.rounds)
        if wrong:
            raise SystemExit(f"{case.name}: {'; '.join(wrong)}")
        rows[case.name] = {name: median(found.wall) for name, found in times.items()}
    many = ours._many("empty", (count, 1, 1), (32, 1, 1), [])
    runs = {
        "ours": lambda: many(LAUNCHES, True),
        "native": lambda: native.library.openmp_regions(LAUNCHES, count),
    }
    launch = {name: median(found.wall) / LAUNCHES for name, found in interleaved(runs, options.rounds).items()}
    found = {
        "rows": rows,
        "launch": launch,
        "synchronization": synchronization(ours, native, count, options.rounds),
        "turns": turns(ours, native, count, options.rounds),
    }
    print("answer", json.dumps(found), flush=True)


def synchronization(ours: Any, native: Any, count: int, rounds: int) -> dict[str, float]:
    """Of launches of one block per core, beside launches of one block: nanoseconds beyond the longest block of each launch (`ours`,
    `native`), by how much that block takes longer than one alone (`ours, slower`, ...), and what one takes (`one`)."""
    import numpy as np
    from kernel_bench.measure import interleaved

    length = 2 + LAUNCHES
    records = ours.device.array(np.zeros((count, length), np.int64))
    address, row, steps = ctypes.c_uint64(records.ctypes.data), ctypes.c_int(length), ctypes.c_int(STEPS)
    one, all_ = (ours._many("recorded_chain", (n, 1, 1), (1, 1, 1), [address, row, steps]) for n in (1, count))
    chains = native.library.openmp_recorded_chains
    memory = ctypes.c_void_p(address.value)
    runs: dict[str, Callable[[], Any]] = {
        "ours": lambda: all_(LAUNCHES, True),
        "native": lambda: chains(memory, length, STEPS, LAUNCHES, count),
        "ours, one": lambda: one(LAUNCHES, True),
        "native, one": lambda: chains(memory, length, STEPS, LAUNCHES, 1),
    }
    beyond: dict[str, list[float]] = {name: [] for name in runs}
    blocks: dict[str, list[float]] = {name: [] for name in runs}

    def measure(name: str) -> None:
        records[:] = 0
        start = time.perf_counter_ns()
        runs[name]()
        launch = (time.perf_counter_ns() - start) / LAUNCHES
        used = records[: 1 if name.endswith("one") else count]
        if (used[:, 0] != LAUNCHES).any():
            raise SystemExit(f"recorded_chain, {name}: a block did not run {LAUNCHES} times")
        longest = float(used[:, 2:].max(axis=0).mean())
        blocks[name].append(longest)
        beyond[name].append(launch - longest)

    interleaved({name: partial(measure, name) for name in runs}, rounds)
    ours.device.free(records)

    def more(times: dict[str, list[float]], side: str) -> float:
        """By how much all take more than one, without the first run, which warms up."""
        return median(times[side][1:]) - median(times[f"{side}, one"][1:])

    found = {"one": median(blocks["ours, one"][1:])}
    for side in ("ours", "native"):
        found |= {side: more(beyond, side), f"{side}, slower": more(blocks, side)}
    return found


def turns(ours: Any, native: Any, count: int, rounds: int) -> dict[str, float]:
    """Work of both sides on all cores, first apart, then in turns: by how much each becomes slower because of the other's threads."""
    import numpy as np

    out = ours.device.array(np.zeros(32 * count, np.float32))
    address = ctypes.c_uint64(out.ctypes.data)
    launch = ours._many("chain", (count, 1, 1), (32, 1, 1), [address, ctypes.c_int(TURN_STEPS)])
    chains = native.library.openmp_chains
    runs: dict[str, Callable[[], Any]] = {
        "ours": lambda: launch(1, True),
        "native": lambda: chains(ctypes.c_void_p(address.value), TURN_STEPS, 1, count),
    }

    def nanoseconds(names: list[str]) -> dict[str, float]:
        """Of each side: the median of its runs."""
        time.sleep(0.05)  # threads of earlier work sleep then
        found: dict[str, list[int]] = {name: [] for name in names}
        for _ in range(TURNS):
            for name in names:
                start = time.perf_counter_ns()
                runs[name]()
                found[name].append(time.perf_counter_ns() - start)
        return {name: median(times[TURNS // 10 :]) for name, times in found.items()}

    slower: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        apart = nanoseconds(["ours"]) | nanoseconds(["native"])
        for name, took in nanoseconds(list(runs)).items():
            slower[name].append(took / apart[name])
    ours.device.free(out)
    return {name: median(ratios) for name, ratios in slower.items()}


def run_child(options: argparse.Namespace, count: int) -> dict[str, Any]:
    chosen = processors(count)
    command = [sys.executable, __file__, "--child", "--rounds", str(options.rounds)]
    command += ["--library", str(options.library), "--native", str(options.native), *options.kernels]
    environment = os.environ | {"OMP_NUM_THREADS": str(count), "CUCORE_CPU_THREADS": str(count)}
    environment.setdefault("CUCORE_CPU_TIER", "optimized")
    done = subprocess.run(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, chosen),
    )
    answer: dict[str, Any] = json.loads(done.stdout.partition("answer ")[2])
    return answer


def tables(found: dict[int, dict[str, Any]]) -> str:
    counts = list(found)
    one = found[counts[0]]["rows"]
    lines = [
        "| kernel | " + " | ".join(f"ours / native, {n} | efficiency, {n}" for n in counts) + " | goal |",
        "|---|" + "---|---|" * len(counts) + "---|",
    ]
    for name in one:
        cells, least = [], 1e9
        for n in counts:
            row = found[n]["rows"][name]
            ratio = row["ours"] / row["native"]
            efficiency = (one[name]["ours"] / row["ours"]) / (one[name]["native"] / row["native"])
            least = min(least, efficiency)
            cells.append(f"{ratio:.2f} | {efficiency:.2f}")
        verdict = "met" if least >= EFFICIENCY_GOAL else "missed"
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {EFFICIENCY_GOAL} {verdict} |")
    lines += ["", "| launch on all cores | ours, ns | OpenMP, ns | ours / OpenMP | goal |", "|---|---|---|---|---|"]
    for n in counts:
        launch = found[n]["launch"]
        verdict = "met" if launch["ours"] <= SYNCHRONIZATION_GOAL else "missed"
        lines.append(
            f"| {n} | {launch['ours']:.0f} | {launch['native']:.0f} | {launch['ours'] / launch['native']:.2f} | "
            f"{SYNCHRONIZATION_GOAL} {verdict} |"
        )
    lines += [
        "",
        "| synchronization of all cores | ours, ns | OpenMP, ns | goal | slower blocks, ours | slower blocks, OpenMP |",
        "|---|---|---|---|---|---|",
    ]
    for n in counts:
        found_here = found[n]["synchronization"]
        verdict = "met" if found_here["ours"] <= SYNCHRONIZATION_GOAL else "missed"
        lines.append(
            f"| {n} | {found_here['ours']:.0f} | {found_here['native']:.0f} | {SYNCHRONIZATION_GOAL} {verdict} | "
            f"{found_here['ours, slower']:.0f} | {found_here['native, slower']:.0f} |"
        )
    lines += ["", "| in turns on the same cores | a kernel after OpenMP | OpenMP after a kernel |", "|---|---|---|"]
    lines += [f"| {n} | {found[n]['turns']['ours']:.2f} | {found[n]['turns']['native']:.2f} |" for n in counts]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cores", help="numbers of cores, the first is the reference (default: 1, 2, 4 ... all)")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--library", type=Path, help="libcucore_cpu.so (default: that of the installed package)")
    parser.add_argument("--native", type=Path, help="libbench_native.so (default: compiled now)")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--docs", type=Path, help="writes the tables into this page, under the machine's architecture")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("kernels", nargs="*", help="parts of names; the ten when none is given")
    options = parser.parse_args()
    if options.child:
        child(options)
        return 0
    most = len(os.sched_getaffinity(0))
    counts = [1 << i for i in range(most.bit_length()) if 1 << i < most] + [most]
    if options.cores:
        counts = [int(word) for word in options.cores.split(",")]
    if max(counts) > most:
        raise SystemExit(f"this process may use {most} processors, not {max(counts)}")
    if options.library is None:
        import cucore

        options.library = Path(cucore.LIBRARY_FOLDER) / "libcucore_cpu.so"
    with tempfile.TemporaryDirectory() as folder:
        if options.native is None:
            options.native = compiled_native(Path(folder))
        found = {n: run_child(options, n) for n in counts}
    text = f"{platform.machine()}, {most} processors, median of {options.rounds} rounds, wall time.\n\n{tables(found)}"
    print(text)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    if options.docs:
        replace_table(options.docs, platform.machine(), text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
