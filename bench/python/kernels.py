# SPDX-License-Identifier: Apache-2.0
"""Compares kernels on the CPU device with native C++, PoCL and Numba's parallel CPU code; prints ratios.

    python bench/python/kernels.py [--build FOLDER] [--rounds N] [--threads N] [--markdown FILE] [--set ten|more|all] [--avx2] [--generation NAME]
                                  [kernel ...]

With --markdown, cases and sides that this run has not measured keep their recorded ratios.

All sides run alternately in this process and in the same memory, because the memory layout can matter more than the code. Every result
is compared with NumPy before it is timed. The measure is processor time of all threads, which other programs disturb least: the median
of the ratios of all rounds. "spread" is the interquartile range of those ratios, "wall" the median of the ratios of wall times, which is
meaningful only on an idle machine.

The driver library and the native side are in the build folder (built with -DCUCORE_BENCH=ON), NVRTC in NVIDIA's wheel. The project does
not require PoCL and Numba: `make bench-setup` creates an environment for them. A missing side is shown as "–".

Ratios are those of optimized code: CUCORE_CPU_TIER=optimized, unless it is set. Compile times include the baseline code of large kernels.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path

from kernel_bench import images, more, networks, page, primitives, quantized, records, simulation, ten
from kernel_bench.case import CASES
from kernel_bench.compiling import compiling
from kernel_bench.device import Device
from kernel_bench.measure import launch_times, measure, memory_of
from kernel_bench.sides import NotHere, Side
from kernel_bench.sides.native import Native
from kernel_bench.sides.numba_cpu import Numba
from kernel_bench.sides.ours import Ours
from kernel_bench.sides.pocl import Pocl

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "bench/cpp/kernels"
FAMILIES = {
    ten: "source",
    more: "more",
    images: "images",
    simulation: "simulation",
    networks: "networks",
    quantized: "quantized",
    primitives: "primitives",
}


TITLES = {"avx512": "AVX-512", "avx2": "AVX2", "aarch64": "AArch64"}


def target_name(avx2: bool) -> str:
    if platform.machine() != "x86_64":
        return platform.machine()
    has_avx512 = " avx512f " in Path("/proc/cpuinfo").read_text()
    return "avx512" if has_avx512 and not avx2 else "avx2"


def set_threads(count: int) -> None:
    """Sets the number of threads of every side, and keeps OpenMP threads from spinning between loops, which would slow other sides."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    for name in (
        "OMP_NUM_THREADS",
        "CUCORE_CPU_THREADS",
        "NUMBA_NUM_THREADS",
        "POCL_MAX_PTHREAD_COUNT",
        "POCL_CPU_MAX_CU_COUNT",
    ):
        os.environ[name] = str(count)


def installed(makers: dict[str, Callable[[], Side]]) -> tuple[list[Side], list[str]]:
    """The installed sides, and messages about missing ones."""
    here, lines = [], []
    for name, make in makers.items():
        try:
            here.append(make())
        except NotHere as reason:
            lines.append(f"{name} is not here ({reason})")
    return here, lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/dev")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of every side")
    parser.add_argument("--set", choices=["ten", "more", "all"], default="all")
    parser.add_argument("--markdown", type=Path, help="write the tables into this page too")
    parser.add_argument("--machine", default=platform.machine(), help="the processor, for the page")
    parser.add_argument("--generation", help="record a column of its own, for this generation of processors")
    parser.add_argument("--ptx", type=Path, help="write the kernels' PTX there")
    parser.add_argument(
        "--times", action="store_true", help="processor times in milliseconds too (for work on one machine)"
    )
    parser.add_argument(
        "--avx2",
        action="store_true",
        help="both sides without AVX-512 (CUCORE_CPU_FEATURES=-avx512f), on a processor that has it",
    )
    parser.add_argument("kernels", nargs="*", help="parts of names; all when none is given")
    arguments = parser.parse_args()
    set_threads(arguments.threads)
    os.environ.setdefault("CUCORE_CPU_TIER", "optimized")
    driver = (arguments.build / "cpu/libcucore_cpu.so").resolve()
    if arguments.avx2 and target_name(False) == "avx512":
        os.environ["CUCORE_CPU_FEATURES"] = "-avx512f"
    native_name = "libbench_native_avx2.so" if arguments.avx2 else "libbench_native.so"
    library = (arguments.build / "bench/cpp/kernels" / native_name).resolve()
    for needed in (driver, library):
        if not needed.exists():
            print(
                f"{needed} is not there: build with -DCUCORE_BENCH=ON, targets bench_native and cucore_cpu",
                file=sys.stderr,
            )
            return 2
    device = Device(driver, "".join((SOURCES / f"{name}.cu").read_text() for name in FAMILIES.values()))
    if arguments.ptx:
        arguments.ptx.write_bytes(device.ptx.rstrip(b"\0"))
    native = Native(library)
    others = {"PoCL": lambda: Pocl(SOURCES / "source.cl", native.library), "Numba": Numba}
    here, missing = installed(others)
    sides: list[Side] = [native, Ours(device, native.library), *here]
    print("\n".join(missing), end="\n" if missing else "")
    about = (
        f"{arguments.machine}, {arguments.threads} threads a side, median of {arguments.rounds} rounds, processor time"
    )
    versions = ", ".join(getattr(side, "version", "") for side in here)
    print(about + (f"; {versions}" if versions else ""))
    print(page.heading(list(others)))
    rows: list[page.Row] = []
    for make in CASES:
        in_ten = make.__module__ == ten.__name__
        if arguments.set not in ("all", "ten" if in_ten else "more"):
            continue
        if arguments.kernels and not any(part in make.__name__ for part in arguments.kernels):
            continue
        case = make()
        with memory_of(case, device) as arrays:
            times, wrong = measure(case, sides, arrays, arguments.rounds)
        rows.append(page.Row(make.__name__, case.name, in_ten, case.goal, times, wrong))
        print(page.line(rows[-1], list(others)), flush=True)
        if arguments.times:
            print("    " + ", ".join(f"{name} {t.best / 1e6:.2f} ms" for name, t in times.items()), flush=True)
    total = page.mean(rows, "ours")
    if total is not None:
        means = "".join(f"{page.cell(page.mean(rows, side)):>8}" for side in others)
        print(f"{'geometric mean of the ten':<28}{page.cell(total):>7}{page.verdict(total, page.MEAN_GOAL):>13}{means}")
    parts: dict[str, str] = {}
    if not arguments.kernels:
        parts["launches"] = page.launches(launch_times(sides, arguments.rounds))
        print("\n" + parts["launches"])
        parts["compiling"] = page.compiled(compiling(driver, device.ptx.rstrip(b"\0").decode(), arguments.rounds))
        print("\n" + parts["compiling"])
    if arguments.markdown:
        target = target_name(arguments.avx2)
        title = TITLES[target]
        if arguments.generation:
            target += "-" + arguments.generation.lower().replace(" ", "_")
            title += f", {arguments.generation}"
        ratios = {
            row.key: {
                side: round(row.times[side].over(row.times["native"]), 3) for side in row.times if side != "native"
            }
            for row in rows
        }
        here = records.Record(
            target,
            title,
            about + (f"; {versions}" if versions else ""),
            date.today().isoformat(),
            ratios=ratios,
        )
        records.save(records.completed(here))
        shown = records.load()
        machines = "\n".join(f"- **{record.title}**: {record.about}, {record.date}." for record in shown)
        tables = {"ten": page.of_ten(shown), "more": page.of_more(shown), "slowest": page.slow(shown)}
        page.write(arguments.markdown, {"machine": machines, **tables, **parts})
        subprocess.run(
            [sys.executable, str(ROOT / "bench/front_page.py")], check=True
        )  # which shows the geometric mean
    return 1 if any(row.wrong for row in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
