# SPDX-License-Identifier: Apache-2.0
"""Random schedules: runs a program or each test with different schedules of kernel threads, and finds one that fails.

    cucore schedules program.py             # 100 seeds; the first with another outcome is reduced to relevant switches
    pytest --cuda-schedules=100             # every test with 100 seeds, until one fails

CUCORE_CPU_SCHEDULE=seed:N selects the schedule (docs/guide/schedules.md).
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import terminal
from .run import command_of, environment

VARIABLE = "CUCORE_CPU_SCHEDULE"
KINDS = {
    "p": "another thread runs before its",
    "d": "others see late its",
    "o": "an older value is read by its",
}


@dataclass(frozen=True)
class Outcome:
    """The outcome of a program, as it is compared."""

    status: int
    output: bytes

    def differs_from(self, other: Outcome) -> str:
        """Returns the difference as the end of a sentence; empty if there is none."""
        if self.status != other.status:
            return f"ends with status {self.status} and not {other.status}"
        if self.output != other.output:
            return "prints something else"
        return ""


@dataclass(frozen=True)
class Event:
    """One line of a schedule log of the CPU device: a point at which the schedule deviates from the default order."""

    name: str  # a letter (KINDS) followed by launch, block, thread and point
    kernel: str
    line: str

    @classmethod
    def parse(cls, text: str) -> Event:
        name, kernel, line = [*text.split(" ", 2), "", ""][:3]
        return cls(name, kernel, line.strip())

    def describe(self) -> str:
        launch, block, thread, point = self.name[1:].split(".")
        what = KINDS[self.name[0]]
        where = f" at {self.line}" if self.line else ""
        return f"{self.kernel} (launch {launch}), block {block}, thread {thread}: {what} access {point}{where}"


def reduce_events(events: Sequence[Event], fails: Callable[[Sequence[Event]], bool]) -> list[Event]:
    """Returns a minimal list of events that still fails: no single event can be removed (delta debugging)."""
    kept = list(events)
    parts = 2
    while len(kept) >= 2:
        size = -(-len(kept) // parts)
        chunks = [kept[i : i + size] for i in range(0, len(kept), size)]
        for chunk in chunks:
            rest = [event for event in kept if event not in set(chunk)]
            if fails(rest):
                kept, parts = rest, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(parts * 2, len(kept))
    if len(kept) == 1 and fails([]):
        return []
    return kept


class Runner:
    """Runs one program repeatedly."""

    def __init__(self, program: Sequence[str], folder: Path) -> None:
        self.command = program
        self.environment = environment("cpu", executable=program[0])
        self.errors = b""
        self.folder = folder
        self.runs = 0

    def run(self, schedule: str) -> Outcome:
        """Runs the program. `schedule` is the value of the variable; empty for the default schedule."""
        self.runs += 1
        environment = self.environment | {VARIABLE: schedule}
        done = subprocess.run(self.command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        self.errors = done.stderr
        return Outcome(done.returncode, done.stdout)

    def with_seed(self, seed: int) -> tuple[Outcome, list[Event]]:
        log = self.folder / f"seed{seed}"
        log.unlink(missing_ok=True)
        outcome = self.run(f"seed:{seed},log:{log}")
        lines = log.read_text().splitlines() if log.exists() else []
        return outcome, [Event.parse(line) for line in lines]

    def with_events(self, seed: int, events: Sequence[Event]) -> Outcome:
        kept = self.folder / "kept"
        kept.write_text("".join(event.name + "\n" for event in events))
        return self.run(f"seed:{seed},keep:@{kept}")


def progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def schedules(program: Sequence[str], seeds: int, first: int, reduces: bool) -> int:
    """Implements the command. Returns 0 if all seeds have the outcome of a run without a seed, otherwise 1."""
    command = command_of("schedules", program)
    if isinstance(command, int):
        return command
    with tempfile.TemporaryDirectory(prefix="cucore-schedules-") as folder:
        runner = Runner(command, Path(folder))
        expected = runner.run("")
        if expected.status != 0:
            errors = runner.errors.decode(errors="replace").rstrip()
            terminal.complain(
                "schedules", f"the program ends with status {expected.status} without a schedule, too\n{errors}"
            )
            return 1
        for number, seed in enumerate(range(first, first + seeds)):
            progress(f"seed {seed} ({number + 1} of {seeds})")
            outcome, events = runner.with_seed(seed)
            difference = outcome.differs_from(expected)
            if not difference:
                continue
            progress("")
            sys.stderr.flush()
            errors = runner.errors.decode(errors="replace").rstrip()
            print(f"with {VARIABLE}=seed:{seed} the program {difference}")
            if errors:
                print("\n".join("  " + line for line in errors.splitlines()[-12:]))
            if reduces:
                report_reduced(runner, seed, events, expected)
            return 1
        progress("")
        print(
            f"{seeds} schedules (seeds {first} to {first + seeds - 1}): the program ends in the same way with all of them"
        )
    return 0


def report_reduced(runner: Runner, seed: int, events: Sequence[Event], expected: Outcome) -> None:
    def fails(kept: Sequence[Event]) -> bool:
        progress(f"reducing {len(events)} events: {len(kept)} are tried, run {runner.runs}")
        return bool(runner.with_events(seed, kept).differs_from(expected))

    if not fails(events):
        progress("")
        print("it does not fail again with the same events: the program depends on more than the order of its threads")
        return
    kept = reduce_events(events, fails)
    progress("")
    if not kept:
        print("it fails whatever the threads do: the order in which threads or blocks start is enough")
        return
    print(f"{len(kept)} of {len(events)} events are enough:")
    for event in kept:
        print("  " + event.describe())
    names = "+".join(event.name for event in kept)
    print(f"replay: {VARIABLE}=seed:{seed},keep:{names} " + shlex.join(runner.command))
