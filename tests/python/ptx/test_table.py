"""The instruction table: well formed, and every instruction in it has a form in tests/ptx or is named here with the test it has."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "codegen"))

import ptx_table  # noqa: E402

FACTS = json.loads((ROOT / "api" / "ptx.json").read_text())

# Control flow, what has no result of its own to compare, what needs more than a kernel (multimem, istypep); the programs of corpus/, the
# tests beside this one and the engine's run them.
ELSEWHERE = {
    "alloca", "applypriority", "bra", "brkpt", "brx", "call", "cp", "createpolicy", "discard", "exit", "getctarank", "griddepcontrol",
    "istypep", "ldu", "mapa", "mbarrier", "mma", "multimem", "nanosleep", "pmevent", "prefetch", "prefetchu", "ret", "setmaxnreg", "stackrestore",
    "stacksave", "stmatrix", "suld", "suq", "sured", "sust", "tensormap", "tex", "tld4", "trap", "txq", "wmma",
}  # fmt: skip


def test_every_instruction_has_a_form() -> None:
    forms = "\n".join(path.read_text() for path in (ROOT / "tests" / "ptx").glob("*.forms"))
    words = set(re.findall(r"[a-z0-9_]+", forms))
    missing = {row["op"] for row in FACTS["rows"] if row["emit"] != "unsupported"} - words - ELSEWHERE
    assert not missing


def test_what_is_not_there_has_a_reason() -> None:
    """An architecture that the device does not have, or a sentence; the coverage page shows it."""
    rows = [row for row in FACTS["rows"] if row["emit"] == "unsupported"]
    assert not [row["op"] for row in rows if row.get("sm", 0) <= 90 and not row.get("note")]


def test_the_list_of_exceptions_is_not_stale() -> None:
    assert not ELSEWHERE - {row["op"] for row in FACTS["rows"]}


def test_rendering_is_sorted_and_complete() -> None:
    rendered = ptx_table.render(FACTS)
    words = re.findall(r'CUCPU_PTX_MOD\(\w+, "([^"]+)"\)', rendered["ptx_mods.inc"])
    assert words == sorted(set(words))
    assert rendered["ptx_rows.inc"].count("Emit::") == len(FACTS["rows"])
    identifiers = [ptx_table.identifier(word) for word in words]
    assert len(set(identifiers)) == len(identifiers)


def test_a_slot_expands_its_sets() -> None:
    assert ptx_table.expand("?$x|c", {"x": "a|b"}) == (["a", "b", "c"], True)


def test_an_unknown_field_is_refused() -> None:
    facts = {"sets": {}, "special": [], "rows": [{"op": "x", "emit": "y", "colour": "red"}]}
    try:
        ptx_table.render(facts)
    except ValueError as error:
        assert "colour" in str(error)
    else:
        raise AssertionError("the field was accepted")
