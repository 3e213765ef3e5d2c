# SPDX-License-Identifier: Apache-2.0
"""Runs programs in every mode, in processes that may crash, and records differences."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import select
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .record import differences, save
from .reduce import reduce_kernel, reduce_lines
from .worker import ALWAYS, CHECK, MODES, Batch, Unusable, receive, send

PLAIN = [mode for mode in MODES if mode != "check"]
STEP_SECONDS = 60  # time limit of one program in one mode; kernels have a limit of 20


class Crash(Exception):
    """The process ended, or did not respond in time."""

    def __init__(self, text: str, mode: str, number: int) -> None:
        super().__init__(text)
        self.mode, self.number = mode, number


class Worker:
    """One process, started on demand and restarted after a crash."""

    def __init__(self, check: bool) -> None:
        self.environment = (
            {k: v for k, v in os.environ.items() if not k.startswith("CUCORE_")} | ALWAYS | (CHECK if check else {})
        )
        if library := os.environ.get("CUCORE_CPU_LIBRARY"):
            self.environment["CUCORE_CPU_LIBRARY"] = library
        folder = str(Path(__file__).resolve().parents[1])
        self.environment["PYTHONPATH"] = folder + (os.pathsep + p if (p := os.environ.get("PYTHONPATH")) else "")
        self.process: subprocess.Popen[bytes] | None = None

    def ask(self, what: str, argument: object, modes: object) -> tuple[Batch, list[tuple[str, int, str, bytes]]]:
        """The generated programs and their errors."""
        if self.process is None:
            command = [sys.executable, "-c", "from kernels.worker import main; main()"]
            # Unbuffered, so that select() sees all data.
            self.process = subprocess.Popen(
                command,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=self.environment,
            )
        assert self.process.stdin and self.process.stdout
        batch: Batch | None = None
        mode, number = "", 0
        try:
            send(self.process.stdin, (what, argument, modes))  # type: ignore[arg-type]
            while True:
                if not select.select([self.process.stdout], [], [], STEP_SECONDS)[0]:
                    raise TimeoutError
                answer = receive(self.process.stdout)
                if answer[0] == "unusable":
                    raise Unusable(answer[1])
                if answer[0] == "made":
                    batch = answer[1]
                elif answer[0] == "at":
                    mode, number = answer[1:]
                else:
                    assert batch
                    batch.expected = answer[2]
                    return batch, answer[1]
        except (EOFError, OSError, TimeoutError) as error:
            text = "the process hangs" if isinstance(error, TimeoutError) else f"the process ends with {self.end()}"
            self.close()
            crash = Crash(text, mode, number)
            crash.batch = batch  # type: ignore[attr-defined]
            raise crash from None

    def end(self) -> str:
        assert self.process
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self.process.wait(5)
            return f"signal {-code}" if code < 0 else f"code {code}"
        return "no code"

    def close(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout):
                with contextlib.suppress(OSError):
                    assert pipe
                    pipe.close()
            self.process = None


@dataclass
class Find:
    seed: int
    language: str
    number: int
    modes: dict[str, str]  # errors by mode
    folder: Path | None = None


@dataclass
class Session:
    """State shared by all slots."""

    languages: list[str]
    seed: int
    seconds: float
    programs: int  # 0: as many as fit
    batch: int
    out: Path
    most_finds: int
    reduce_seconds: float
    started: float = field(default_factory=time.monotonic)
    lock: threading.Lock = field(default_factory=threading.Lock)
    next_batch: int = 0
    done: int = 0
    unusable: int = 0
    finds: list[Find] = field(default_factory=list)

    def take(self) -> tuple[str, int] | None:
        with self.lock:
            over = time.monotonic() - self.started > self.seconds
            if (
                over
                or len(self.finds) >= self.most_finds
                or (self.programs and self.next_batch * self.batch >= self.programs)
            ):
                return None
            number = self.next_batch
            self.next_batch += 1
            return self.languages[number % len(self.languages)], self.seed * 1_000_003 + number

    def say(self, text: str) -> None:
        with self.lock:
            print(text, flush=True)


class Slot:
    """Two workers, one in check mode, that process one batch of programs at a time."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.plain, self.check = Worker(False), Worker(True)

    def close(self) -> None:
        self.plain.close()
        self.check.close()

    def all_modes(
        self, what: str, argument: Any, modes: list[str]
    ) -> tuple[Batch, dict[int, dict[str, tuple[str, bytes]]]]:
        """Errors by program number and mode."""
        wrong: dict[int, dict[str, tuple[str, bytes]]] = {}
        batch: Batch | None = None
        for worker, part in (
            (self.plain, [m for m in modes if m != "check"]),
            (self.check, [m for m in modes if m == "check"]),
        ):
            if not part:
                continue
            todo: Any = part
            if batch is not None:
                what, argument = "pairs", batch
                todo = [(m, i) for m in part for i in range(len(batch.programs))]
            while True:
                try:
                    batch, faults = worker.ask(what, argument, todo)
                    for mode, i, text, got in faults:
                        wrong.setdefault(i, {})[mode] = (text, got)
                    break
                except Crash as crash:
                    batch = batch or crash.batch  # type: ignore[attr-defined]
                    if batch is None or not crash.mode:
                        raise
                    wrong.setdefault(crash.number, {})[crash.mode] = (str(crash), b"")
                    pairs = todo if what == "pairs" else [(m, i) for m in part for i in range(len(batch.programs))]
                    todo = pairs[pairs.index((crash.mode, crash.number)) + 1 :]
                    what, argument = "pairs", batch
                    if not todo:
                        break
        assert batch
        return batch, wrong

    def fails(self, batch: Batch, program: Any, mode: str, text: str) -> bool:
        modes = [mode] if batch.language == "cuda" else ["W=1", mode]
        try:
            _, wrong = self.all_modes("programs", Batch(batch.language, [program], batch.options), modes)
        except (Unusable, Crash):  # also a smaller program that the generator's model cannot compute
            return False
        return first_line(wrong.get(0, {}).get(mode, ("", b""))[0]) == first_line(text)

    def reduced(self, batch: Batch, i: int, wrong: dict[str, tuple[str, bytes]]) -> Any:
        program = batch.programs[i]
        mode = next(m for m in sorted(wrong, key=lambda m: m == "check"))
        text = wrong[mode][0]
        seconds = self.session.reduce_seconds
        if seconds <= 0 or not self.fails(batch, program, mode, text):
            return program
        if batch.language == "cuda":
            return reduce_kernel(program, lambda k: self.fails(batch, k, mode, text), seconds)

        def fails(lines: list[str]) -> bool:
            return self.fails(batch, program.with_lines(lines), mode, text)

        return program.with_lines(reduce_lines(program.lines, program.keeps, fails, seconds))

    def work(self) -> None:
        s = self.session
        while (job := s.take()) is not None:
            language, seed = job
            try:
                batch, wrong = self.all_modes("seed", (language, seed, s.batch), [*MODES])
            except Unusable as error:
                with s.lock:
                    s.unusable += 1
                s.say(f"  seed {seed} ({language}): not usable: {str(error)[:200]}")
                continue
            except Crash as crash:
                with s.lock:
                    s.finds.append(Find(seed, language, 0, {"": str(crash)}))
                s.say(f"  FIND seed {seed} ({language}): {crash} before any program ran")
                continue
            with s.lock:
                s.done += len(batch.programs)
            for i, modes in wrong.items():
                self.found(seed, batch, i, modes)

    def found(self, seed: int, batch: Batch, i: int, wrong: dict[str, tuple[str, bytes]]) -> None:
        s = self.session
        find = Find(seed, batch.language, i, {m: text for m, (text, _) in wrong.items()})
        with s.lock:
            if len(s.finds) >= s.most_finds:
                return
            s.finds.append(find)
            after = time.monotonic() - s.started
        summary = "; ".join(f"{m}: {first_line(text)}" for m, text in find.modes.items())
        s.say(f"  FIND after {after:.0f} s, seed {seed} program {i} ({batch.language}): {summary[:300]}")
        program = self.reduced(batch, i, wrong)
        small = Batch(batch.language, [program], batch.options)
        try:
            small, again = self.all_modes("programs", small, [*MODES])
        except (Unusable, Crash):
            small, again = (
                Batch(
                    batch.language,
                    [batch.programs[i]],
                    batch.options,
                    batch.source,
                    batch.ptx,
                    [batch.launches[i]],
                    [batch.expected[i]],
                ),
                {0: wrong},
            )
        find.folder = s.out / f"{batch.language}-{seed}-{i}"
        write_find(find.folder, find, small, again.get(0, wrong))
        s.say(f"  written to {find.folder}")


def first_line(text: str) -> str:
    return text.split("\n", 1)[0]


def write_find(folder: Path, find: Find, batch: Batch, wrong: dict[str, tuple[str, bytes]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    launch = batch.launches[0]
    kind = "cu" if batch.language == "cuda" else "ptx"
    lines = [f"seed {find.seed}, program {find.number}; options {' '.join(batch.options) or '(none)'}"]
    lines.append(
        f"{launch.name}<<<{launch.grid}, {launch.block}>>>(..., n={launch.n}, q={launch.q}), inputs {launch.inputs}"
    )
    want = batch.expected[0] or b""
    for mode, (text, got) in wrong.items():
        lines.append(f"{mode}: {text.replace(chr(10), ' | ')[:2000]}{differences(want, got) if got else ''}")
    comment = "".join(f"// {line}\n" for line in lines)
    (folder / f"kernel.{kind}").write_text(comment + batch.source)
    (folder / "kernel.ptx").write_bytes(batch.ptx if kind == "cu" else (comment + batch.source).encode())
    (folder / "find.json").write_text(
        json.dumps(
            {
                "seed": find.seed,
                "number": find.number,
                "language": find.language,
                "modes": {m: t for m, (t, _) in wrong.items()},
            },
            indent=1,
        )
    )
    (folder / "program.pickle").write_bytes(pickle.dumps(batch.programs[0]))
    save(folder / "programs.xz", [batch])


def fuzz(session: Session, slots: int, interval: float) -> int:
    workers = [Slot(session) for _ in range(slots)]
    threads = [threading.Thread(target=w.work, daemon=True) for w in workers]
    for thread in threads:
        thread.start()
    try:
        while any(t.is_alive() for t in threads):
            until = time.monotonic() + interval
            for t in threads:
                t.join(max(0.0, until - time.monotonic()))
            spent = time.monotonic() - session.started
            session.say(
                f"{spent:6.0f} s  {session.done} programs in {len(MODES)} modes, {session.done / spent:.1f}/s, {len(session.finds)} finds"
            )
    finally:
        for w in workers:
            w.close()
    return 1 if session.finds else 0
