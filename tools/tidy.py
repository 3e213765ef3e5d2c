#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/tidy.py [FILE...]: runs clang-tidy with the checks of .clang-tidy over the C++ sources, JOBS files at a time; a finding is an error.

A file that passed is not checked again until it, a header that it includes or the checks change (build/dev/tidy.json). So
the first run is long, and later runs check what a change concerns.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build/dev"
TIDY = ROOT / ".venv/bin/clang-tidy"
FOLDERS = ("src/", "cpu/")
INCLUDE = re.compile(rb'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)
# What GCC understands and Clang does not; and precompiled headers, which are GCC's.
UNKNOWN = (
    *("-Wno-restrict", "-Wno-stringop-overflow", "-Wno-dangling-reference", "-Winvalid-pch", "-Werror"),
    "-fno-gnu-unique",
)


def tracked(*patterns: str) -> list[str]:
    return subprocess.check_output(["git", "ls-files", *patterns], cwd=ROOT, text=True).split()


def digest(*parts: bytes) -> str:
    state = hashlib.sha256()
    for part in parts:
        state.update(hashlib.sha256(part).digest())
    return state.hexdigest()[:32]


class Includes:
    """The headers of the project that a file includes, directly or not. Includes are spelled relative to several folders, so
    every header whose path ends in the spelling counts."""

    def __init__(self, root: Path, headers: list[str]) -> None:
        self._root = root
        self._by_spelling: dict[str, list[str]] = {}
        for header in headers:
            parts = header.split("/")
            for i in range(len(parts)):
                self._by_spelling.setdefault("/".join(parts[i:]), []).append(header)
        self._direct: dict[str, set[str]] = {}

    def direct(self, file: str) -> set[str]:
        if file not in self._direct:
            spellings = INCLUDE.findall((self._root / file).read_bytes())
            self._direct[file] = {h for s in spellings for h in self._by_spelling.get(s.decode(), [])}
        return self._direct[file]

    def all(self, file: str) -> list[str]:
        found: set[str] = set()
        waiting = [file]
        while waiting:
            new = self.direct(waiting.pop()) - found
            found |= new
            waiting += new
        return sorted(found)


def commands() -> dict[str, dict[str, str]]:
    """The compiler's command of every source file, without what only GCC understands."""
    found = {}
    for row in json.loads((BUILD / "compile_commands.json").read_text()):
        words = [word for word in row["command"].split() if word not in UNKNOWN]
        found[os.path.relpath(row["file"], ROOT)] = row | {"command": " ".join(words)}
    return found


def check(folder: str, file: str) -> tuple[str, int, str, float]:
    start = time.monotonic()
    extra = ["--extra-arg=-Wno-ignored-gch", "--extra-arg=-Wno-unknown-warning-option"]
    done = subprocess.run(
        [str(TIDY), "-p", folder, "--quiet", *extra, file], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return file, done.returncode, done.stdout, time.monotonic() - start


def main(chosen: list[str]) -> int:
    known = commands()
    files = chosen or [file for file in tracked("*.cpp") if file.startswith(FOLDERS) and file in known]
    if unknown := [file for file in files if file not in known]:
        print(f"no compile command for {', '.join(unknown)}: build first (make build)", file=sys.stderr)
        return 2
    checks = (ROOT / ".clang-tidy").read_bytes()
    includes = Includes(ROOT, tracked("*.hpp", "*.h"))
    record = BUILD / "tidy.json"
    passed: dict[str, str] = json.loads(record.read_text()) if record.exists() else {}
    keys = {
        file: digest(checks, *((ROOT / name).read_bytes() for name in [file, *includes.all(file)])) for file in files
    }
    todo = [file for file in files if passed.get(file) != keys[file]]
    print(f"clang-tidy: {len(todo)} of {len(files)} files to check", flush=True)
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "compile_commands.json").write_text(json.dumps(list(known.values())))
        with ThreadPoolExecutor(int(os.environ.get("JOBS", 0)) or os.cpu_count()) as pool:
            for done, future in enumerate(as_completed([pool.submit(check, folder, file) for file in todo]), 1):
                file, status, output, took = future.result()
                if status:
                    failed.append(file)
                    print(output)
                else:
                    passed[file] = keys[file]
                    record.write_text(json.dumps(passed, indent=1, sort_keys=True))
                print(f"[{done}/{len(todo)}] {file}: {'FAILED' if status else 'ok'} in {took:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
