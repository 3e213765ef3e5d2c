"""Kernels on the CPU device against native C++ (and PoCL, and Numba's CPU code, where they are installed); prints ratios.

    python bench/python/kernels.py [--build FOLDER] [--rounds N] [--markdown FILE] [--set ten|more|all] [kernel ...]

All sides run in this process, interleaved, each on its own copy of the data. What is compared is processor time (all threads
together), the best of the rounds: other programs disturb that least. The last column has the ratio of wall times, which means
something on a quiet machine only. Every result is checked against NumPy before anything is timed.

The driver library and the native side come from the build folder (built with -DCUCORE_BENCH=ON), NVRTC from NVIDIA's wheel.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Threads of OpenMP that spin between loops would take time from the other sides.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
from kernel_bench import more, ten
from kernel_bench.case import CASES, Case, error_of, namespace
from kernel_bench.device import Device

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "bench/cpp/kernels"

Call = Callable[[], Any]


class DeviceSide:
    name = "ours"

    def __init__(self, device: Device) -> None:
        self.device = device

    def prepare(self, case: Case) -> tuple[Call, Callable[[str], np.ndarray]]:
        device = self.device
        memory = {name: device.upload(array) for name, array in case.arrays.items()}
        steps: list[Call] = []
        for step in case.launches(namespace(memory)):
            if step[0] == "clear":
                steps.append(lambda m=memory[step[1]], b=case.arrays[step[1]].nbytes: device.clear(m, b))
            else:
                steps.append(device.prepare(*step))

        def run() -> None:
            for _ in range(case.repeat):
                for step in steps:
                    step()
                if case.wait_each:
                    device.wait()
            device.wait()

        self.memory = memory
        return run, lambda name: device.download(memory[name], case.arrays[name])

    def finish(self) -> None:
        for memory in self.memory.values():
            self.device.free(memory)


class NativeSide:
    name = "native"

    def __init__(self, library: Path) -> None:
        self.library = ctypes.CDLL(str(library))

    def prepare(self, case: Case) -> tuple[Call, Callable[[str], np.ndarray]]:
        arrays = {name: array.copy() for name, array in case.arrays.items()}
        listed = case.native(arrays) if callable(case.native) else [case.native]
        calls = []
        for name, *arguments in listed:
            ready = [ctypes.c_void_p(arrays[a].ctypes.data) if isinstance(a, str) else a for a in arguments]
            calls.append((getattr(self.library, name), ready))

        def run(kept: Any = arrays) -> None:
            for _ in range(case.repeat):
                for function, arguments in calls:
                    function(*arguments)

        return run, lambda name: arrays[name]

    def finish(self) -> None:
        pass


class OtherSide:
    """A side that a case brings along as a function; see Case.sides."""

    def __init__(self, name: str) -> None:
        self.name = name

    def prepare(self, case: Case) -> tuple[Call, Callable[[str], np.ndarray]] | None:
        if self.name not in case.sides:
            return None
        arrays = {name: array.copy() for name, array in case.arrays.items()}
        call = case.sides[self.name](namespace(arrays))

        def run() -> None:
            for _ in range(case.repeat):
                call()

        return run, lambda name: arrays[name]

    def finish(self) -> None:
        pass


def clocks() -> tuple[int, int]:
    return time.process_time_ns(), time.perf_counter_ns()


def measure(case: Case, sides: list[Any], rounds: int) -> tuple[dict[str, tuple[float, float, float]], list[str]]:
    """Per side: best processor time, best wall time, spread of the processor time; and what was wrong."""
    ready: dict[str, Call] = {}
    wrong: list[str] = []
    expected = case.expected(namespace(case.arrays))
    used = []
    for side in sides:
        prepared = side.prepare(case)
        if prepared is None:
            continue
        run, fetch = prepared
        used.append(side)
        repeat, case.repeat = case.repeat, 1
        run()  # compiles; and what is checked is one run from fresh data
        case.repeat = repeat
        for name, want in expected.items():
            worst, share = error_of(fetch(name), want, case.tolerance)
            if share > case.wrong_allowed:
                wrong.append(f"{side.name}: {name} is off by {worst:.3g} ({100 * share:.2g} % of the elements)")
        if case.check and not case.check(namespace(case.arrays), fetch):
            wrong.append(f"{side.name}: wrong")
        ready[side.name] = run
    samples: dict[str, list[tuple[int, int]]] = {name: [] for name in ready}
    for run in ready.values():
        run()
    for _ in range(rounds):
        for name, run in ready.items():
            before = clocks()
            run()
            after = clocks()
            samples[name].append((after[0] - before[0], after[1] - before[1]))
    for side in used:
        side.finish()
    result = {}
    for name, times in samples.items():
        cpu = sorted(t[0] for t in times)
        result[name] = (cpu[0], min(t[1] for t in times), cpu[len(cpu) // 2] / cpu[0])
    return result, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--set", choices=["ten", "more", "all"], default="all")
    parser.add_argument("--markdown", type=Path, help="write the table there too")
    parser.add_argument("--ptx", type=Path, help="write the kernels' PTX there")
    parser.add_argument("--times", action="store_true", help="processor times in milliseconds too (for work on one machine)")
    parser.add_argument("kernels", nargs="*", help="parts of names; all when none is given")
    arguments = parser.parse_args()
    driver = arguments.build / "cpu/libcucore_cpu.so"
    library = arguments.build / "bench/cpp/kernels/libbench_native.so"
    for needed in (driver, library):
        if not needed.exists():
            print(f"{needed} is not there: build with -DCUCORE_BENCH=ON, targets bench_native and cucore_cpu", file=sys.stderr)
            return 2
    device = Device(driver.resolve(), "".join((SOURCES / name).read_text() for name in ("source.cu", "more.cu")))
    if arguments.ptx:
        arguments.ptx.write_bytes(device.ptx.rstrip(b"\0"))
    sides: list[Any] = [NativeSide(library.resolve()), DeviceSide(device)]
    for name, reason in (more.PRESENT | ten.PRESENT).items():
        if reason:
            print(f"{name}: not here ({reason}); its column is left out")
        else:
            sides.append(OtherSide(name))
    others = [side.name for side in sides if isinstance(side, OtherSide)]
    print(f"{platform.machine()}, {os.cpu_count()} processors; processor time relative to native C++, best of {arguments.rounds} rounds")
    print(f"{'kernel':<26}{'ratio':>7}{'goal':>7}{'spread':>8}{'native':>8}{'wall':>7}" + "".join(f"{n:>8}" for n in others) + "  result")
    lines, ratios, failed = [], [], False
    for make in CASES:
        group = "ten" if make.__module__.endswith(".ten") else "more"
        if arguments.set not in ("all", group):
            continue
        if arguments.kernels and not any(part in make.__name__ for part in arguments.kernels):
            continue
        case = make()
        result, wrong = measure(case, sides, arguments.rounds)
        ours, native = result["ours"], result["native"]
        ratio = ours[0] / native[0]
        failed |= bool(wrong)
        goal = f"{case.goal:.1f}" if case.goal else ""
        rest = "".join(f"{result[n][0] / native[0]:>8.2f}" if n in result else f"{'':>8}" for n in others)
        print(f"{case.name:<26}{ratio:>7.2f}{goal:>7}{ours[2]:>8.2f}{native[2]:>8.2f}{ours[1] / native[1]:>7.2f}{rest}  "
              + ("; ".join(wrong) if wrong else "right"), flush=True)  # fmt: skip
        if arguments.times:
            print("    " + ", ".join(f"{name} {t[0] / 1e6:.2f} ms" for name, t in result.items()), flush=True)
        cells = [case.name, f"{ratio:.2f}", goal or "–"] + [f"{result[n][0] / native[0]:.2f}" if n in result else "–" for n in others]
        lines.append("| " + " | ".join(cells) + " |")
        if group == "ten":
            ratios.append(ratio)
    if len(ratios) > 1:
        mean = float(np.exp(np.mean(np.log(ratios))))
        print(f"{'geometric mean of the ten':<26}{mean:>7.2f}{1.3:>7.1f}")
        lines.append("| geometric mean of the ten | " + " | ".join([f"{mean:.2f}", "1.3"] + ["–"] * len(others)) + " |")
    print("spread: median / best of the rounds, ours and native; wall: ratio of best wall times")
    if arguments.markdown:
        head = ["kernel", "ours / native", "goal", *(f"{n} / native" for n in others)]
        arguments.markdown.write_text("\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *lines]) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
