# SPDX-License-Identifier: Apache-2.0
"""Counts the functions that the CPU device implements and renders them as JSON (for `cucore coverage`) and as a page.

A driver function is implemented if the library has a strong definition of its symbol: the rendered stubs are weak.
api/coverage_reasons.json lists the functions that cannot work without a GPU, with the reason.

Runtime functions are hidden in libcucore.so, so they are counted in the sources. NVML functions of the CPU device are
counted like driver functions, and so are those of CUPTI. PTX instructions are counted by the rows of api/ptx.json.

    python codegen/coverage.py --driver libcucore_cpu.so [--nvml libnvidia-ml.so.1] [--cupti libcupti.so.13] [--runtime src/runtime] --json FILE --page FILE
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import facts
from elf_symbols import defined_symbols
from factfile import read_facts

FAMILIES = (
    "Array", "Checkpoint", "Coredump", "Ctx", "Dev", "EGL", "Event", "External", "Func", "GL", "Graphics", "Graph",
    "GreenCtx", "Host", "Ipc", "Kernel", "Launch", "Library", "Link", "LogicalEndpoint", "Logs", "Malloc", "Memcpy",
    "Memset", "MemPool", "Mem", "Mipmapped", "Module", "Multicast", "Occupancy", "Param", "Pointer", "Profiler",
    "Stream", "Surf", "TensorMap", "Tex", "UserObject", "VDPAU",
)  # fmt: skip


CUPTI_FAMILIES = (
    "Activity", "Device", "Enable", "Event", "Get", "Metric", "PCSampling", "PmSampling", "Profiler", "RangeProfiler", "SassMetrics",
)  # fmt: skip
NVML_FAMILIES = ("ComputeInstance", "Device", "EventSet", "Gpm", "GpuInstance", "System", "Unit", "Vgpu")


@dataclass(frozen=True)
class Coverage:
    implemented: tuple[str, ...]
    missing: dict[str, str]  # function -> the reason why it is missing, or "" if it is not implemented yet

    @property
    def total(self) -> int:
        return len(self.implemented) + len(self.missing)

    def applicable(self) -> int:
        """The number of functions that can work on a CPU."""
        return self.total - sum(1 for reason in self.missing.values() if reason)


def reason_for(name: str, reasons: dict[str, str]) -> str:
    """The reason of the longest matching pattern."""
    fitting = [pattern for pattern in reasons if fnmatchcase(name, pattern)]
    return reasons[max(fitting, key=len)] if fitting else ""


def measure(library: facts.Library, defined: dict[str, bool], reasons: dict[str, str]) -> Coverage:
    implemented = [f.name for f in library.functions.values() if defined.get(f.symbol)]
    missing = {n: reason_for(n, reasons) for n in library.functions if n not in set(implemented)}
    return Coverage(tuple(sorted(implemented)), dict(sorted(missing.items())))


def defined_in_sources(folder: Path, names: Iterable[str]) -> dict[str, bool]:
    """Functions that the C++ files of a folder define at the start of a line or store in the runtime table."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.cpp")))
    starts = re.compile(r'^(?:extern "C" )?[\w ]+[ *]+(\w+)\([^;{}]*\)\s*(?:noexcept\s*)?\{', re.MULTILINE)
    entries = re.compile(r"(?:\bt\.(?=\w+ = )|\b(?:NEEDS_CONTEXT|QUERY)\((?=\w+,\s))(\w+)")
    return dict.fromkeys({*starts.findall(text), *entries.findall(text)} & set(names), True)


def instructions() -> Coverage:
    """Rows of the instruction table by their text. A row without an emitter is missing."""
    there, missing = [], {}
    for row in read_facts(facts.API / "ptx.json")["rows"]:
        text = ".".join([row["op"], *row.get("mods", []), *row.get("types", [])])
        if row.get("emit") != "unsupported":
            there.append(f"{text} {row.get('args', '')}".rstrip())
        else:
            newer = f"came with sm_{row['sm']}; the CPU device reports 9.0" if row.get("sm", 0) > 90 else ""
            missing[text] = row.get("note") or newer
    return Coverage(tuple(sorted(there)), dict(sorted(missing.items())))


def family_of(name: str) -> str:
    if name.startswith("nvml"):
        return next((f for f in NVML_FAMILIES if name.startswith(f"nvml{f}")), "other")
    if name.startswith("cupti"):
        return next((f for f in CUPTI_FAMILIES if name.startswith(f"cupti{f}")), "other")
    if not name.startswith("cu") or "." in name or " " in name:
        return re.split(r"[. ]", name)[0]  # a PTX instruction
    rest = name.removeprefix("cuda") if name.startswith("cuda") else name.removeprefix("cu")
    return next((f for f in FAMILIES if rest.startswith(f)), "other")


def families(coverage: Coverage) -> dict[str, tuple[list[str], list[str]]]:
    """Function group (Stream, Memory ...) -> implemented and missing functions."""
    result: dict[str, tuple[list[str], list[str]]] = {}
    for name in sorted([*coverage.implemented, *coverage.missing]):
        group = result.setdefault(family_of(name), ([], []))
        group[1 if name in coverage.missing else 0].append(name)
    return dict(sorted(result.items()))


def render_json(coverages: dict[str, Coverage]) -> str:
    table = {n: {"implemented": list(c.implemented), "missing": c.missing} for n, c in coverages.items()}
    return json.dumps(table, indent=1) + "\n"


def render_page(coverages: dict[str, Coverage]) -> str:
    lines = ["# What works on the CPU device", "", "Rendered from the built library by `codegen/coverage.py`.", ""]
    lines += ["| API | functions | work | make no sense without a GPU | not written yet |", "|---|---|---|---|---|"]
    for name, c in coverages.items():
        senseless = c.total - c.applicable()
        lines.append(f"| {name} | {c.total} | {len(c.implemented)} | {senseless} | {len(c.missing) - senseless} |")
    for name, c in coverages.items():
        lines += ["", f"## {name}", "", "| family | work | of | missing |", "|---|---|---|---|"]
        for family, (there, absent) in families(c).items():
            names = ", ".join(f"`{n}`" for n in absent if not c.missing[n])
            lines.append(f"| {family} | {len(there)} | {len(there) + len(absent)} | {names} |")
        reasons = sorted({r for r in c.missing.values() if r})
        if reasons:
            lines += ["", "Not implemented on purpose:", ""]
            for reason in reasons:
                names = ", ".join(f"`{n}`" for n, r in c.missing.items() if r == reason)
                lines.append(f"- {reason}: {names}")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Counts what works on the CPU device.")
    parser.add_argument("--driver", type=Path, help="libcucore_cpu.so")
    parser.add_argument("--nvml", type=Path, help="libnvidia-ml.so.1 of the CPU device")
    parser.add_argument("--cupti", type=Path, help="libcupti.so.13 of the CPU device")
    parser.add_argument("--runtime", type=Path, help="folder of the sources of the runtime API")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path)
    args = parser.parse_args()
    reasons = read_facts(facts.API / "coverage_reasons.json")
    coverages: dict[str, Coverage] = {}
    if args.driver:
        driver = facts.load("driver")
        coverages["driver"] = measure(driver, defined_symbols(args.driver), reasons["driver"])
    if args.runtime:
        runtime = facts.load("runtime")
        written = defined_in_sources(args.runtime, runtime.functions)
        coverages["runtime"] = measure(runtime, written, reasons["runtime"])
    if args.cupti:
        coverages["cupti"] = measure(facts.load("cupti"), defined_symbols(args.cupti), reasons["cupti"])
    if args.nvml:
        coverages["nvml"] = measure(facts.load("nvml"), defined_symbols(args.nvml), reasons["nvml"])
    if args.driver:
        coverages["ptx"] = instructions()
    if args.json:
        args.json.write_text(render_json(coverages), encoding="utf-8")
    if args.page:
        args.page.write_text(render_page(coverages), encoding="utf-8")
    for name, c in coverages.items():
        print(f"{name}: {len(c.implemented)} of {c.total} work on the CPU device")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
