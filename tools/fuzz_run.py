#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/fuzz_run.py BUILD OUT SECONDS [NAME=PROCESSES...]: runs built fuzzers in parallel and prints statistics.

The processes of a fuzzer share a corpus in BUILD/grown, which starts as the committed corpus. A process that ends with a finding is restarted for
the remaining time. OUT receives the logs, the findings (found/NAME-...), the merged corpus (grown.tar.xz) and summary.json: executions, seconds of
processor time, covered edges. The exit status is 1 if there are findings."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CORPORA = {
    "fuzz_ptx_parser": "ptx",
    "fuzz_container": "container",
    "fuzz_image": "image",
    "fuzz_calls": "calls",
    "fuzz_ptx_compiler": "ptx",
}
MAX_RESTARTS = 8  # per process
MERGE_SECONDS = 120
MAX_PACKED = 10 << 20
NO_TRACING = "LeakSanitizer has encountered a fatal error"


@dataclass
class Fuzzer:
    """Statistics of all processes of one fuzzer."""

    name: str
    executions: int = 0
    cpu_seconds: float = 0.0
    peak_rss_mb: int = 0
    edges: int = 0
    all_edges: int = 0
    features: int = 0
    inputs: int = 0
    finds: list[str] = field(default_factory=list)


def environment(leaks: bool) -> dict[str, str]:
    # The CPU device's threads and tables stay reachable until process exit: not a leak.
    options = f"handle_segv=1:allow_user_segv_handler=1:detect_leaks={int(leaks)}"
    supp = f"suppressions={ROOT / 'tests' / 'sanitize' / 'lsan.supp'}:print_suppressions=0"
    return os.environ | {"ASAN_OPTIONS": options, "LSAN_OPTIONS": supp, "UBSAN_OPTIONS": "print_stacktrace=1"}


def leak_check_works(build: Path, names: list[str]) -> bool:
    """True if the leak check works: it traces the process, which a container may forbid."""
    program = build / "tests" / "fuzz" / names[0]
    probe = subprocess.run(
        [program, "-runs=1"], env=environment(True), capture_output=True, text=True, errors="replace"
    )
    return NO_TRACING not in probe.stderr


def read_log(fuzzer: Fuzzer, text: str) -> None:
    if found := re.search(r"stat::number_of_executed_units:\s*(\d+)", text):
        fuzzer.executions += int(found[1])
    elif counts := re.findall(r"^#(\d+)\s", text, re.MULTILINE):
        fuzzer.executions += int(counts[-1])
    if found := re.search(r"stat::peak_rss_mb:\s*(\d+)", text):
        fuzzer.peak_rss_mb = max(fuzzer.peak_rss_mb, int(found[1]))
    if loaded := re.findall(r"INFO: Loaded \d+ modules\s+\((\d+) ", text):
        fuzzer.all_edges = int(loaded[-1])
    for edges, features in re.findall(r"cov: (\d+) ft: (\d+)", text):
        fuzzer.edges = max(fuzzer.edges, int(edges))
        fuzzer.features = max(fuzzer.features, int(features))


class Run:
    def __init__(self, build: Path, out: Path, seconds: int) -> None:
        self.build, self.out, self.seconds = build, out, seconds
        self.lock = threading.Lock()

    def program(self, name: str) -> Path:
        return self.build / "tests" / "fuzz" / name

    def grown(self, name: str) -> Path:
        return self.build / "grown" / name

    def process(self, fuzzer: Fuzzer, number: int, leaks: bool) -> None:
        """Runs one process until the time limit, and restarts it after a finding."""
        end = time.monotonic() + self.seconds
        for start in range(MAX_RESTARTS):
            left = int(end - time.monotonic())
            if left <= 0:
                return
            log = self.out / f"{fuzzer.name}-{number}-{start}.log"
            command = [
                str(self.program(fuzzer.name)),
                f"-max_total_time={left}",
                "-timeout=60",
                "-rss_limit_mb=4096",
                "-print_final_stats=1",
                f"-artifact_prefix={self.out}/found/{fuzzer.name}-",
                str(self.grown(fuzzer.name)),
            ]
            with log.open("wb") as to:
                child = subprocess.Popen(command, stdout=to, stderr=subprocess.STDOUT, env=environment(leaks))
                _, status, usage = os.wait4(child.pid, 0)
                child.returncode = os.waitstatus_to_exitcode(status)
            with self.lock:
                read_log(fuzzer, log.read_text(errors="replace"))
                fuzzer.cpu_seconds += usage.ru_utime + usage.ru_stime
                if child.returncode != 0:
                    fuzzer.finds.append(f"{log.name}: ended with {child.returncode}")
            if child.returncode == 0:
                return

    def merge(self, fuzzer: Fuzzer) -> Path:
        """Merges the corpus to the smallest part with the same coverage, or keeps all of it if that takes too long."""
        merged = self.build / "merged" / fuzzer.name
        shutil.rmtree(merged, ignore_errors=True)
        merged.mkdir(parents=True)
        log = self.out / f"{fuzzer.name}-merge.log"
        try:
            with log.open("wb") as to:
                subprocess.run(
                    [str(self.program(fuzzer.name)), "-merge=1", "-timeout=60", "-rss_limit_mb=4096", str(merged), str(self.grown(fuzzer.name))],
                    stdout=to, stderr=subprocess.STDOUT, env=environment(False), check=True, timeout=MERGE_SECONDS,
                )  # fmt: skip
        except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
            print(f"{fuzzer.name}: not merged: {error}", flush=True)
            return self.grown(fuzzer.name)
        if done := re.search(
            r"(\d+) new files with (\d+) new features added; (\d+) new coverage edges", log.read_text(errors="replace")
        ):
            fuzzer.features, fuzzer.edges = int(done[2]), int(done[3])
        return merged


def together(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main(arguments: list[str]) -> int:
    build, out, seconds = Path(arguments[0]).resolve(), Path(arguments[1]).resolve(), int(arguments[2])
    processes = {
        name: int(count or 1) for name, _, count in (a.partition("=") for a in arguments[3:])
    } or dict.fromkeys(CORPORA, 1)
    (out / "found").mkdir(parents=True, exist_ok=True)
    leaks = leak_check_works(build, list(processes))
    if not leaks:
        print("the leak check is disabled: tracing processes is not permitted here", flush=True)
    run = Run(build, out, seconds)
    fuzzers = [Fuzzer(name) for name in processes]
    for name in processes:
        shutil.copytree(ROOT / "tests" / "fuzz" / "corpus" / CORPORA[name], run.grown(name), dirs_exist_ok=True)
    together([
        threading.Thread(target=run.process, args=(fuzzer, number, leaks))
        for fuzzer in fuzzers
        for number in range(processes[fuzzer.name])
    ])  # fmt: skip
    merged: dict[str, Path] = {}
    together([threading.Thread(target=lambda f=fuzzer: merged.update({f.name: run.merge(f)})) for fuzzer in fuzzers])
    for fuzzer in fuzzers:
        fuzzer.inputs = sum(1 for _ in merged[fuzzer.name].iterdir())
        finds = f", {len(fuzzer.finds)} FINDINGS" if fuzzer.finds else ", no findings"
        print(
            f"{fuzzer.name}: {processes[fuzzer.name]} processes, {fuzzer.executions:,} executions, {fuzzer.cpu_seconds:,.0f} s of processor time, "
            f"{fuzzer.edges:,} of {fuzzer.all_edges:,} edges, {fuzzer.features:,} features, {fuzzer.inputs:,} inputs, {fuzzer.peak_rss_mb:,} MB at most{finds}",
            flush=True,
        )
        for find in fuzzer.finds:
            print(f"  {find}", flush=True)
    summary = {
        "seconds": seconds,
        "leaks": leaks,
        "fuzzers": [vars(f) | {"processes": processes[f.name]} for f in fuzzers],
    }
    (out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    packed = out / "grown.tar.xz"
    with tarfile.open(packed, "w:xz") as archive:
        for name, folder in merged.items():
            archive.add(folder, name)
    if packed.stat().st_size > MAX_PACKED:
        print(f"{packed.name}: {packed.stat().st_size} bytes, not kept", flush=True)
        packed.unlink()
    return 1 if any(f.finds for f in fuzzers) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
