#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/suites.py LOGS JOBS [--widths=1,4] [PYTEST ARGUMENTS]: runs the Python suites in JOBS parallel pytest processes and prints the sum of their counts.

A suite is a folder of tests, or each file of a slow folder. The suites that took longest in the previous run start first.
With --widths, every file of the PTX suite runs once per lane count, named FILE@LANES, and once with baseline code (`baseline`).
A suite that runs longer than SUITE_SECONDS (default 3600) prints the stacks of its threads and is killed.
A report of leaked objects, which is printed after pytest's summary, also fails a suite."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PTX = "tests/python/ptx"
FORCES_LANES = ("test_widths.py", "test_divergent_values.py")
BASELINE = "baseline"  # baseline code, used instead of a lane count
LONG = (PTX, "tests/python/robust", "tests/python/core")  # each file is a suite
ALONE = ("tests/python/speed",)  # measures threads, modules and instructions: runs without other suites
COUNTS = ("failed", "error", "passed", "skipped", "xfailed", "xpassed")
NO_TESTS = 5  # pytest's exit status if no tests were collected
LEAKED = "nanobind: leaked"  # CUCORE_LEAK_WARNINGS reports objects that outlive the interpreter


def suites() -> list[str]:
    found: list[str] = []
    for place in ("tests/python", "tests/compat", "tests/install"):
        folders = [p for p in sorted((ROOT / place).iterdir()) if p.is_dir() and any(p.glob("test_*.py"))]
        for folder in folders if place == "tests/python" else []:
            name = str(folder.relative_to(ROOT))
            found += [str(f.relative_to(ROOT)) for f in sorted(folder.glob("test_*.py"))] if name in LONG else [name]
        found += [str(f.relative_to(ROOT)) for f in sorted((ROOT / place).glob("test_*.py"))]
    return found


def suites_of_widths(widths: list[str]) -> list[str]:
    """The files of the PTX suite for each lane count, except those that set the lane count themselves."""
    files = [suite for suite in suites() if suite.startswith(PTX) and not suite.endswith(FORCES_LANES)]
    return [f"{suite}@{width}" for suite in files for width in widths]


def path_of(suite: str) -> Path:
    return ROOT / suite.partition("@")[0]


def uses_hypothesis(suite: str) -> bool:
    """True if a suite uses hypothesis. Its plugin is loaded only then, because loading it dominates pytest's start time."""
    path = path_of(suite)
    return any("hypothesis" in f.read_text() for f in (path.rglob("*.py") if path.is_dir() else [path]))


def log_of(logs: Path, suite: str) -> Path:
    return logs / (suite.replace("/", ".").removesuffix(".py").replace(".py@", "@") + ".log")


def size(suite: str) -> int:
    """Size of the test files in bytes: an estimate of the duration of suites that have not run yet."""
    path = path_of(suite)
    return sum(f.stat().st_size for f in path.glob("*.py")) if path.is_dir() else path.stat().st_size


def counts(output: str) -> dict[str, int]:
    """The counts in pytest's last line: "3 passed, 1 skipped in 0.12s"."""
    lines = [line for line in output.splitlines() if re.search(r" in [0-9.]+s\b", line)]
    found = re.findall(r"(\d+) ([a-z]+?)s?\b", lines[-1]) if lines else []
    return {name: int(number) for number, word in found for name in COUNTS if word in (name, name.rstrip("s"))}


def shown(numbers: dict[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in numbers.items() if number)


def run(suite: str, arguments: list[str], log: Path) -> tuple[str, int, str, float]:
    start = time.monotonic()
    without = ["no:cacheprovider"] if uses_hypothesis(suite) else ["no:cacheprovider", "no:hypothesispytest"]
    plugins = [word for name in without for word in ("-p", name)]
    path, _, width = suite.partition("@")
    command = [sys.executable, "-m", "pytest", "-q", *plugins, *arguments, path]
    setting = {} if not width else {"CUCORE_CPU_TIER": "baseline"} if width == BASELINE else {"CUCORE_CPU_W": width}
    environment = os.environ | setting
    # Output is written to a file, not a pipe: a process that a test leaves running would keep a pipe open.
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=output)
        try:
            status = process.wait(float(os.environ.get("SUITE_SECONDS", "3600")))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)  # pytest's faulthandler prints the stack of every thread
            with suppress(subprocess.TimeoutExpired):
                process.wait(30)
            process.kill()
            status = process.wait()
    return suite, status, log.read_text(errors="replace"), time.monotonic() - start


def main(logs: Path, jobs: int, arguments: list[str]) -> int:
    widths: list[str] = []
    if arguments and arguments[0].startswith("--widths="):
        widths, arguments = arguments[0].removeprefix("--widths=").split(","), arguments[1:]
    logs.mkdir(parents=True, exist_ok=True)
    known = logs.parent / "test-times.json"  # not in the log folder, which is recreated in every run
    times: dict[str, float] = json.loads(known.read_text()) if known.exists() else {}
    total = dict.fromkeys(COUNTS, 0)
    by_width = {width: dict.fromkeys(COUNTS, 0) for width in widths}
    failed: list[str] = []
    begin = time.monotonic()
    everything = sorted(
        suites_of_widths(widths) if widths else suites(), key=lambda suite: -times.get(suite, size(suite) / 1e3)
    )
    together = [suite for suite in everything if suite not in ALONE]
    done = 0
    for group, workers in ((together, jobs), ([suite for suite in everything if suite in ALONE], 1)):
        with ThreadPoolExecutor(workers) as pool:
            for future in as_completed([pool.submit(run, suite, arguments, log_of(logs, suite)) for suite in group]):
                suite, status, output, took = future.result()
                times[suite] = took
                done += 1
                for name, number in counts(output).items():
                    total[name] += number
                    if width := suite.partition("@")[2]:
                        by_width[width][name] += number
                good = status in (0, NO_TESTS) and LEAKED not in output
                if not good:
                    failed.append(suite)
                    print(output)
                    print(f"{suite}: pytest ended with {status}" + (f" (signal {-status})" if status < 0 else ""))
                    if LEAKED in output:
                        print(f"{suite}: objects outlived the interpreter")
                print(
                    f"[{done}/{len(everything)}] {suite}: {shown(counts(output)) or 'nothing to run'} in {took:.0f} s",
                    flush=True,
                )
    known.write_text(json.dumps(times, indent=1))
    for suite in failed:
        print(f"FAILED {suite}")
    for width, of_width in by_width.items():
        print(f"W={width}: {shown(of_width)}")
    print(f"{shown(total)} in {time.monotonic() - begin:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    os.environ.setdefault("CUCORE_LEAK_WARNINGS", "1")
    sys.exit(main(Path(sys.argv[1]), max(1, int(sys.argv[2])), sys.argv[3:]))
