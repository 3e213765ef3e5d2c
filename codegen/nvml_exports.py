# SPDX-License-Identifier: Apache-2.0
"""Renders the exports of the CPU device's NVML: a weak definition of every symbol that returns "not supported".

A strong definition in cpu/nvml replaces the weak one at link time. The test double exports the same symbols.
"""

from __future__ import annotations

from c_types import declare
from facts import Library

HEAD = """\
// exports.cpp: weak definitions of every NVML symbol. Rendered from api/nvml.json by codegen/nvml_exports.py.
#define CUCORE_ABI_ALL_VERSIONS
#include "cucore/abi/nvml.h"

/// What a function that is not there answers: NVML_ERROR_UNINITIALIZED or NVML_ERROR_NOT_SUPPORTED.
nvmlReturn_t cucpu_nvml_unsupported() noexcept;

#define CUCPU_WEAK extern "C" __attribute__((weak, visibility("default"))) nvmlReturn_t

"""


def render_names(library: Library) -> str:
    """NAME(symbol) for each symbol that returns a result code."""
    names = (s for s, function in sorted(library.symbols().items()) if function.returns == "nvmlReturn_t")
    return "// Rendered from api/nvml.json by codegen/nvml_exports.py.\n" + "".join(f"NAME({name})\n" for name in names)


def render_exports(library: Library) -> str:
    parts = [HEAD]
    for symbol, function in sorted(library.symbols().items()):
        if function.returns != "nvmlReturn_t":
            continue  # nvmlErrorString: implemented in cpu/nvml
        params = ", ".join(declare(p.type, "") for p in function.params)
        parts.append(f"CUCPU_WEAK {symbol}({params}) {{ return cucpu_nvml_unsupported(); }}\n")
    return "".join(parts)
