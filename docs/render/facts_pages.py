# SPDX-License-Identifier: Apache-2.0
"""Pages from tables: how much of each API the CPU device has, and where we mean to differ from NVIDIA's packages."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

from cucore.coverage import OTHERS, TITLES

from .text import heading, prose, table


def coverage(facts: dict[str, Any]) -> str:
    out = heading("Coverage of the CPU device")
    out += (
        "Counted from the symbols of the library when it is built; ``cucore coverage`` prints the same. A function that is not\n"
        "implemented returns ``CUDA_ERROR_NOT_SUPPORTED`` (runtime API: ``cudaErrorNotSupported``). On a GPU, every function is\n"
        "that of NVIDIA's driver. The runtime API is also exported as ``libcudart.so.12`` and ``libcudart.so.13``, for programs compiled by\n"
        "nvcc.\n\n"
    )
    rows = []
    for name, api in facts.items():
        there, total = len(api["implemented"]), len(api["implemented"]) + len(api["missing"])
        rows.append((TITLES.get(name, name), str(there), str(total), f"{100 * there / total:.0f} %"))
    out += table(("API", "implemented", "of", "share"), rows, "40 20 20 20")
    out += f"{OTHERS}\n\n"
    for name, api in facts.items():
        if name == "ptx":
            continue  # has a table of its own
        out += heading(f"Not implemented: {TITLES.get(name, name)}", "-")
        by_reason: dict[str, list[str]] = {}
        for function, reason in sorted(api["missing"].items()):
            by_reason.setdefault(reason or "not written yet", []).append(function)
        rows = [
            (prose(reason), ", ".join(f"``{f}``" for f in functions)) for reason, functions in sorted(by_reason.items())
        ]
        out += table(("why", "functions"), rows, "40 60")
    return out


# Forms of newer PTX that an H200 ran as a cubin of ptxas 13.4: the opcode and the last type.
CONFIRMED_BY_CUBIN = {("clmad", "u64"), ("ldmatrix", "s4")}


def is_confirmed(form: dict[str, Any]) -> bool:
    """Whether a GPU was asked for the results of a form: an H200 with driver 580, which loads PTX up to 9.0."""
    if (form["op"], form.get("types", [""])[-1]) in CONFIRMED_BY_CUBIN:
        return True
    return int(form.get("sm", 0)) <= 90 and int(form.get("ptx", 0)) <= 90


def words_of(form: dict[str, Any]) -> str:
    """The opcode of a form with the words that it must have, the first of each choice."""
    slots = (*form.get("mods", []), *form.get("types", []))
    return ".".join([str(form["op"]), *(slot.split("|")[0].lstrip("$") for slot in slots if not slot.startswith("?"))])


def instructions(table_of: list[dict[str, Any]]) -> str:
    """PTX instructions by name: how many forms work, and which do not."""
    out = heading("PTX instructions", "-")
    out += "Forms of ``api/ptx.json``. A form that is not implemented is an error with line and column when code is loaded.\n\n"
    rows = []
    ordered = sorted(table_of, key=lambda row: str(row["op"]))
    for op, forms in groupby(ordered, key=lambda row: str(row["op"])):
        listed = list(forms)
        bad = [form for form in listed if form.get("emit") == "unsupported"]
        if bad:
            why = sorted({form.get("note") or "not written yet" for form in bad})
            words = [words_of({**form, "types": []}) for form in bad]
            there = f"{len(listed) - len(bad)} of {len(listed)}"
            rows.append((f"``{op}``", there, ", ".join(f"``{w}``" for w in words), prose("; ".join(why))))
    works = sum(form.get("emit") != "unsupported" for form in table_of)
    out += f"{works} of {len(table_of)} forms work. Instructions with forms that do not:\n\n"
    out += table(("instruction", "forms", "not there", "why"), rows, "20 10 45 25")
    return out + references(table_of)


def references(table_of: list[dict[str, Any]]) -> str:
    """The forms that work and whose results no GPU was asked for."""
    there = [form for form in table_of if form.get("emit") != "unsupported"]
    asked = sum(is_confirmed(form) for form in there)
    out = heading("Confirmed by a GPU, or by a reference only", "-")
    out += (
        f"The results of {asked} of the {len(there)} forms that work are compared with those of an NVIDIA H200 (``tests/ptx/h200``,\n"
        "and the tests of ``make gpu-test``). The other forms need a newer GPU or a newer driver than we have: their tests compare\n"
        "with references written from the text of the PTX manual, and ptxas says which targets have them.\n\n"
    )
    rows = []
    others = sorted((form for form in there if not is_confirmed(form)), key=lambda form: str(form["op"]))
    for op, forms in groupby(others, key=lambda form: str(form["op"])):
        listed = list(forms)
        rows.append(
            (f"``{op}``", str(len(listed)), ", ".join(f"``{word}``" for word in sorted({*map(words_of, listed)})))
        )
    return out + table(("instruction", "forms", "by a reference only"), rows, "20 10 70")


def deviations(facts: dict[str, dict[str, str]]) -> str:
    out = heading("Differences from NVIDIA's packages")
    out += (
        "Every difference in names, values or signatures that we mean to have, with its reason; any other fails\n"
        "``tests/compat``. The versions compared with are cuda-core 1.2, cuda-bindings 13.5 and cuda-pathfinder 1.8.\n\n"
    )
    for module, rows in facts.items():
        title, _, rest = module.partition(" ")
        kind = {"surface": " (names only)", "signatures": " (arguments)", "behaviour": " (behaviour)"}.get(rest, "")
        out += heading(title + kind, "-")
        by_reason: dict[str, list[str]] = {}
        for name, reason in rows.items():
            by_reason.setdefault(reason, []).append(name)
        lines = [(prose(reason), ", ".join(f"``{name}``" for name in names)) for reason, names in by_reason.items()]
        out += table(("why", "names"), lines, "40 60")
    return out


def render(package: Path, api: Path, folder: Path) -> None:
    path = package / "cucore" / "coverage.json"
    text = (
        coverage(json.loads(path.read_text()))
        if path.exists()
        else heading("Coverage of the CPU device") + "This build has none.\n\n"
    )
    ptx = json.loads((api / "ptx.json").read_text())
    rows = (
        ptx
        if isinstance(ptx, list)
        else next(value for value in ptx.values() if isinstance(value, list) and value and "op" in value[0])
    )
    (folder / "coverage.rst").write_text(text + instructions(rows))
    (folder / "deviations.rst").write_text(deviations(json.loads((api / "deviations.json").read_text())))
