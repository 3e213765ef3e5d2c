"""Counts the instructions our Python packages need for a call, above a driver that does nothing.

    python bench/instructions.py [--device] [--build FOLDER] [--check FILE] [--write FILE] [--profile FOLDER] [NAME...]

callgrind counts, so the numbers do not depend on the machine's load; they do depend on the compiler, the interpreter and the
architecture: counts are kept, and compared, by architecture and Python version. --device counts the CPU device itself instead, called
by C: the call, the hand-over to the stream's queue and what runs there, on all threads. --check compares with recorded numbers (generous: 30 % and 150 instructions), --write records them, --profile
keeps callgrind's files, one per call, for callgrind_annotate.
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

HERE = Path(__file__).parent
ROOT = HERE.parent
CALLS = 100  # per measurement; timing.COUNTED_CALLS


def is_worse(recorded: float, now: float) -> bool:
    """Generous: compilers and interpreters of one architecture differ too."""
    return now > recorded * 1.3 + 150


def key() -> str:
    return f"{platform.machine()} Python {sys.version_info.major}.{sys.version_info.minor}"


def count(build: Path, names: list[str], folder: Path) -> tuple[dict[str, float], dict[str, str]]:
    """Instructions per call by name, and what was left out and why. Leaves callgrind's files in the folder."""
    library = build / "bench/null_driver/libcucore_null.so"
    if not library.exists():
        raise SystemExit(f"{library} is missing: configure with -DCUCORE_BENCH=ON and build cucore_null")
    environment = dict(
        os.environ,
        CUCORE_DEVICE="cpu",
        CUCORE_CPU_LIBRARY=str(library.resolve()),
        CUCORE_BENCH_COUNT="1",
        PYTHONHASHSEED="0",
        PYTHONDONTWRITEBYTECODE="1",
        OPENBLAS_NUM_THREADS="1",
        # A fixed path through memcpy and its kin, whatever the processor of the machine offers.
        GLIBC_TUNABLES="glibc.pthread.rseq=0",
    )
    command = [
        "valgrind", "--tool=callgrind", "--quiet", f"--callgrind-out-file={folder}/counts", "--combine-dumps=no",
        sys.executable, str(HERE / "python/overhead.py"), *names,
    ]  # fmt: skip
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"the counted run failed:\n{done.stderr[-3000:]}")
    skipped = json.loads(done.stdout[done.stdout.index('{"skipped"') :])["skipped"]
    totals = totals_of(folder)
    empty = totals.pop("(empty)")
    return {name: (total - empty) / CALLS for name, total in totals.items()}, skipped


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
    """Instructions per call of the CPU device, by name. One thread runs kernels: how many wake up is chance otherwise."""
    program = build / "bench/cpp/overhead/bench_overhead_raw"
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
    """Instructions by the name each dump was asked for under. Renames the dumps so."""
    totals: dict[str, int] = {}
    for path in sorted(folder.glob("counts.*"), key=lambda path: int(path.suffix[1:])):
        text = path.read_text(errors="replace")
        trigger = re.search(r"^desc: Trigger: Client Request: (.*)$", text, re.MULTILINE)
        total = re.search(r"^(?:summary|totals): (\d+)", text, re.MULTILINE)
        if trigger and total and trigger[1] != "(between)":
            totals[trigger[1]] = int(total[1])
            path.rename(folder / f"call.{trigger[1]}")
    return totals


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/dev")
    parser.add_argument("--check", type=Path)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--profile", type=Path)
    parser.add_argument("--device", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        raise SystemExit("valgrind is not installed")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.profile or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if options.device:
            import cucore

            library = cucore.CPU_DRIVER_FOLDER / "libcuda.so.1"
            what, counts, skipped = device_key(), count_device(options.build, library, options.names, folder), {}
        else:
            what = key()
            counts, skipped = count(options.build, options.names, folder)
    recorded: dict[str, dict[str, float]] = {}
    for path in (options.check, options.write):
        if path is not None and path.exists():
            recorded = json.loads(path.read_text())
    before = recorded.get(what, {})
    print(f"instructions per call, {what}" + ("" if before else "; nothing is recorded for it, nothing compared"))
    worse = []
    for name, value in counts.items():
        old = before.get(name)
        print(
            f"{name:<28}{value:>10.0f}"
            + (f"{old:>10.0f}{(value / old - 1) * 100 if old else 0:>+8.1f} %" if old else "")
        )
        if old is not None and is_worse(old, value):
            worse.append(name)
    for name, reason in skipped.items():
        print(f"{name:<28} left out: {reason}")
    if options.write:
        recorded.setdefault(what, {}).update({name: round(value) for name, value in counts.items()})
        options.write.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")
    if options.check and worse:
        print("more instructions than recorded: " + ", ".join(worse), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
