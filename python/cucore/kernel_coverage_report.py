# SPDX-License-Identifier: Apache-2.0
"""Reports of kernel coverage: a table, lcov, Cobertura, HTML, JSON, and data for coverage.py."""

from __future__ import annotations

import html
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from .kernel_coverage import Branch, FileCoverage, percent, totals

PLUGIN = "cucore.coverage_plugin"
_FILE_TRACER = f"{PLUGIN}.KernelPlugin"  # the name of the plugin in the data of coverage.py


def _ranges(numbers: Sequence[int]) -> str:
    """Formats numbers as ranges: 1, 2, 3, 7 as `1-3, 7`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f}%"


def shown_name(path: str) -> str:
    """Returns the path, relative to the working directory if it is below that."""
    relative = os.path.relpath(path) if os.path.isabs(path) else path
    return path if relative.startswith("..") else relative


def table(files: Sequence[FileCoverage]) -> str:
    """Returns a table of the coverage of lines and sides of branches, and of the divergence of warps."""
    rows = [("kernels in", "lines", "missed", "sides", "missed", "cover", "divergent", "missing lines")]
    parts = [(shown_name(file.path), totals([file]), _ranges(file.missing)) for file in files]
    for name, sums, missing in [*parts, ("total", totals(files), "")]:
        rows.append(
            (
                name,
                str(sums.lines),
                str(sums.missing),
                str(sums.sides),
                str(sums.missed_sides),
                f"{sums.percent:.0f}%",
                _share(sums.divergence),
                missing,
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            row[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True)),
        ]
        lines.append("  ".join([*cells, row[-1]]).rstrip())
    rule = "-" * max(map(len, lines))
    return "\n".join([lines[0], rule, *lines[1:-1], rule, lines[-1]])


def as_json(files: Sequence[FileCoverage]) -> dict[str, Any]:
    return {
        "percent": totals(files).percent,
        "divergence": totals(files).divergence,
        "files": {
            file.path: {
                "lines": {str(line): count for line, count in sorted(file.lines.items())},
                "missing": file.missing,
                "branches": [
                    {
                        "line": branch.line,
                        "column": branch.column,
                        "to": list(branch.targets),
                        "taken": branch.taken,
                        "divergent_warps": branch.divergent,
                        "warps": branch.warps,
                    }
                    for branch in file.branches
                ],
                "functions": [
                    {"name": f.name, "line": f.line, "kernel": f.is_kernel, "threads": f.threads}
                    for f in file.functions
                ],
            }
            for file in files
        },
    }


def write_json(files: Sequence[FileCoverage], path: Path) -> None:
    path.write_text(json.dumps(as_json(files), indent=1) + "\n")


# ---- lcov


def lcov(files: Sequence[FileCoverage]) -> str:
    lines: list[str] = []
    for file in files:
        lines += ["TN:", f"SF:{file.path}"]
        lines += [f"FN:{function.line},{function.name}" for function in file.functions]
        lines += [f"FNDA:{function.threads},{function.name}" for function in file.functions]
        lines += [f"FNF:{len(file.functions)}", f"FNH:{sum(f.threads > 0 for f in file.functions)}"]
        for number, branch in enumerate(file.branches):
            reached = any(branch.taken)
            for side, count in enumerate(branch.taken):
                lines.append(f"BRDA:{branch.line},{number},{side},{count if reached else '-'}")
        lines += [f"BRF:{file.sides}", f"BRH:{file.sides - file.missed_sides}"]
        lines += [f"DA:{line},{count}" for line, count in sorted(file.lines.items())]
        lines += [f"LF:{len(file.lines)}", f"LH:{len(file.executed)}", "end_of_record"]
    return "\n".join(lines) + "\n" if lines else ""


# ---- Cobertura


def _rate(part: int, whole: int) -> str:
    return f"{part / whole if whole else 1:.4f}"


def cobertura(files: Sequence[FileCoverage]) -> str:
    whole = totals(files)
    root = ElementTree.Element(
        "coverage",
        {
            "version": "1",
            "timestamp": str(int(time.time() * 1000)),
            "lines-valid": str(whole.lines),
            "lines-covered": str(whole.lines - whole.missing),
            "line-rate": _rate(whole.lines - whole.missing, whole.lines),
            "branches-valid": str(whole.sides),
            "branches-covered": str(whole.sides - whole.missed_sides),
            "branch-rate": _rate(whole.sides - whole.missed_sides, whole.sides),
            "complexity": "0",
        },
    )
    ElementTree.SubElement(ElementTree.SubElement(root, "sources"), "source").text = "/"
    packages = ElementTree.SubElement(root, "packages")
    package = ElementTree.SubElement(packages, "package", {"name": "kernels", "complexity": "0"})
    package.set("line-rate", root.get("line-rate", "1"))
    package.set("branch-rate", root.get("branch-rate", "1"))
    classes = ElementTree.SubElement(package, "classes")
    for file in files:
        one = ElementTree.SubElement(
            classes,
            "class",
            {
                "name": Path(file.path).name,
                "filename": file.path.lstrip("/") if file.path.startswith("/") else file.path,
                "line-rate": _rate(len(file.executed), len(file.lines)),
                "branch-rate": _rate(file.sides - file.missed_sides, file.sides),
                "complexity": "0",
            },
        )
        ElementTree.SubElement(one, "methods")
        lines = ElementTree.SubElement(one, "lines")
        at: dict[int, list[Branch]] = {}
        for branch in file.branches:
            at.setdefault(branch.line, []).append(branch)
        for line, count in sorted(file.lines.items()):
            element = ElementTree.SubElement(lines, "line", {"number": str(line), "hits": str(count)})
            if line in at:
                taken = sum(side > 0 for branch in at[line] for side in branch.taken)
                sides = 2 * len(at[line])
                element.set("branch", "true")
                element.set("condition-coverage", f"{100 * taken // sides}% ({taken}/{sides})")
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" ?>\n{text}\n'


# ---- HTML

_STYLE = """
:root { color-scheme: light dark; --hit: #d9f2d9; --part: #fff2c2; --miss: #ffd9d6; --dim: #777; --rule: #ddd; }
@media (prefers-color-scheme: dark) {
  :root { --hit: #16351a; --part: #44380b; --miss: #4a1815; --dim: #999; --rule: #444; } }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; }
h1 { overflow-wrap: anywhere; } .wide { overflow-x: auto; } table { border-collapse: collapse; }
td, th { padding: .25em .8em; text-align: right; border-bottom: 1px solid var(--rule); }
td:first-child, th:first-child { text-align: left; }
.bar { display: inline-block; width: 8em; height: .8em; background: var(--miss); }
.bar i { display: block; height: 100%; background: #4a4; }
.code td { padding: 0 .7em; border: 0; font: 13px/1.5 ui-monospace, monospace; white-space: pre; vertical-align: top; }
.code td:nth-child(3) { text-align: left; width: 100%; }
.code .n, .code .c { color: var(--dim); user-select: none; }
.hit { background: var(--hit); } .part { background: var(--part); } .miss { background: var(--miss); }
.b { display: block; color: var(--dim); font-size: 12px; white-space: pre-wrap; }
.b b { color: #c33; }
.k { color: #07a; } .s { color: #a50; } .o { color: #888; font-style: italic; } .m { color: #838; }
"""


def _page(title: str, body: str) -> str:
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n<body>{body}</body></html>\n'
    )


def _highlighted(lines: Sequence[str], path: str) -> list[str]:
    """Returns the lines as HTML, with syntax highlighting if Pygments (a dependency of pytest) is installed."""
    try:
        from pygments.lexers import CppLexer, PythonLexer
        from pygments.token import Comment, Keyword, Name, Number, String
    except ImportError:
        return [html.escape(line) for line in lines]
    lexer = PythonLexer(stripnl=False) if path.endswith(".py") else CppLexer(stripnl=False)
    classes = (
        (Comment.Preproc, "m"),
        (Comment, "o"),
        (Keyword, "k"),
        (String, "s"),
        (Number, "s"),
        (Name.Builtin, "k"),
    )
    out = [""]
    for token, text in lexer.get_tokens("\n".join(lines) + "\n"):
        kind = next((name for type_, name in classes if token in type_), None)
        for number, part in enumerate(text.split("\n")):
            if number:
                out.append("")
            escaped = html.escape(part)
            out[-1] += f'<span class="{kind}">{escaped}</span>' if kind and part else escaped
    return out[: len(lines)]


def _branch_note(branch: Branch) -> str:
    sides = []
    for index, count in enumerate(branch.taken):
        text = f"{html.escape(branch.side(index))}: {count:,} threads"
        sides.append(f"<b>{text}</b>" if count == 0 else text)
    warps = f"; {branch.divergent:,} of {branch.warps:,} warps diverged" if branch.warps else ""
    return f'<span class="b">branch {", ".join(sides)}{warps}</span>'


def _file_page(file: FileCoverage) -> str:
    at: dict[int, list[Branch]] = {}
    for branch in file.branches:
        at.setdefault(branch.line, []).append(branch)
    partial = set(file.partial)
    source = file.source()
    if source is None:
        numbers = sorted(file.lines)
        texts = {number: "" for number in numbers}
        note = "<p>The source file is not there any more: lines are shown without their text.</p>"
    else:
        numbers = list(range(1, max([len(source), *file.lines]) + 1))
        shown = _highlighted(source, file.path)
        texts = {number: shown[number - 1] if number <= len(shown) else "" for number in numbers}
        note = ""
    rows = []
    for number in numbers:
        count = file.lines.get(number)
        kind = "" if count is None else "miss" if count == 0 else "part" if number in partial else "hit"
        notes = "".join(map(_branch_note, at.get(number, [])))
        threads = "" if count is None else f"{count:,}"
        rows.append(
            f'<tr id="L{number}" class="{kind}"><td class="n">{number}</td><td class="c">{threads}</td>'
            f"<td>{texts[number]}{notes}</td></tr>"
        )
    whole = totals([file])
    head = (
        f'<p><a href="index.html">all files</a></p><h1>{html.escape(shown_name(file.path))}</h1>'
        f"<p>{whole.lines - whole.missing} of {whole.lines} lines, {whole.sides - whole.missed_sides} of {whole.sides} "
        f"sides of branches; {_share(whole.divergence)} of warps diverged. The numbers beside the lines are threads.</p>{note}"
    )
    return _page(shown_name(file.path), f'{head}<div class="wide"><table class="code">{"".join(rows)}</table></div>')


def write_html(files: Sequence[FileCoverage], folder: Path) -> Path:
    """Writes index.html and a page per source file."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for number, file in enumerate(files):
        page = f"file{number}.html"
        (folder / page).write_text(_file_page(file))
        whole = totals([file])
        rows.append(
            f'<tr><td><a href="{page}">{html.escape(shown_name(file.path))}</a></td><td>{whole.lines}</td>'
            f"<td>{whole.missing}</td><td>{whole.sides}</td><td>{whole.missed_sides}</td><td>{whole.percent:.0f}%</td>"
            f'<td><span class="bar"><i style="width:{whole.percent:.0f}%"></i></span></td><td>{_share(whole.divergence)}</td></tr>'
        )
    whole = totals(files)
    body = (
        "<h1>Kernel coverage</h1><div class='wide'><table><tr><th>file</th><th>lines</th><th>missed</th><th>sides of branches</th><th>missed</th>"
        f"<th>cover</th><th></th><th>divergent</th></tr>{''.join(rows)}"
        f"<tr><th>total</th><th>{whole.lines}</th><th>{whole.missing}</th><th>{whole.sides}</th><th>{whole.missed_sides}</th>"
        f"<th>{whole.percent:.0f}%</th><th></th><th>{_share(whole.divergence)}</th></tr></table></div>"
    )
    index = folder / "index.html"
    index.write_text(_page("Kernel coverage", body))
    return index


# ---- coverage.py


def _arc(branch: Branch, side: int) -> tuple[int, int]:
    """Returns the arc of a side, from the branch to its target. A target on the same line or unknown is an exit."""
    target = branch.targets[side]
    return branch.line, -branch.line if target in (0, branch.line) else target


def possible_arcs(file: FileCoverage) -> set[tuple[int, int]]:
    """Returns the possible arcs of a file in the format of coverage.py."""
    return {_arc(branch, side) for branch in file.branches for side in (0, 1)}


def executed_arcs(file: FileCoverage) -> set[tuple[int, int]]:
    arcs = {(-line, line) for line in file.executed}  # lines without branches
    arcs |= {_arc(branch, side) for branch in file.branches for side in (0, 1) if branch.taken[side]}
    return arcs


def write_coverage_data(files: Sequence[FileCoverage], path: Path, with_branches: bool) -> None:
    """Writes a data file for `coverage combine`. Reports of the data need the plugin cucore.coverage_plugin."""
    from coverage import CoverageData

    data = CoverageData(basename=str(path))
    data.erase()
    if with_branches:
        data.add_arcs({file.path: executed_arcs(file) for file in files})
    else:
        data.add_lines({file.path: file.executed for file in files})
    data.add_file_tracers({file.path: _FILE_TRACER for file in files})
    data.write()


def summary_line(files: Sequence[FileCoverage]) -> str:
    whole = totals(files)
    return (
        f"{percent(whole.lines - whole.missing, whole.lines):.0f}% of lines and "
        f"{percent(whole.sides - whole.missed_sides, whole.sides):.0f}% of sides of branches"
    )
