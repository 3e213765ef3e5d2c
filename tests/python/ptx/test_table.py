# SPDX-License-Identifier: Apache-2.0
"""The instruction table is well-formed, and every instruction has a form in tests/ptx or another test."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "codegen"))

import ptx_table  # noqa: E402

FACTS = json.loads((ROOT / "api" / "ptx.json").read_text())

# Control flow, instructions without a result, and instructions that need more than a kernel (multimem, istypep): tested by the programs of
# corpus/, other files of this folder and the engine's tests.
ELSEWHERE = {
    "alloca", "applypriority", "bra", "brkpt", "brx", "call", "clmad", "clusterlaunchcontrol", "cp", "createpolicy", "discard", "exit", "getctarank", "griddepcontrol",
    "istypep", "ldu", "mapa", "mbarrier", "mma", "multimem", "nanosleep", "pmevent", "prefetch", "prefetchu", "ret", "setmaxnreg", "stackrestore",
    "stacksave", "stmatrix", "suld", "suq", "sured", "sust", "tcgen05", "tensormap", "tex", "tld4", "trap", "txq", "wmma",
}  # fmt: skip


def test_every_instruction_has_a_form() -> None:
    forms = "\n".join(path.read_text() for path in (ROOT / "tests" / "ptx").glob("*.forms"))
    words = set(re.findall(r"[a-z0-9_]+", forms))
    missing = {row["op"] for row in FACTS["rows"] if row["emit"] != "unsupported"} - words - ELSEWHERE
    assert not missing


def test_unsupported_instruction_has_a_reason() -> None:
    """The coverage page shows it."""
    rows = [row for row in FACTS["rows"] if row["emit"] == "unsupported"]
    assert not [row["op"] for row in rows if not row.get("note")]


def test_every_exception_is_in_the_table() -> None:
    assert not ELSEWHERE - {row["op"] for row in FACTS["rows"]}


def test_rendering_is_sorted_and_complete() -> None:
    rendered = ptx_table.render(FACTS)
    words = re.findall(r'CUCPU_PTX_MOD\(\w+, "([^"]+)"\)', rendered["ptx_mods.inc"])
    assert words == sorted(set(words))
    assert rendered["ptx_rows.inc"].count("Emit::") == len(FACTS["rows"])
    identifiers = [ptx_table.identifier(word) for word in words]
    assert len(set(identifiers)) == len(identifiers)


def test_slot_expands_its_sets() -> None:
    assert ptx_table.expand("?$x|c", {"x": "a|b"}) == (["a", "b", "c"], True)


def test_unknown_field_of_a_row_raises() -> None:
    facts = {"sets": {}, "special": [], "rows": [{"op": "x", "emit": "y", "colour": "red"}]}
    try:
        ptx_table.render(facts)
    except ValueError as error:
        assert "colour" in str(error)
    else:
        raise AssertionError("the field was accepted")
