# SPDX-License-Identifier: Apache-2.0
"""`cucore coverage`: the implemented functions of each API on the CPU device. The build renders the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from . import terminal

TITLES = {"ptx": "PTX instructions"}
OTHERS = "NVRTC, nvJitLink, NVVM, nvFatbin and cuFile are NVIDIA's own libraries here too: the compilers among them need no GPU."


def facts() -> dict[str, Any]:
    """Returns the rendered table: API name -> {"implemented": [...], "missing": {name: reason}}."""
    result: dict[str, Any] = json.loads((Path(__file__).parent / "coverage.json").read_text())
    return result


def coverage(missing: bool = False, as_json: bool = False, page: bool = False) -> int:
    try:
        if page:
            print((Path(__file__).parent / "coverage.md").read_text(), end="")
            return 0
        table = facts()
    except FileNotFoundError:
        terminal.complain("coverage", "this build has no CPU device, so there is nothing to count")
        return 1
    if as_json:
        terminal.print_json(table)
        return 0
    for name, api in table.items():
        there, absent = len(api["implemented"]), api["missing"]
        total = there + len(absent)
        title = terminal.styled(f"{TITLES.get(name, name):<18}", "bold")
        print(f"{title} {there:4d} of {total:4d}  {100 * there / total:5.1f} %")
        if missing:
            for function, reason in sorted(absent.items()):
                print(terminal.wrapped(f"{function:<48} {reason or 'not written yet'}", 8, "    "))
        else:
            for reason, functions in by_reason(absent).items():
                shown = functions[0] if len(functions) == 1 else f"{functions[0]} and {len(functions) - 1} more"
                print(terminal.wrapped(f"{shown}: {reason}", 8, "    "))
    print(terminal.wrapped(OTHERS))
    return 0


def by_reason(absent: dict[str, str]) -> dict[str, list[str]]:
    """Groups missing functions by reason, in alphabetical order."""
    result: dict[str, list[str]] = {}
    for function, reason in sorted(absent.items()):
        result.setdefault(reason or "not written yet", []).append(function)
    return result
