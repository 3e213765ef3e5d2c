# SPDX-License-Identifier: Apache-2.0
"""Measures compilation from PTX to machine code, each time in a new process: with an empty code cache, and again with the filled cache.
Large kernels start with baseline code; the optimized code that is compiled in the background is measured separately."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median

PROGRAM = Path(__file__).with_name("first_launch.py")
KERNELS = {  # name, threads of a block, goal in nanoseconds
    "saxpy": ("saxpy", 256, 15e6),
    "blackscholes": ("black-scholes", 256, 100e6),
    "layer_norm": ("layer norm", 256, 100e6),
    "softmax": ("softmax", 256, 100e6),
    "fft": ("FFT", 256, 100e6),
    "attention": ("attention", 64, 100e6),
}


@dataclass
class Compiling:
    name: str
    instructions: int
    goal: float
    first: float
    """Nanoseconds of processor time, the median of the processes."""
    best: float
    """The same, where the best code is made at once."""
    again: float
    compiled_again: int
    """Kernels that processes which had their code on disk compiled all the same."""


def alone(ptx: str, kernel: str) -> str:
    """A module with this kernel only, so that the cost of parsing others is not included."""
    head, *entries = re.split(r"^(?=\s*// \.globl|\.visible \.entry)", ptx, flags=re.MULTILINE)
    chosen = [part for part in entries if re.match(rf"\.visible \.entry {kernel}\(", part)]
    assert len(chosen) == 1, f"{len(chosen)} kernels {kernel}"
    return head + chosen[0]


def instructions(ptx: str) -> int:
    body = ptx[ptx.index("\n{") :]
    return sum(1 for line in body.splitlines() if line.strip().endswith(";") and not line.strip().startswith("."))


def run(driver: Path, file: Path, kernel: str, threads: int, **settings: str) -> tuple[int, int]:
    """Nanoseconds, and the number of compiled kernels."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("CUCORE_")}
    environment = others | settings | {"CUCORE_CPU_REPORT": "1"}
    command = [sys.executable, str(PROGRAM), str(driver), str(file), kernel, str(threads)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return int(done.stdout), len(re.findall(r"kernel \w+: .* ms,", done.stderr))


def compiling(driver: Path, ptx: str, rounds: int) -> list[Compiling]:
    result = []
    for kernel, (name, threads, goal) in KERNELS.items():
        text = alone(ptx, kernel)
        first, best, again, compiled_again = [], [], [], 0
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "kernel.ptx"
                file.write_text(text)
                spent, compiled = run(driver, file, kernel, threads, CUCORE_CACHE_DIR=f"{folder}/cache")
                assert compiled == 1, f"{kernel} was compiled {compiled} times"
                first.append(spent)
                spent, compiled = run(driver, file, kernel, threads, CUCORE_CACHE_DIR=f"{folder}/cache")
                again.append(spent)
                compiled_again += compiled
                spent, _ = run(driver, file, kernel, threads, CUCORE_CPU_CACHE="0", CUCORE_CPU_TIER="optimized")
                best.append(spent)
        result.append(
            Compiling(name, instructions(text), goal, median(first), median(best), median(again), compiled_again)
        )
    return result
