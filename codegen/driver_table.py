# SPDX-License-Identifier: Apache-2.0
"""Renders driver_functions.inc: one row per driver function, for the table of src/driver."""

from __future__ import annotations

from facts import Library

HEADER = """\
// driver_functions.inc: every driver function by its current name. Rendered from api/driver.json.
//
// CUCORE_FN(name, entry, since, per_thread_since)
//   name               what programs call it (a macro of cucore/abi/driver.h may map it to its versioned symbol,
//                      so decltype(&::name) is the type of exactly the version named by `since`)
//   entry              string: the name to pass to cuGetProcAddress
//   since              the version to pass to cuGetProcAddress: the CUDA version this signature appeared in
//   per_thread_since   the version of its per-thread default stream variant, 0 when it has none
#ifndef CUCORE_FN
#error "define CUCORE_FN(name, entry, since, per_thread_since) before including this file"
#endif
"""


def render_table(library: Library) -> str:
    rows = (f'CUCORE_FN({f.name}, "{f.entry}", {f.since}, {f.per_thread_since})\n' for f in library.functions.values())
    return HEADER + "".join(rows)
