# SPDX-License-Identifier: Apache-2.0
"""Kernel coverage: reads the counters of kernels (`CUCORE_COVERAGE=folder`); merges launches, modules and processes.

A module of the CPU device writes one map, `MODULE.json`: the counters of its blocks and branches, and their source lines
(cpu/engine/coverage/coverage_map.hpp). Every process adds a file `MODULE.BYTES.PROCESS.N.counts`: for each host thread
BYTES bytes of 64-bit counters.
"""

from __future__ import annotations

import array
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

# Headers of the toolkit and of its libraries, which are excluded from the report.
TOOLKIT_FILES = ("*/nvidia/*/include/*", "*/cuda*/include/*", "*/nvrtc-headers-*", "*/cccl/*", "*/cuda/std/*", "<*>")


@dataclass
class Branch:
    """The two sides of a conditional branch, summed over all copies that the compiler created."""

    line: int
    column: int
    targets: tuple[int, int]  # the line on which each side continues; 0: unknown
    taken: list[int]  # number of threads that took each side
    divergent: int = 0  # number of warps whose threads took both sides
    warps: int = 0  # number of warps that reached the branch; 0 if threads ran one by one

    def side(self, index: int) -> str:
        """Returns a description of a side for reports."""
        known = self.targets[0] != self.targets[1] and all(self.targets)
        return f"to line {self.targets[index]}" if known else ("true", "false")[index]


@dataclass
class Function:
    name: str
    line: int
    is_kernel: bool
    threads: int = 0


@dataclass
class FileCoverage:
    path: str
    lines: dict[int, int] = field(default_factory=dict)  # line -> number of threads that executed it
    branches: list[Branch] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)

    @property
    def missing(self) -> list[int]:
        return sorted(line for line, count in self.lines.items() if count == 0)

    @property
    def executed(self) -> list[int]:
        return sorted(line for line, count in self.lines.items() if count > 0)

    @property
    def sides(self) -> int:
        return 2 * len(self.branches)

    @property
    def missed_sides(self) -> int:
        return sum(count == 0 for branch in self.branches for count in branch.taken)

    @property
    def partial(self) -> list[int]:
        """The lines with a branch of which only one side was taken."""
        return sorted({b.line for b in self.branches if (b.taken[0] == 0) != (b.taken[1] == 0)})

    @property
    def divergence(self) -> float | None:
        """The fraction of branches at which a warp diverged, weighted by the number of warps that reached them."""
        warps = sum(branch.warps for branch in self.branches)
        return sum(branch.divergent for branch in self.branches) / warps if warps else None

    def source(self) -> list[str] | None:
        try:
            return Path(self.path).read_text(errors="replace").splitlines()
        except OSError:
            return None


def percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 100.0


class _Merger:
    """Merges modules. Copies of a line or branch (templates, unrolled loops, other modules) are merged into one."""

    def __init__(self) -> None:
        self.files: dict[str, FileCoverage] = {}
        self.branches: dict[tuple[str, int, int, frozenset[int]], Branch] = {}
        self.functions: dict[tuple[str, str], Function] = {}

    def file(self, path: str) -> FileCoverage:
        return self.files.setdefault(path, FileCoverage(path))

    def add(self, module: dict[str, Any], counts: Sequence[int]) -> None:
        paths: list[str] = module["files"]
        of_module: dict[tuple[str, int], int] = {}
        for counter, lines in module["blocks"]:
            for file, line in lines:  # a line with several basic blocks: the maximum count
                key = paths[file], line
                of_module[key] = max(of_module.get(key, 0), counts[counter])
        for (path, line), count in of_module.items():
            known = self.file(path).lines
            known[line] = known.get(line, 0) + count
        for counter, _, (file, line), column, (yes, no) in module["branches"]:
            self.add_branch(paths[file], line, column, (yes, no), counts[counter : counter + 4])
        for name, is_kernel, (file, line), counter in module["functions"]:
            key = paths[file], name
            if key not in self.functions:
                self.functions[key] = Function(name, line, is_kernel)
                self.file(paths[file]).functions.append(self.functions[key])
            self.functions[key].threads += counts[counter]

    def add_branch(self, path: str, line: int, column: int, targets: tuple[int, int], counts: Sequence[int]) -> None:
        key = path, line, column, frozenset(targets)
        branch = self.branches.get(key)
        if branch is None:
            branch = self.branches[key] = Branch(line, column, targets, [0, 0])
            self.file(path).branches.append(branch)
        sides = counts[:2] if branch.targets == targets else counts[1::-1]  # a copy with its sides exchanged
        branch.taken[0] += sides[0]
        branch.taken[1] += sides[1]
        branch.divergent += counts[2]
        branch.warps += counts[3]


def _sum(file: Path, stride: int, total: array.array[int]) -> None:
    """Adds the counters of every host thread of a process to `total`."""
    data = file.read_bytes()
    for start in range(0, len(data) - stride + 1, stride):
        numbers = array.array("Q", data[start : start + 8 * len(total)])
        if sys.byteorder == "big":
            numbers.byteswap()
        for index, number in enumerate(numbers):
            if number:
                total[index] += number


def _is_wanted(path: str, omit: Iterable[str]) -> bool:
    return not any(fnmatch(path, pattern) for pattern in omit)


def read(folder: Path, omit: Iterable[str] = ()) -> list[FileCoverage]:
    """Returns the coverage of all source files except those of the toolkit and those that match a pattern of `omit`."""
    merger = _Merger()
    for map_file in sorted(folder.glob("*.json")):
        module = json.loads(map_file.read_text())
        total = array.array("Q", bytes(8 * module["counters"]))
        for counts in sorted(folder.glob(f"{module['module']}.*.counts")):
            _sum(counts, int(counts.name.split(".")[1]), total)
        merger.add(module, total)
    patterns = (*TOOLKIT_FILES, *omit)
    found = [file for path, file in sorted(merger.files.items()) if _is_wanted(path, patterns)]
    for file in found:
        file.branches.sort(key=lambda branch: (branch.line, branch.column, branch.targets))
        file.functions.sort(key=lambda function: (function.line, function.name))
    return found


@dataclass
class Totals:
    lines: int
    missing: int
    sides: int
    missed_sides: int
    divergent: int
    warps: int

    @property
    def percent(self) -> float:
        """The coverage of lines and sides of branches in percent, computed as in coverage.py."""
        whole = self.lines + self.sides
        return percent(whole - self.missing - self.missed_sides, whole)

    @property
    def divergence(self) -> float | None:
        return self.divergent / self.warps if self.warps else None


def totals(files: Iterable[FileCoverage]) -> Totals:
    files = list(files)
    branches = [branch for file in files for branch in file.branches]
    return Totals(
        lines=sum(len(file.lines) for file in files),
        missing=sum(len(file.missing) for file in files),
        sides=sum(file.sides for file in files),
        missed_sides=sum(file.missed_sides for file in files),
        divergent=sum(branch.divergent for branch in branches),
        warps=sum(branch.warps for branch in branches),
    )
