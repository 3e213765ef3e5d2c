# SPDX-License-Identifier: Apache-2.0
"""Renders api/ptx.json into the C++ tables of cpu/ptx: modifiers, emitters, rows and special registers."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

BANNER = "// Rendered from api/ptx.json by codegen/ptx_table.py.\n"
CPP_WORDS = {"and", "or", "xor", "not", "const", "inline", "volatile", "extern", "register", "default", "max", "min"}


def identifier(word: str) -> str:
    """A C++ identifier for a modifier: 1d -> m_1d, L2::128B -> L2_128B, and -> and_."""
    name = re.sub(r"\W+", "_", word)
    if name[0].isdigit():
        name = "m_" + name
    return name + "_" if name in CPP_WORDS else name


def expand(slot: str, sets: dict[str, str]) -> tuple[list[str], bool]:
    """The modifiers of a slot, and whether it is optional. `$name` refers to a set of modifiers."""
    optional = slot.startswith("?")
    words: list[str] = []
    for part in slot.lstrip("?").split("|"):
        words += expand(sets[part[1:]], sets)[0] if part.startswith("$") else [part]
    return words, optional


def specials(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Special registers by name: `tid: xyz` yields tid.x, tid.y, tid.z; `pm: 0-7` yields pm0 … pm7."""
    out: list[tuple[str, str]] = []
    for entry in facts["special"]:
        name, kind = entry["name"], entry.get("type", "u32")
        if "components" in entry:
            out += [(f"{name}.{c}", kind) for c in entry["components"]]
        elif "count" in entry:
            out += [(f"{name}{i}{entry.get('suffix', '')}", kind) for i in range(entry["count"])]
        else:
            out.append((name, kind))
    return sorted(out)


def render(facts: dict[str, Any]) -> dict[str, str]:
    sets = facts["sets"]
    rows = sorted(
        facts["rows"], key=lambda row: row["op"]
    )  # stable: the parser tries the rows of an opcode in this order
    mods: set[str] = set()
    slot_names: dict[str, str] = {}
    bodies: list[str] = []
    out_rows: list[str] = []
    for number, row in enumerate(rows):
        unknown = set(row) - {
            "op",
            "mods",
            "types",
            "args",
            "emit",
            "effects",
            "ptx",
            "sm",
            "below",
            "arch",
            "wide",
            "note",
        }
        if unknown:
            raise ValueError(f"{row['op']}: unknown fields {sorted(unknown)}")
        slots: list[str] = []
        for kind in ("mods", "types"):
            for slot in row.get(kind, []):
                words, optional = expand(slot, sets)
                mods.update(words)
                key = "|".join(words)
                if key not in slot_names:
                    slot_names[key] = f"kWords{len(slot_names)}"
                    listed = ", ".join(f"Mod::{identifier(w)}" for w in words)
                    bodies.append(f"constexpr Mod {slot_names[key]}[] = {{{listed}}};\n")
                flags = f"{str(optional).lower()}, {str(kind == 'types').lower()}"
                slots.append(f"{{{slot_names[key]}, {flags}}}")
        span = "{}"
        if slots:
            bodies.append(f"constexpr Slot kSlots{number}[] = {{{', '.join(slots)}}};\n")
            span = f"kSlots{number}"
        effects, wide = (str(bool(row.get(name))).lower() for name in ("effects", "wide"))
        out_rows.append(
            f'    {{"{row["op"]}", {span}, "{row.get("args", "")}", Emit::{row["emit"]}, '
            f"{effects}, {row.get('ptx', 0)}, {row.get('sm', 0)}, {['', 'a', 'only', 'tensor', 'exact'].index(row.get('arch', ''))}, {wide}}},\n"
        )
    emits = sorted({row["emit"] for row in rows})
    return {
        "ptx_mods.inc": BANNER + "".join(f'CUCPU_PTX_MOD({identifier(m)}, "{m}")\n' for m in sorted(mods)),
        "ptx_emits.inc": BANNER + "".join(f"CUCPU_PTX_EMIT({e})\n" for e in emits),
        "ptx_rows.inc": BANNER + "".join(bodies) + "constexpr Row kRows[] = {\n" + "".join(out_rows) + "};\n",
        "ptx_specials.inc": BANNER + "".join(f'CUCPU_PTX_SPECIAL("{n}", {t})\n' for n, t in specials(facts)),
    }


def main(source: str, folder: str) -> None:
    facts = json.loads(Path(source).read_text())
    for name, text in render(facts).items():
        Path(folder, name).write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
