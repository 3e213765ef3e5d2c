# SPDX-License-Identifier: Apache-2.0
"""`cucore explain`: source, PTX and vector code of a kernel side by side, with the analysis of accesses and branches.

The compiler of the CPU device describes a compilation as JSON (cpu/engine/explain.hpp). This module compiles the
source, joins the three texts by source line, estimates the cost of each line, and prints text or an HTML page.
"""

from __future__ import annotations

import ctypes
import html
import json
import math
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import CPU_DRIVER_FOLDER, terminal

WARP = 32
SECTOR = 32  # size in bytes of a GPU memory transaction
ITERATIONS = 10  # assumed trip count of a loop whose trip count is unknown

Place = tuple[str, int]
NOWHERE: Place = ("", 0)  # for PTX code without line information


class ExplainError(Exception):
    """The kernel cannot be explained. The message has the reason."""


@dataclass
class Line:
    """A source line: its text, the code that belongs to it, and notes."""

    number: int
    text: str
    ptx: list[str] = field(default_factory=list)
    assembly: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    depth: int = 0
    cost: float = 0.0
    bad: bool = False  # a note reports something slow


@dataclass
class Page:
    """The content of the report: facts of the whole kernel, and the lines of each file."""

    kernel: str
    facts: dict[str, Any]
    summary: list[str]
    files: dict[str, list[Line]]

    @property
    def cost(self) -> float:
        return sum(line.cost for lines in self.files.values() for line in lines)


# ---- the compilers ----


def compile_source(path: Path, name: str, includes: list[str], arch: str | None) -> tuple[str, str]:
    """Compiles a CUDA C++ file to PTX with line information (a .ptx file is only read). Returns PTX and kernel name."""
    text = path.read_text()
    if path.suffix == ".ptx":
        return text, name
    from cuda.core import Program, ProgramOptions

    options = ProgramOptions(name=str(path.resolve()), lineinfo=True, arch=arch, include_path=includes or None)
    expressions = (name,) if re.search(r"[<:]", name) else ()
    made = Program(text, "c++", options).compile("ptx", name_expressions=expressions)
    code = made.code.decode() if isinstance(made.code, bytes) else str(made.code)
    lowered = made.symbol_mapping.get(name, name)
    return code, lowered.decode() if isinstance(lowered, bytes) else lowered


def ask(ptx: str, kernel: str, block: tuple[int, int, int]) -> dict[str, Any]:
    library = CPU_DRIVER_FOLDER / "libcuda.so.1"
    if not library.exists():
        raise ExplainError("this build has no CPU device (it was configured with CUCORE_CPU_DEVICE=OFF)")
    function = ctypes.CDLL(str(library)).cucoreExplainKernel
    function.restype = ctypes.c_char_p
    function.argtypes = [ctypes.c_char_p, ctypes.c_char_p, *[ctypes.c_uint] * 3, ctypes.POINTER(ctypes.c_int)]
    failed = ctypes.c_int()
    answer = function(ptx.rstrip("\0").encode(), kernel.encode(), *block, ctypes.byref(failed)).decode()
    if failed.value:
        raise ExplainError(answer)
    facts: dict[str, Any] = json.loads(answer)
    return facts


def find_kernel(ptx: str, name: str) -> str:
    """Returns the PTX name of a kernel: the given name, or the only kernel with this source name."""
    names: list[str] = re.findall(r"\.entry\s+([\w$]+)", ptx)
    if not names:
        raise ExplainError("the source has no kernel")
    if not name or name in names:
        return name
    found = [each for each in names if f"{len(name)}{name}" in each]
    if len(found) != 1:
        raise ExplainError(f"{'no' if not found else 'more than one'} kernel is named {name}: {', '.join(names)}")
    return found[0]


# ---- code by source line ----


def ptx_by_line(ptx: str, kernel: str) -> dict[Place, list[str]]:
    files = {int(number): name for number, name in re.findall(r'\.file\s+(\d+)\s+"([^"]*)"', ptx)}
    found: dict[Place, list[str]] = defaultdict(list)
    body = re.search(rf"\.entry\s+{re.escape(kernel)}\b.*?^\}}", ptx, re.DOTALL | re.MULTILINE)
    place: Place | None = None if files else NOWHERE
    for text in body[0].splitlines() if body else []:
        line = text.strip()
        where = re.match(r"\.loc\s+(\d+)\s+(\d+)", line)
        if where:
            place = (files.get(int(where[1]), ""), int(where[2]))
        elif place is not None and re.match(r"(@!?%?\w+\s+)?[a-z][\w.]*\s*.*;", line):
            found[place].append(re.sub(r"\s+", " ", line))
    return found


def assembly_by_line(assembly: str) -> dict[Place, list[str]]:
    files: dict[int, str] = {}
    found: dict[Place, list[str]] = defaultdict(list)
    place: Place | None = None if re.search(r"^\s*\.loc\s", assembly, re.MULTILINE) else NOWHERE
    for text in assembly.splitlines():
        line = re.split(r"\s+(#|//)", text.strip())[0]
        if name := re.match(r'\.file\s+(\d+)\s+(?:"([^"]*)"\s+)?"([^"]*)"', line):
            files[int(name[1])] = str(Path(name[2] or "", name[3]))
        elif where := re.match(r"\.loc\s+(\d+)\s+(\d+)", line):
            place = (files.get(int(where[1]), ""), int(where[2])) if int(where[2]) else None
        elif re.match(r"[a-z]", line) and not line.endswith(":") and place is not None:
            found[place].append(re.sub(r"\s+", " ", line))
    return found


# ---- accesses and branches ----


def on_gpu(access: dict[str, Any]) -> tuple[str, bool]:
    """Returns how a warp of a GPU performs an access, and whether that is slow."""
    size, stride, pattern = access["bytes"], abs(access["stride"]), access["pattern"]
    if access["space"] == "shared":
        if pattern in ("uniform", "contiguous"):
            return "no bank conflict", False
        if pattern == "varying":
            return "bank conflicts depend on the addresses", False
        ways = math.gcd(max(stride // 4, 1), WARP)
        return (f"{ways}-way bank conflict", True) if ways > 1 else ("no bank conflict", False)
    if access["space"] in ("local", "param", "const"):
        return "", False
    ideal = max(1, WARP * size // SECTOR)
    if pattern == "uniform":
        return "one sector for the warp", False
    if pattern == "varying":
        return f"up to {WARP} sectors for the warp, {ideal} would do", True
    sectors = min(WARP * max(1, size // SECTOR), math.ceil((stride * (WARP - 1) + size) / SECTOR))
    if sectors <= ideal + 1:
        return "coalesced", False
    return f"{sectors} sectors for the warp, {ideal} would do", True


def describe(access: dict[str, Any], width: int) -> tuple[str, bool]:
    pattern, size = access["pattern"], access["bytes"]
    what, space = access["what"], access["space"] or "generic"
    if what == "atomic":
        slow = pattern == "uniform"
        where = "all threads at one address, combined where the operation allows it" if slow else "once per thread"
        text = f"atomic operation on {space} memory: {where}"
    else:
        verb = "load" if what == "load" else "store"
        shown = {
            "uniform": f"{verb} of {space} memory: uniform, once for {width} threads",
            "contiguous": f"{verb} of {space} memory: contiguous, {width * size} bytes for {width} threads",
            "strided": f"{verb} of {space} memory: strided by {access['stride']} bytes, {width} accesses for {width} threads",
            "varying": f"{'gather' if verb == 'load' else 'scatter'} in {space} memory: {width} accesses for {width} threads",
        }
        text, slow = shown[pattern], pattern in ("strided", "varying")
    gpu, slow_there = on_gpu(access)
    return text + (f" (GPU: {gpu})" if gpu else ""), slow or slow_there


def vector_bytes(assembly: str) -> int:
    return 64 if "%zmm" in assembly else 32 if "%ymm" in assembly else 16


def access_cost(access: dict[str, Any], width: int, vector: int) -> float:
    """Returns the cost of an access by `width` threads, in units of one simple instruction."""
    if access["what"] == "atomic":
        return 4.0 * width
    if access["space"] == "param":
        return 0.0
    costs: dict[str, float] = {
        "uniform": 1.0,
        "contiguous": max(1.0, width * access["bytes"] / vector),
        "strided": float(width),
        "varying": 2.0 * width,
    }
    return costs[access["pattern"]]


# ---- the page ----


def explain(ptx: str, kernel: str, block: tuple[int, int, int], sources: dict[str, str]) -> Page:
    """Creates the report of a kernel. `sources` has the text of files that are not on disk, by path."""
    name = find_kernel(ptx, kernel)
    facts = ask(ptx, name, block)
    report = facts["report"]
    width = max(report["width"], 1)
    vector = vector_bytes(facts["assembly"])
    by_ptx = ptx_by_line(ptx, facts["kernel"])
    by_assembly = assembly_by_line(facts["assembly"])

    lines: dict[Place, Line] = {}

    def at(place: Place) -> Line:
        return lines.setdefault(place, Line(place[1], ""))

    for place, code in by_ptx.items():
        at(place).ptx = code
    for place, code in by_assembly.items():
        at(place).assembly = code
    for row in facts["lines"]:
        line = at((row["file"], row["line"]))
        line.depth = max(line.depth, row["depth"])
        values = row["uniform"] + row["strided"] + row["varying"] * max(1.0, 4 * width / vector)
        line.cost += (values + 10 * row["barriers"] + 20 * width * row["calls"]) * ITERATIONS ** row["depth"]
        if row["barriers"]:
            line.notes.append("barrier: the threads of the block meet")
        if row["calls"]:
            line.notes.append("call of a routine, once per thread")
            line.bad = True
    counts: dict[str, int] = defaultdict(int)
    for access in facts["accesses"]:
        line = at((access["file"], access["line"]))
        line.cost += access_cost(access, width, vector) * ITERATIONS ** access["depth"]
        if access["space"] == "param":
            continue
        counts[f"{access['pattern']} {access['what']}s"] += 1
        text, slow = describe(access, width)
        if text not in line.notes:
            line.notes.append(text)
        line.bad |= slow
    for branch in facts["branches"]:
        line = at((branch["file"], branch["line"]))
        kind = "loop" if branch["loop"] else "branch"
        if branch["divergent"]:
            text = f"divergent {kind}: threads of a vector (and of a warp on a GPU) may part here"
            line.bad |= branch["loop"] or branch["depth"] > 0  # a bounds check at the start costs little
        else:
            text = f"uniform {kind}: all threads of a vector go the same way"
        if text not in line.notes:
            line.notes.append(text)

    files: dict[str, list[Line]] = defaultdict(list)
    for (path, _), line in sorted(lines.items()):
        if path or not any(key[0] for key in lines):
            files[path].append(line)
    for path, found in files.items():
        fill(path, found, sources)
    page = Page(facts["kernel"], facts, [], dict(files))
    page.summary = list(summarize(page, counts, width))
    return page


def fill(path: str, found: list[Line], sources: dict[str, str]) -> None:
    """Sets the text of lines, and adds the lines between those that have code."""
    text = sources.get(path)
    if text is None:
        try:
            text = Path(path).read_text() if path else ""
        except OSError:
            text = ""
    all_lines = text.splitlines()
    known = {line.number: line for line in found}
    for number in range(min(filter(None, known), default=1), max(known) + 1):
        line = known.setdefault(number, Line(number, ""))
        if number <= len(all_lines):
            line.text = all_lines[number - 1].rstrip()
    if 0 in known:
        known[0].text = "(code that belongs to no line)" if path else "(the whole kernel: the PTX has no line numbers)"
    if all_lines:  # of headers, only lines with code
        is_main = path in sources
        found[:] = [known[number] for number in sorted(known) if is_main or known[number].ptx or known[number].notes]


def summarize(page: Page, counts: dict[str, int], width: int) -> Iterator[str]:
    facts, report = page.facts, page.facts["report"]
    shape = "({},{},{})".format(*facts["block"])
    yield f"kernel {page.kernel}, block {shape}, host {facts['host']}"
    if facts["refusal"]:
        yield f"not vectorized: {facts['refusal']}"
        yield f"path: {facts['path']}"
    else:
        yield (
            f"vector code: {width} threads per vector, {report['groups']} vectors per block, "
            f"{report['regions']} {'piece' if report['regions'] == 1 else 'pieces'} between barriers"
        )
        total = max(1, report["uniform"] + report["strided"] + report["varying"])
        yield (
            f"values: {100 * report['uniform'] // total}% uniform, {100 * report['strided'] // total}% strided, "
            f"{100 * report['varying'] // total}% vectors"
        )
    if counts:
        yield "accesses: " + ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    branches = [branch for branch in facts["branches"] if branch["divergent"]]
    yield f"branches: {len(facts['branches'])}, divergent: {len(branches)}"
    per_thread = page.cost / width
    yield (
        f"estimated cost: {per_thread:.1f} instructions per thread"
        + (f" (loops of unknown length count as {ITERATIONS} iterations)" if any_loop(page) else "")
    )


def any_loop(page: Page) -> bool:
    return any(line.depth for lines in page.files.values() for line in lines)


# ---- text ----


def as_text(page: Page, code: bool, width: int) -> Iterator[str]:
    for text in page.summary:
        yield from textwrap.wrap(text, width, subsequent_indent="  ", break_long_words=False)
    total = page.cost or 1.0
    for path, lines in page.files.items():
        yield ""
        yield path or "PTX"
        for line in lines:
            share = f"{100 * line.cost / total:4.0f}%" if line.cost else "     "
            yield f"{share} {line.number:5} {'!' if line.bad else ' '} {line.text}".rstrip()
            for note in line.notes:
                yield from textwrap.wrap(
                    note, width, initial_indent=" " * 15 + "^ ", subsequent_indent=" " * 17, break_long_words=False
                )
            if code and (line.ptx or line.assembly):
                half = max(30, (width - 18) // 2)
                rows = max(len(line.ptx), len(line.assembly))
                for k in range(rows):
                    left = line.ptx[k] if k < len(line.ptx) else ""
                    right = line.assembly[k] if k < len(line.assembly) else ""
                    yield f"{'':15}| {left[: half - 2]:{half - 1}}| {right[: half - 2]}".rstrip()


# ---- HTML ----

STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 1.5rem; color: #1c2330; background: #fff; }
h1 { font-size: 1.3rem; margin: 0 0 .5rem; } h2 { font-size: 1rem; margin: 1.5rem 0 .4rem; }
ul { margin: 0; padding-left: 1.2rem; } table { border-collapse: collapse; width: 100%; table-layout: fixed; }
th { text-align: left; font-weight: 600; background: #f0f3f8; position: sticky; top: 0; }
td, th { border: 1px solid #d6dce6; padding: .15rem .45rem; vertical-align: top; overflow-wrap: anywhere; }
td.code, td.number { font: 12px/1.5 ui-monospace, monospace; white-space: pre-wrap; }
td.number { text-align: right; color: #667; } tr.bad td.source { background: #fdeceb; } tr.good td.source { background: #edf8ee; }
td.code div { max-height: 12em; overflow-y: auto; }
.note { display: block; font: 12px/1.4 system-ui, sans-serif; color: #475; white-space: normal; } .bad .note { color: #a33; }
.bar { display: block; height: .35rem; background: #e0803a; } tr:target td, tr:hover td { background-color: #fff7d6; }
col.n { width: 3.5rem; } col.c { width: 5rem; } col.s { width: 38%; }
@media (prefers-color-scheme: dark) { body { background: #14181f; color: #dde3ee; } th { background: #222936; }
 td, th { border-color: #333c4a; } tr.bad td.source { background: #3a2224; } tr.good td.source { background: #1d2f22; }
 .note { color: #9c9; } .bad .note { color: #f99; } tr:target td, tr:hover td { background-color: #2c2a1a; } }
"""


def as_html(page: Page) -> str:
    total = page.cost or 1.0
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        f"<title>{html.escape(page.kernel)}</title><style>{STYLE}</style>",
        f"<h1>{html.escape(page.kernel)}</h1><ul>",
        *(f"<li>{html.escape(text)}</li>" for text in page.summary),
        "</ul>",
    ]
    for path, lines in page.files.items():
        parts.append(f"<h2>{html.escape(path or 'PTX')}</h2><table>")
        parts.append("<colgroup><col class='n'><col class='c'><col class='s'><col><col></colgroup>")
        parts.append("<tr><th>line</th><th>cost</th><th>source</th><th>PTX</th><th>vector code</th></tr>")
        for line in lines:
            share = 100 * line.cost / total
            kind = " class='bad'" if line.bad else " class='good'" if line.notes else ""
            notes = "".join(f"<span class='note'>{html.escape(note)}</span>" for note in line.notes)
            bar = f"{share:.0f}%<span class='bar' style='width:{share:.0f}%'></span>" if share >= 0.5 else ""
            ptx, assembly = (html.escape("\n".join(code)) for code in (line.ptx, line.assembly))
            parts.append(
                f"<tr{kind}><td class='number'>{line.number}</td><td class='number'>{bar}</td>"
                f"<td class='code source'>{html.escape(line.text)}{notes}</td>"
                f"<td class='code'><div>{ptx}</div></td><td class='code'><div>{assembly}</div></td></tr>"
            )
        parts.append("</table>")
    parts.append("<p>The cost is an estimate from the code, not a measurement.</p></html>")
    return "\n".join(parts) + "\n"


# ---- the command ----


def shape_of(text: str) -> tuple[int, int, int]:
    """Parses the shape of a block: `256`, `16x16` or `8x8x4`."""
    numbers = [int(word) if word.isdecimal() else 0 for word in re.split(r"[x,]", text)]
    if not 1 <= len(numbers) <= 3 or min(numbers) < 1 or math.prod(numbers) > 1024:
        raise ValueError(
            f"{text} is not a block shape: name one to three numbers, as in 256 or 16x16, 1024 threads at most"
        )
    x, y, z = [*numbers, 1, 1][:3]
    return x, y, z


def command(
    file: str,
    *,
    name: str,
    block: tuple[int, int, int],
    page: str | None,
    code: bool,
    as_json: bool,
    includes: list[str],
    arch: str | None,
) -> int:
    from cuda.core import CUDAError, NVRTCError

    path = Path(file)
    try:
        text = path.read_text()
        ptx, kernel = compile_source(path, name, includes, arch)
        shown = explain(ptx, kernel, block, {str(path.resolve()): text})
    except (OSError, UnicodeDecodeError, ExplainError, CUDAError, NVRTCError) as error:
        terminal.complain("explain", str(error))
        return 1
    if page is not None:
        Path(page).write_text(as_html(shown))
    if as_json:
        print(json.dumps(shown.facts))
    elif page is None or code:
        for row in as_text(shown, code, min(terminal.width(), 160)):
            print(row)
    return 0
