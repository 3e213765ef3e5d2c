# SPDX-License-Identifier: Apache-2.0
"""Counts the instructions per call of the Python packages on the null driver.

    python bench/instructions.py [--device | --steps] [--build FOLDER] [--check FILE] [--write FILE] [--profile FOLDER] [NAME...]

callgrind counts, so the numbers do not depend on the machine's load. They depend on compiler, interpreter and architecture, so they are
recorded and compared by architecture and Python version. --device counts the CPU device instead, called from C: the call, the stream's
queue and the execution, all on the calling thread. --steps splits the counts by interpreter, package and null driver, and adds the number of
64-byte lines of the package's code that a call executes, next to those of `least`, a C function that only makes the driver call.
--check compares with recorded numbers (a tolerance of 15 % and 50 instructions), --write records them, --profile keeps callgrind's
files, one per call, for callgrind_annotate.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent
CALLS = 100  # per measurement; timing.COUNTED_CALLS


def is_worse(recorded: float, now: float, share: float = 0.15, more: float = 50) -> bool:
    """Compilers and interpreters of one architecture differ slightly; counts on one machine vary by less than one percent."""
    return now > recorded * (1 + share) + more


def is_worse_on_the_device(recorded: float, now: float) -> bool:
    """Compilers and C libraries other than the recorded ones make other code."""
    return is_worse(recorded, now, 0.3, 150)


# Rows of the device whose counts are the same in every run up to a thousandth, also on a loaded machine, and the share by which they
# may grow.
EXACT_ROWS = {
    "launch_0": 0.01,
    "launch_3": 0.01,
    "event_record": 0.01,
    "stream_wait": 0.01,
    "alloc_free_4k": 0.01,
    "graph_launch_20": 0.01,
}


def costs_something(name: str, recorded: float, now: float, machine: str = platform.machine()) -> bool:
    """For EXACT_ROWS, with the recorded compiler: a few more tests of flags in every call are found. The counts of x86-64 are those of a
    cross compiler, so their tolerance is larger."""
    return is_worse(recorded, now, max(EXACT_ROWS[name], 0.03 if machine == "x86_64" else 0), 4)


def processor() -> str:
    """On AArch64 the model, by which the C library chooses its functions; valgrind shows the same x86-64 processor everywhere."""
    if platform.machine() != "aarch64":
        return ""
    parts = re.findall(r"^CPU part\s*:\s*(\w+)", Path("/proc/cpuinfo").read_text(), re.M)
    return f", processor {parts[0] if parts else 'unknown'}"


def compiler(build: Path) -> str:
    """That of the build, as CMake calls it, and the processor where it matters: "GNU 12.2.0, processor 0xd40"."""
    for file in build.glob("CMakeFiles/*/CMakeCXXCompiler.cmake"):
        found = dict(re.findall(r'set\(CMAKE_CXX_COMPILER_(ID|VERSION) "([^"]*)"\)', file.read_text()))
        return f"{found['ID']} {found['VERSION']}{processor()}"
    return "unknown"


def key() -> str:
    return f"{platform.machine()} Python {sys.version_info.major}.{sys.version_info.minor}"


def null_driver(build: Path) -> Path:
    library = build / "bench/null_driver/libcucore_null.so"
    if not library.exists():
        raise SystemExit(f"{library} is missing: configure with -DCUCORE_BENCH=ON and build cucore_null")
    return library.resolve()


def counted(library: Path, folder: Path, command: list[str], *options: str) -> dict[str, str]:
    """Runs a side on the null driver; returns the rows that it skipped, with reasons."""
    environment = dict(
        os.environ,
        CUCORE_DEVICE="cpu",
        CUCORE_CPU_LIBRARY=str(library),
        CUCORE_BENCH_COUNT="1",
        PYTHONHASHSEED="0",
        PYTHONDONTWRITEBYTECODE="1",
        OPENBLAS_NUM_THREADS="1",
        # Selects fixed variants of memcpy and similar functions, independent of the processor.
        GLIBC_TUNABLES="glibc.pthread.rseq=0",
    )
    full = [
        "valgrind", "--tool=callgrind", "--quiet", f"--callgrind-out-file={folder}/counts", "--combine-dumps=no", *options,
        sys.executable, *command,
    ]  # fmt: skip
    done = subprocess.run(full, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"the counted run failed:\n{done.stderr[-3000:]}")
    skipped: dict[str, str] = json.loads(done.stdout[done.stdout.index('{"skipped"') :])["skipped"]
    return skipped


def count(build: Path, names: list[str], folder: Path) -> tuple[dict[str, float], dict[str, str]]:
    """Instructions per call by name, and skipped rows with reasons. Leaves callgrind's files in the folder."""
    skipped = counted(null_driver(build), folder, [str(HERE / "python/overhead.py"), *names])
    totals = totals_of(folder)
    if "(empty)" not in totals:
        raise SystemExit(
            "callgrind was told nothing: the driver that does nothing was built without valgrind's headers"
        )
    empty = totals.pop("(empty)")
    return {name: (total - empty) / CALLS for name, total in totals.items()}, skipped


STEP_ROWS = ("launch_3", "b_launch_ctypes", "alloc_free_4k", "b_stream_query", "graph_launch_20", "event_record")
Steps = dict[str, dict[str, dict[str, int]]]  # row, side ("ours", "least"), what, how many


def steps(build: Path, names: list[str], folder: Path) -> Steps:
    """The instructions of a call by component. Counts what every call executes, without the loop around it."""
    library, rows = null_driver(build), names or list(STEP_ROWS)
    least = [str(HERE / "python/least.py"), str((build / "bench/cpp/overhead/libbench_overhead_least.so").resolve())]
    sides = {"ours": [str(HERE / "python/overhead.py")], "least": [*least, str(library), "kept"]}
    found: Steps = {}
    for side, command in sides.items():
        place = folder / side
        place.mkdir()
        counted(library, place, [*command, *rows], "--dump-instr=yes")
        totals_of(place)
        empty = executed(place / "call.(empty)")
        for row in rows:
            if not (path := place / f"call.{row}").exists():
                continue
            here = executed(path)
            package = {
                (name, at): n
                for name, code in here.items()
                if name not in ("CPython", "driver")
                for at, n in code.items()
            }
            found.setdefault(row, {})[side] = {
                "CPython": sum(here["CPython"].values()) - sum(empty["CPython"].values()),
                "package": sum(package.values()),
                "driver": sum(here.get("driver", {}).values()),
                "lines": len({(name, at // 64) for name, at in package}),
            }
    return found


def executed(dump: Path) -> dict[str, dict[int, int]]:
    """From a dump with instructions: the addresses that every call executes and their counts, by component."""
    objects: dict[str, str] = {}
    code: dict[str, dict[int, int]] = {}
    inside, address, is_callee = "", 0, False

    def name_of(text: str) -> str:
        found = re.match(r"\((\d+)\)(?: (.*))?", text)
        assert found is not None
        if found[2]:
            objects[found[1]] = found[2]
        return objects.get(found[1], "")

    for line in dump.read_text(errors="replace").splitlines():
        if line.startswith("ob="):
            path = Path(name_of(line[3:])).name
            inside = (
                "CPython" if path.startswith(("libpython", "python")) else "driver" if "cucore_null" in path else path
            )
        elif line.startswith("cob="):
            name_of(line[4:])
        elif line.startswith("calls="):
            is_callee = True  # the next line is the cost of the callee
        elif line and line[0] in "0123456789+-*":
            at, *numbers = line.split()
            if at.startswith("0x"):
                address = int(at, 16)
            elif at != "*":
                address += int(at, 0)
            if not is_callee and len(numbers) >= 2:
                place = code.setdefault(inside, {})
                place[address] = place.get(address, 0) + int(numbers[1])
            is_callee = False
    return {who: {at: round(n / CALLS) for at, n in places.items() if n >= CALLS * 0.9} for who, places in code.items()}


DEVICE_ROWS = (
    "launch_0",
    "launch_3",
    "event_record",
    "stream_wait",
    "alloc_free_4k",
    "fill_4k",
    "copy_4_to_device",
    "graph_launch_20",
)


def device_key() -> str:
    return f"{platform.machine()} CPU device"


def count_device(build: Path, library: Path, names: list[str], folder: Path) -> dict[str, float]:
    """Instructions per call of the CPU device, by name. There is one worker thread, and it sleeps meanwhile (held_workers.cpp)."""
    program = build / "bench/cpp/overhead/bench_overhead_counted"
    if not program.exists():
        raise SystemExit(f"{program} is missing: configure with -DCUCORE_BENCH=ON")
    environment = dict(os.environ, CUCORE_BENCH_ROWS=f",{','.join(names or DEVICE_ROWS)},", CUCORE_CPU_THREADS="1")
    command = [
        "valgrind", "--tool=callgrind", "--quiet", f"--callgrind-out-file={folder}/counts", "--combine-dumps=no", "--fair-sched=yes",
        str(program), str(library),
    ]  # fmt: skip
    done = subprocess.run(command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise SystemExit(f"the counted run failed:\n{done.stderr[-3000:]}")
    return {name: total / CALLS for name, total in totals_of(folder).items()}


def totals_of(folder: Path) -> dict[str, int]:
    """Instructions by the name of each dump. Renames the dump files accordingly."""
    totals: dict[str, int] = {}
    for path in sorted(folder.glob("counts.*"), key=lambda path: int(path.suffix[1:])):
        text = path.read_text(errors="replace")
        trigger = re.search(r"^desc: Trigger: Client Request: (.*)$", text, re.MULTILINE)
        total = re.search(r"^(?:summary|totals): (\d+)", text, re.MULTILINE)
        if trigger and total and trigger[1] != "(between)":
            totals[trigger[1]] = int(total[1])
            path.rename(folder / f"call.{trigger[1]}")
    return totals


def write_steps(found: Steps, file: Path | None) -> int:
    print(f"{'call':<20}{'side':<8}{'CPython':>9}{'package':>9}{'driver':>8}{'lines':>7}")
    for row, sides in found.items():
        for side, n in sides.items():
            print(f"{row:<20}{side:<8}{n['CPython']:>9}{n['package']:>9}{n['driver']:>8}{n['lines']:>7}")
    if file is not None:
        recorded = json.loads(file.read_text()) if file.exists() else {}
        recorded.setdefault(f"{key()} steps", {}).update(found)
        file.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/dev")
    parser.add_argument("--check", type=Path)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--profile", type=Path)
    parser.add_argument("--device", action="store_true")
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        raise SystemExit("valgrind is not installed")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.profile or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if options.steps:
            return write_steps(steps(options.build, options.names, folder), options.write)
        if options.device:
            import cucore

            library = cucore.CPU_DRIVER_FOLDER / "libcuda.so.1"
            what, counts = device_key(), count_device(options.build, library, options.names, folder)
            skipped: dict[str, str] = {}
        else:
            what = key()
            counts, skipped = count(options.build, options.names, folder)
    recorded: dict[str, dict[str, Any]] = {}  # "compiler" has names, the others numbers
    for path in (options.check, options.write):
        if path is not None and path.exists():
            recorded = json.loads(path.read_text())
    before: dict[str, float] = recorded.get(what, {})
    print(f"instructions per call, {what}" + ("" if before else "; nothing is recorded for it, nothing compared"))
    worse = []
    for name, value in counts.items():
        old = before.get(name)
        print(
            f"{name:<28}{value:>10.0f}"
            + (f"{old:>10.0f}{(value / old - 1) * 100 if old else 0:>+8.1f} %" if old else "")
        )
        if old is not None and (is_worse_on_the_device if options.device else is_worse)(old, value):
            worse.append(name)
    for name, reason in skipped.items():
        print(f"{name:<28} left out: {reason}")
    if options.write:
        recorded.setdefault(what, {}).update({name: round(value) for name, value in counts.items()})
        if options.device:
            recorded.setdefault("compiler", {})[what] = compiler(options.build)
        options.write.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")
    if options.check and worse:
        print("more instructions than recorded: " + ", ".join(worse), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
