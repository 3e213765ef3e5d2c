"""Renders driver_results.inc: every CUresult with its name and a sentence, for programs that run without a driver."""

from __future__ import annotations

from facts import Library

HEADER = """\
// driver_results.inc: every result of the driver. Rendered from api/driver.json.
// CUCORE_RESULT(name, value, text)
#ifndef CUCORE_RESULT
#error "define CUCORE_RESULT(name, value, text) before including this file"
#endif
"""


def sentence(name: str) -> str:
    """The name in words: CUDA_ERROR_INVALID_VALUE is "invalid value"."""
    return name.removeprefix("CUDA_").removeprefix("ERROR_").replace("_", " ").lower()


def render_results(library: Library) -> str:
    values = next(e.values for e in library.enums.values() if any(name == "CUDA_SUCCESS" for name, _ in e.values))
    seen: set[int] = set()
    rows = []
    for name, value in values:
        if value not in seen:  # an older spelling of the same value comes second
            seen.add(value)
            rows.append(f'CUCORE_RESULT({name}, {value}, "{sentence(name)}")\n')
    return HEADER + "".join(rows)
