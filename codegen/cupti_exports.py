# SPDX-License-Identifier: Apache-2.0
"""Renders the exports of the CPU device's CUPTI: a weak definition of every symbol that returns "not supported", the
callback ids of API functions, and the names of results.

A strong definition in cpu/cupti replaces the weak one at link time.
"""

from __future__ import annotations

import re

from c_types import declare
from facts import Library

HEAD = """\
// cupti_exports.cpp: weak definitions of every CUPTI symbol. Rendered from api/cupti.json by codegen/cupti_exports.py.
#include "cucore/abi/cupti.h"

#define CUCPU_WEAK extern "C" __attribute__((weak, visibility("default"))) CUptiResult

"""


def render_exports(library: Library) -> str:
    parts = [HEAD]
    for symbol, function in sorted(library.symbols().items()):
        if function.returns != "CUptiResult":
            raise ValueError(f"{symbol} returns {function.returns}: define it in cpu/cupti")
        params = ", ".join(declare(p.type, "") for p in function.params)
        parts.append(f"CUCPU_WEAK {symbol}({params}) {{ return CUPTI_ERROR_NOT_SUPPORTED; }}\n")
    return "".join(parts)


def callback_ids(library: Library, domain: str) -> list[tuple[str, int]]:
    prefix = f"CUPTI_{domain}_TRACE_CBID_"
    values = library.enums[f"CUpti_{domain.lower()}_api_trace_cbid_enum"].values
    names = [(name.removeprefix(prefix), value) for name, value in values]
    return [(name, value) for name, value in names if name not in ("INVALID", "SIZE", "FORCE_INT")]


def render_tables(library: Library) -> str:
    """CUCPU_DRIVER_ID(name, id); CUCPU_RUNTIME_ID(name with its version, name, id); CUCPU_RESULT(name, text)."""
    lines = ["// cupti_tables.inc: rendered from api/cupti.json by codegen/cupti_exports.py."]
    lines += ["#ifdef CUCPU_DRIVER_ID"]
    lines += [f'CUCPU_DRIVER_ID("{name}", {value})' for name, value in callback_ids(library, "DRIVER")]
    lines += ["#endif", "#ifdef CUCPU_RUNTIME_ID"]
    for name, value in callback_ids(library, "RUNTIME"):
        lines.append(f'CUCPU_RUNTIME_ID("{name}", "{re.sub(r"_v[0-9]{4,5}$", "", name)}", {value})')
    lines += ["#endif", "#ifdef CUCPU_RESULT"]
    for name, _ in library.enums["CUptiResult"].values:
        if not name.endswith("FORCE_INT"):
            text = name.removeprefix("CUPTI_").removeprefix("ERROR_").replace("_", " ").lower()
            lines.append(f'CUCPU_RESULT({name}, "{text}")')
    lines += ["#endif"]
    return "\n".join(lines) + "\n"
