#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/ctest_batches.py FOLDER JOBS LOG [EXCEPT]: runs the ctest tests of a build folder in batches, JOBS processes in parallel, and prints their counts.

ctest starts a process for each test. Under the address sanitizer the leak check at process exit takes seconds on AArch64 (GCC's library
walks a table of 2^28 entries several times), so one process runs many tests of a program. Tests that skip in a batch run again in their
own process, because tests that need a process of their own skip in a shared one. Programs that do not use GoogleTest run unchanged.
EXCEPT: a regular expression; tests whose name matches it are not run. LOG receives all output; that of failed tests is also printed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

FILTER = "--gtest_filter="
TESTS_OF_A_PROCESS = 16  # minimum batch size; a program with more tests is split if there are enough jobs
SECONDS = 3600  # time limit of one process
ENDED = re.compile(r"\[  (     OK|SKIPPED|FAILED ) ?\] ([^\s,]+).* \(\d+ ms\)$", re.MULTILINE)


@dataclass
class Process:
    """A process to start: a program with a list of its tests, or a command without tests."""

    command: list[str]
    environment: dict[str, str]
    folder: str | None
    name: str
    tests: list[str] = field(default_factory=list)
    output: str = ""
    status: int | None = None

    def run(self) -> Process:
        filters = [FILTER + ":".join(self.tests)] if self.tests else []
        try:
            done = subprocess.run(
                self.command + filters,
                env=os.environ | self.environment,
                cwd=self.folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=SECONDS,
            )
            self.status, self.output = done.returncode, done.stdout
        except subprocess.TimeoutExpired as late:
            self.output = (late.stdout or b"").decode(errors="replace") + f"\nnot ended after {SECONDS} s\n"
        return self

    def ended(self) -> dict[str, str]:
        """The result of each test."""
        return {name: how.strip() for how, name in ENDED.findall(self.output)}


def environment_of(properties: dict[str, Any]) -> dict[str, str]:
    environment = dict(row.split("=", 1) for row in properties.get("ENVIRONMENT", []))
    for row in properties.get("ENVIRONMENT_MODIFICATION", []):
        name, _, change = row.partition("=")
        how, _, value = change.partition(":")
        if how == "path_list_prepend":
            before = environment.get(name, os.environ.get(name))
            environment[name] = f"{value}:{before}" if before else value
        elif how == "set":
            environment[name] = value
        else:
            raise SystemExit(f"unknown change of the environment: {row}")
    return environment


def processes(folder: Path, jobs: int, without: str | None) -> list[Process]:
    shown = subprocess.run(
        ["ctest", "--test-dir", str(folder), "--show-only=json-v1"], stdout=subprocess.PIPE, text=True, check=True
    )
    programs: dict[tuple[str, ...], Process] = {}
    found: list[Process] = []
    for test in json.loads(shown.stdout)["tests"]:
        if without and re.search(without, test["name"]):
            continue
        if "command" not in test:
            raise SystemExit(f"{test['name']} is not built")
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        environment, where = environment_of(properties), properties.get("WORKING_DIRECTORY")
        program, *options = test["command"]
        filters = [option.removeprefix(FILTER) for option in options if option.startswith(FILTER)]
        if not filters:
            found.append(Process(test["command"], environment, where, test["name"]))
            continue
        key = (program, *sorted(f"{name}={value}" for name, value in environment.items()))
        together = programs.setdefault(key, Process([program], environment, where, Path(program).name))
        together.tests += filters
    for process in programs.values():
        tests = process.tests
        parts = max(1, min(jobs, len(tests) // TESTS_OF_A_PROCESS))
        found += [
            replace(process, tests=tests[part::parts]) for part in range(parts)
        ]  # interleaved: neighbours take similar time
    return found


def alone(process: Process) -> list[Process]:
    skipped = [name for name, how in process.ended().items() if how == "SKIPPED"] if len(process.tests) > 1 else []
    return [replace(process, name=name, tests=[name], output="", status=None) for name in skipped]


def main(arguments: list[str]) -> int:
    folder, jobs, log = Path(arguments[0]), int(arguments[1]), Path(arguments[2])
    wanted = processes(folder, jobs, arguments[3] if len(arguments) > 3 else None)
    if not wanted:
        raise SystemExit(f"no tests in {folder}")
    passed = skipped = bad = 0
    with ThreadPoolExecutor(jobs) as pool, log.open("w") as to:
        done = list(pool.map(Process.run, wanted))
        done += pool.map(Process.run, [one for process in done for one in alone(process)])
        for process in done:
            to.write(process.output)
            ended = process.ended()
            unsaid = [name for name in process.tests if name not in ended]  # the process crashed before this test
            good = process.status == 0 and not unsaid
            if process.tests:
                passed += sum(how == "OK" for how in ended.values())
                skipped += len(process.tests) == 1 and "SKIPPED" in ended.values()
            else:
                passed += good
            if not good:
                bad += 1
                print(
                    f"{process.name} ended with {process.status}, {len(unsaid)} of its tests not run:\n{process.output}"
                )
    print(f"{passed} tests passed, {skipped} skipped, {bad} of {len(done)} processes failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
