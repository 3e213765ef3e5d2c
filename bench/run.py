# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of calls on all sides, interleaved in one run, and prints ratios.

    python bench/run.py [--slices N] [--longest SECONDS] [--json FILE] [--svg FILE] [--docs FOLDER --name NAME] [--build FOLDER] [--null]
                        [--nvidia PYTHON] [--pin] [--kinds] [--only ROW...]

Sides: `driver` (the C API), `C inside` (the same C code in a Python process), `least` and `least unlocked` (the same C code as minimal
Python functions, with the GIL held or released), `C++` (the cucore library), `ours` (cucore's Python packages), `NVIDIA` (NVIDIA's
Python packages, if installed), and `CuPy`, `Triton` and `numba-cuda` if they can be imported. On a GPU the other packages come from
the interpreter's site-packages, after cucore's; elsewhere from the interpreter of --nvidia, with the CPU device or the null driver as
its libcuda.so.1. Every side is a process that measures on request. For every call the sides measure one short batch after the other,
many times, so that changes of the processor's clock affect all sides equally. The result is the tenth percentile (the fast clock) with
the median. --null runs on the null driver, which shows the cost of cucore's layers alone. --pin keeps the calling threads of all sides
on the currently fastest processor. --kinds compares every kind of operation of cuda.bindings with NVIDIA's instead (python/kinds.py).
--docs writes NAME.json to the folder and renders its page (bench/page.py) and the numbers in README.md.
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

import front_page
import page

HERE = Path(__file__).parent
ROOT = HERE.parent
Side = tuple[list[str], dict[str, str]]  # command, environment
Samples = dict[str, dict[str, list[float]]]  # side, call, nanoseconds of every batch
Imports = dict[str, dict[str, float]]  # module, side, milliseconds
ROUNDS = 4

MODULES = tuple(page.IMPORT_GOALS)
OTHERS = ("CuPy", "Triton", "numba-cuda")


def add_others(
    result: dict[str, Side], missing: dict[str, str], python: str, environment: dict[str, str], script: str
) -> None:
    """Adds the sides of other packages that an interpreter has."""
    probe = subprocess.run([python, "-c", "import cuda.core"], env=environment, capture_output=True, text=True, cwd="/")
    if probe.returncode == 0:
        result["NVIDIA"] = ([python, str(HERE / "python" / script)], environment)
    else:
        missing["NVIDIA"] = (probe.stderr.strip().splitlines() or ["no reason given"])[-1]
    for side in OTHERS if script == "overhead.py" else ():
        command = [python, str(HERE / "python/others.py"), side]
        probe = subprocess.run(
            [*command, "(none)"], env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        if probe.returncode == 0:
            result[side] = (command, environment)
        else:
            missing[side] = (probe.stderr.strip().splitlines() or ["no reason given"])[-1]


def sides(
    build: Path, device: str, null: bool, nvidia: str | None, folder: Path, script: str
) -> tuple[dict[str, Side], dict[str, str]]:
    """Sides that can run here, and the reasons why others cannot. Creates links in the folder."""
    result: dict[str, Side] = {}
    missing: dict[str, str] = {}
    environment = dict(os.environ, CUCORE_DEVICE=device, CUCORE_COMPILE_CACHE="0")  # "compile" compiles
    library = "libcuda.so.1"
    if null:
        library = str((build / "bench/null_driver/libcucore_null.so").resolve())
        environment |= {"CUCORE_DEVICE": "cpu", "CUCORE_CPU_LIBRARY": library}
    elif device == "cpu":
        import cucore

        library = str(cucore.CPU_DRIVER_FOLDER / "libcuda.so.1")
        environment["CUCORE_CPU_LIBRARY"] = str(
            cucore.LIBRARY_FOLDER / "libcucore_cpu.so"
        )  # the libraries are in different folders of the build
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        environment["CUCORE_BENCH_NVRTC"] = str(load_nvidia_dynamic_lib("nvrtc").abs_path)
    except Exception as error:
        missing["C: compile"] = str(error)
    for side, name, arguments in (("driver", "raw", [library]), ("C++", "core", [])):
        program = build / f"bench/cpp/overhead/bench_overhead_{name}"
        if program.exists():
            result[side] = ([str(program), *arguments], environment)
        else:
            missing[side] = f"{program} is not built (-DCUCORE_BENCH=ON)"
    inside = build / "bench/cpp/overhead/libbench_overhead_inside.so"
    if inside.exists():
        result["C inside"] = (
            [sys.executable, str(HERE / "python/inside.py"), str(inside.resolve()), library],
            environment,
        )
    least = build / "bench/cpp/overhead/libbench_overhead_least.so"
    for side, lock in (("least", "kept"), ("least unlocked", "given_up")) if least.exists() else ():
        result[side] = (
            [sys.executable, str(HERE / "python/least.py"), str(least.resolve()), library, lock],
            environment,
        )
    if script != "overhead.py":  # compares the packages only
        result.clear()
    result["ours"] = ([sys.executable, str(HERE / "python" / script)], environment)
    without = {k: v for k, v in environment.items() if k != "PYTHONPATH"}
    if nvidia is not None:
        (folder / "libcuda.so.1").symlink_to(library)
        add_others(
            result,
            missing,
            nvidia,
            without | ({} if device == "gpu" and not null else {"LD_LIBRARY_PATH": str(folder)}),
            script,
        )
    elif device == "gpu" and not null:
        if os.environ.get("PYTHONPATH"):
            add_others(result, missing, sys.executable, without, script)
        else:
            missing["NVIDIA"] = "only our packages are on the path"
    others = Path(
        os.environ.get("CUCORE_TEST_OTHERS", Path(sys.prefix) / "others")
    )  # tools/test installs numba-cuda here
    if (
        not null and script == "overhead.py" and (others / "numba_cuda").is_dir()
    ):  # uses cucore's packages: NVIDIA's link machine code for a GPU
        paths = os.pathsep.join(filter(None, [environment.get("PYTHONPATH"), str(others)]))
        with_numba = environment | {"PYTHONPATH": paths, "CUCORE_TEST_OTHERS": str(others)}
        if device == "cpu":
            with_numba["LD_LIBRARY_PATH"] = str(Path(library).parent)
        missing.pop("numba-cuda", None)
        result["numba-cuda"] = ([sys.executable, str(HERE / "python/others.py"), "numba-cuda"], with_numba)
    return result, missing


def gpu_name() -> str:
    """The device and the driver's version, from nvidia-smi."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        name, version = (
            subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0].split(", ")
        )
    except (OSError, subprocess.CalledProcessError, ValueError, IndexError):
        return "a GPU"
    return f"{name}, driver {version}"


def import_time(module: str, python: str, environment: dict[str, str]) -> float:
    """Milliseconds of processor time that an import adds to a bare interpreter: the minimum of several runs, the first of which
    writes the bytecode, as an installation does. The process measures itself, because the start time of an interpreter varies
    by more than most imports take."""
    cache = tempfile.TemporaryDirectory()
    environment = {k: v for k, v in environment.items() if k != "PYTHONDONTWRITEBYTECODE"} | {
        "PYTHONPYCACHEPREFIX": cache.name
    }
    clock = "__import__('time').process_time()"
    code = f"start = {clock}; import {module}; print({clock} - start)"
    command = [python, "-c", code]
    runs: list[float] = []
    end = time.monotonic() + 4
    while len(runs) < 3 or (len(runs) < 15 and time.monotonic() < end):
        done = subprocess.run(command, env=environment, check=True, cwd="/", capture_output=True, text=True)
        runs.append(float(done.stdout))
    cache.cleanup()
    return min(runs) * 1e3


class Process:
    """A process of a side, which measures on request."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (lives as long as the process)
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True
        )
        self.rows: list[str] = []
        self.late: list[str] = []
        self.skipped: dict[str, str] = {}

    def line(self) -> str:
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        if not text:
            self.errors.seek(0)
            raise EOFError(f"ended with {self.process.wait()}: {self.errors.read()[-1500:]}")
        return text

    def start(self) -> None:
        text = self.line()
        while not text.startswith('{"rows"'):
            text = self.line()
        first = json.loads(text)
        self.rows, self.late, self.skipped = first["rows"], first.get("late", []), first["skipped"]

    def ask(self, name: str) -> float | None:
        """Nanoseconds per call, or None if the call is not possible here."""
        assert self.process.stdin is not None
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        answer = self.line()
        if answer.startswith("{"):
            self.skipped[name] = json.loads(answer)["skipped"]
            self.rows.remove(name)
            return None
        return float(answer)

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def fastest_processor() -> int:
    """The processor with the highest clock now: others may be busy or throttled for minutes."""

    def spin(processor: int) -> int:
        os.sched_setaffinity(0, {processor})
        best = 1 << 62
        for _ in range(3):
            start = time.perf_counter_ns()
            sum(range(5000))
            best = min(best, time.perf_counter_ns() - start)
        return best

    allowed = os.sched_getaffinity(0)
    try:
        return min(sorted(allowed), key=spin)
    finally:
        os.sched_setaffinity(0, allowed)


def measure(
    chosen: dict[str, Side], slices: int, only: list[str], pin: bool, longest: float
) -> tuple[Samples, dict[str, str]]:
    """Side -> call -> nanoseconds of every batch, and the skipped calls."""
    samples: Samples = {side: {} for side in chosen}
    left_out: dict[str, str] = {}
    running: dict[str, Process] = {}
    for side, (command, environment) in chosen.items():
        python = side not in ("driver", "C inside", "C++")  # they offer all rows; only the selected ones are measured
        running[side] = Process(command + (only if python else []), environment)
    for side, process in list(running.items()):
        try:
            process.start()
        except EOFError as error:
            left_out[side] = str(error)
            del running[side]
            continue
    order = list(
        dict.fromkeys(name for side in ("driver", "ours", "C inside") if side in running for name in running[side].rows)
    )
    late = {name for process in running.values() for name in process.late}
    order = sorted(only or order, key=lambda name: name in late)
    # Several rounds, because a machine may run at its slow clock for longer than all slices of a call take.
    rounds = [(name, part) for part in range(ROUNDS) for name in order if name not in late]
    rounds += [(name, part) for name in order if name in late for part in range(ROUNDS)]
    for number, (name, _) in enumerate(rounds):
        print(f"{number + 1} of {len(rounds)}: {name:<28}", end="\r", file=sys.stderr, flush=True)
        started = time.monotonic()
        for turn in range(-(-slices // ROUNDS)):
            if turn >= 2 and time.monotonic() - started > longest / ROUNDS:
                break
            if pin and turn == 0:
                processor = fastest_processor()
                for process in running.values():  # the calling thread; threads of the driver are not moved
                    os.sched_setaffinity(process.process.pid, {processor})
            for side, process in list(running.items()):
                if name not in process.rows:
                    continue
                try:
                    if (spent := process.ask(name)) is not None:
                        samples[side].setdefault(name, []).append(spent)
                except EOFError as error:
                    left_out[side] = str(error)
                    del running[side]
    for side, process in running.items():
        left_out |= {f"{side}: {name}": reason for name, reason in process.skipped.items()}
        process.stop()
    return samples, left_out


def fast(values: list[float]) -> float:
    """The tenth percentile: the cost of a call at the fast clock without disturbances."""
    return sorted(values)[len(values) // 10]


def spread(values: list[float]) -> float:
    """From the tenth to the ninetieth percentile, in percent."""
    ordered = sorted(values)
    low, high = ordered[len(ordered) // 10], ordered[len(ordered) * 9 // 10]
    return (high - low) / low * 100 if low else 0.0


def print_table(samples: Samples, chosen: list[str]) -> dict[str, page.Row]:
    """Prints nanoseconds per side (fast clock, median), differences and ratios of the fast values."""
    names = list(dict.fromkeys(name for side in ("driver", "ours", "C inside") for name in samples.get(side, {})))
    names.sort(key=lambda name: (name not in page.CLOCK, name not in samples.get("ours", {})))
    head = f"{'call':<24}" + "".join(f"{side:>18}" for side in chosen) + f"{'ours-driver':>13}{'ours-inside':>13}"
    print(head + f"{'NVIDIA/ours':>13}  goal")
    rows = {}
    for name in names:
        row = {side: fast(samples[side][name]) for side in chosen if samples[side].get(name)}
        cells = "".join(
            f"{row[side]:>9.0f} ({statistics.median(samples[side][name]):>6.0f})" if side in row else f"{'':>18}"
            for side in chosen
        )
        for floor in ("driver", "C inside"):
            over = page.beyond(row, "ours", floor)
            cells += f"{'' if over is None else round(over):>13}"
        ratio = (
            f"{row['NVIDIA'] / row['ours']:>13.2f}" if {"ours", "NVIDIA"} <= row.keys() and row["ours"] else f"{'':>13}"
        )
        print(f"{name:<24}{cells}{ratio}  {' '.join(filter(None, [page.verdict(name, row), page.proof(name, row)]))}")
        rows[name] = row
    return rows


def commit() -> str:
    """The measured commit, or "" without a repository. Ignores changes of rendered pages."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs", ":!README.md")
    return git("describe", "--always") + ("-dirty" if changed else "")


def import_times(chosen: dict[str, Side], left_out: dict[str, str]) -> Imports:
    imports: Imports = {}
    for side in ("ours", "NVIDIA"):
        for module in MODULES if side in chosen else ():
            environment = chosen[side][1]
            try:
                imports.setdefault(module, {})[side] = import_time(module, chosen[side][0][0], environment)
            except subprocess.CalledProcessError as error:
                left_out[f"{side}: import {module}"] = str(error)
    return imports


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slices", type=int, default=100, help="how often, at most, every side measures every call")
    parser.add_argument(
        "--longest", type=float, default=1.4,
        help="seconds for one call, all sides together, once each has been measured twice in a round",
    )  # fmt: skip
    parser.add_argument("--json", type=Path)
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--docs", type=Path, help="the folder of the page with the tables")
    parser.add_argument("--name", help="of the table in the page: h200, cpu, null")
    parser.add_argument("--build", type=Path)
    parser.add_argument("--null", action="store_true")
    parser.add_argument("--nvidia", help="an interpreter that has NVIDIA's packages")
    parser.add_argument("--pin", action="store_true")
    parser.add_argument("--kinds", action="store_true")
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    device = os.environ.get("CUCORE_DEVICE", "cpu")
    name = options.name or ("kinds" if options.kinds else "null" if options.null else device)
    script = "kinds.py" if options.kinds else "overhead.py"
    build = options.build or ROOT / ("build/gpu" if device == "gpu" else "build/dev")
    with tempfile.TemporaryDirectory() as folder:
        chosen, missing = sides(build, device, options.null, options.nvidia, Path(folder), script)
        samples, left_out = measure(chosen, options.slices, options.only, options.pin, options.longest)
        left_out = {**missing, **left_out}
        imports = import_times(chosen, left_out) if not (options.only or options.null or options.kinds) else {}
    where = "a driver that does nothing" if options.null else f"device {device}" if device == "cpu" else gpu_name()
    print(f"\n{platform.machine()}, {where}, {options.slices} slices: nanoseconds per call, tenth percentile (median)")
    rows = print_table(samples, list(chosen))
    for module, row in imports.items():
        print(f"import {module:<24}" + "".join(f"  {side} {value:7.1f} ms" for side, value in row.items()))
    for what, reason in left_out.items():
        print(f"left out: {what}: {reason}")
    facts: dict[str, object] = {
        "name": name, "where": where, "machine": platform.machine(), "python": platform.python_version(), "slices": options.slices,
        "commit": commit(),
    }  # fmt: skip
    medians = {name: {side: statistics.median(samples[side][name]) for side in row} for name, row in rows.items()}
    spreads = {name: {side: spread(samples[side][name]) for side in row} for name, row in rows.items()}
    everything = {
        "facts": facts,
        "calls": rows,
        "median": medians,
        "spread": spreads,
        "imports": imports,
        "left_out": left_out,
    }
    for path in [options.json] + ([options.docs / f"{name}.json"] if options.docs else []):
        if path:
            path.write_text(json.dumps(everything, indent=1) + "\n")
    if options.svg:
        options.svg.write_text(page.plot(everything))
    if options.docs:
        for path, text in page.rendered(options.docs).items():
            path.write_text(text)
        front_page.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
