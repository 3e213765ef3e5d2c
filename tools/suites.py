#!/usr/bin/env python3
"""tools/suites.py LOGS JOBS [--widths=1,4] [PYTEST ARGUMENTS]: the Python suites in several processes of pytest, JOBS at a time; ends with the sum of their counts.

A suite is a folder of tests or, where a folder takes long, each of its files. Suites that took longest the last time start first.
With --widths it is each file of the PTX suite once for every number of lanes, named FILE@LANES, and in the baseline tier (`baseline`).
One that has not ended after SUITE_SECONDS (default 3600) shows where its threads are and is ended: the run always comes to its counts.
A report of leaked objects, which comes after pytest's own end, fails a suite too."""

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
BASELINE = "baseline"  # in the place of a number of lanes
LONG = (PTX, "tests/python/robust", "tests/python/core")  # a file at a time
ALONE = ("tests/python/speed",)  # counts threads, modules, instructions of a process: nothing beside it
COUNTS = ("failed", "error", "passed", "skipped", "xfailed", "xpassed")
NO_TESTS = 5  # what pytest ends with where it found nothing to run
LEAKED = "nanobind: leaked"  # CUCORE_LEAK_WARNINGS: objects of ours that outlived the interpreter


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
    """The PTX suite with lanes forced; but for the files that force them themselves."""
    files = [suite for suite in suites() if suite.startswith(PTX) and not suite.endswith(FORCES_LANES)]
    return [f"{suite}@{width}" for suite in files for width in widths]


def path_of(suite: str) -> Path:
    return ROOT / suite.partition("@")[0]


def uses_hypothesis(suite: str) -> bool:
    """Its plugin is loaded where it is of use: that takes three times as long as all else at the start of pytest."""
    path = path_of(suite)
    return any("hypothesis" in f.read_text() for f in (path.rglob("*.py") if path.is_dir() else [path]))


def log_of(logs: Path, suite: str) -> Path:
    return logs / (suite.replace("/", ".").removesuffix(".py").replace(".py@", "@") + ".log")


def size(suite: str) -> int:
    """Bytes of its tests: of two that never ran, the larger one takes longer."""
    path = path_of(suite)
    return sum(f.stat().st_size for f in path.glob("*.py")) if path.is_dir() else path.stat().st_size


def counts(output: str) -> dict[str, int]:
    """The numbers of pytest's last line: "3 passed, 1 skipped in 0.12s"."""
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
    # Into a file: a process that a test left behind holds it open, but nobody waits for that.
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=output)
        try:
            status = process.wait(float(os.environ.get("SUITE_SECONDS", "3600")))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)  # pytest's faulthandler writes every thread's stack
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
    known = logs.parent / "test-times.json"  # beside the logs, which are made anew for every run
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
