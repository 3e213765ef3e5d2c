# SPDX-License-Identifier: Apache-2.0
"""Renders driver_results.inc: name and description of every CUresult, for programs without a driver."""

from __future__ import annotations

from facts import Library

HEADER = """\
// driver_results.inc: every result of the driver. Rendered from api/driver.json.
// CUCORE_RESULT(name, value, text)
#ifndef CUCORE_RESULT
#error "define CUCORE_RESULT(name, value, text) before including this file"
#endif
"""


def description(name: str) -> str:
    """A description derived from the name: CUDA_ERROR_INVALID_VALUE yields "invalid value"."""
    return name.removeprefix("CUDA_").removeprefix("ERROR_").replace("_", " ").lower()


def render_results(library: Library) -> str:
    values = next(e.values for e in library.enums.values() if any(name == "CUDA_SUCCESS" for name, _ in e.values))
    seen: set[int] = set()
    rows = []
    for name, value in values:
        if value not in seen:  # skips an older name of the same value
            seen.add(value)
            rows.append(f'CUCORE_RESULT({name}, {value}, "{description(name)}")\n')
    return HEADER + "".join(rows)
