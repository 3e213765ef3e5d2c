# SPDX-License-Identifier: Apache-2.0
"""Maps driver symbols to functions and CUDA versions.

cuda.h maps a function's name to a versioned symbol with macros (cuMemAlloc to cuMemAlloc_v2). cudaTypedefs.h contains the
first version of each symbol (PFN_cuMemAlloc_v3020), which cuGetProcAddress takes.
"""

from __future__ import annotations

import re
from collections import defaultdict

PER_THREAD = re.compile(r"_(ptsz|ptds)$")
VERSION = re.compile(r"_v(\d+)$")


def split_symbol(symbol: str) -> tuple[str, int, str]:
    """cuMemcpyHtoD_v2_ptds -> ("cuMemcpyHtoD", 2, "ptds")."""
    flavour = ""
    if match := PER_THREAD.search(symbol):
        flavour = match[1]
        symbol = symbol[: match.start()]
    number = 1
    if match := VERSION.search(symbol):
        number = int(match[1])
        symbol = symbol[: match.start()]
    return symbol, number, flavour


def name_of_symbol(macros: dict[str, list[str]], symbols: set[str]) -> dict[str, str]:
    """Symbol -> name in programs, from the object-like macros of the header."""
    names: dict[str, str] = {}
    for name, tokens in macros.items():
        words = [t for t in tokens if t not in "()" and not t.startswith("__CUDA_API_PT")]
        if len(words) == 1 and words[0] in symbols and name != words[0]:
            names[words[0]] = name
    return names


def typedef_versions(typedefs: set[str]) -> dict[tuple[str, str], list[int]]:
    """(base name, flavour) -> CUDA versions, ascending, from the names of the PFN_ typedefs."""
    found: dict[tuple[str, str], set[int]] = defaultdict(set)
    for name in typedefs:
        match = re.fullmatch(r"PFN_(cu\w+?)_v(\d+)(?:_(ptsz|ptds))?", name)
        if match:
            found[match[1], match[3] or ""].add(int(match[2]))
    return {key: sorted(values) for key, values in found.items()}


def versions_of_symbols(symbols: set[str], typedefs: set[str]) -> dict[str, int]:
    """Symbol -> CUDA version. Matches the versions of a function with its symbols, starting from the newest."""
    families: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for symbol in symbols:
        base, number, flavour = split_symbol(symbol)
        families[base, flavour].append((number, symbol))
    known = typedef_versions(typedefs)
    result: dict[str, int] = {}
    for key, family in families.items():
        versions = known.get(key, [])
        for (_, symbol), version in zip(sorted(family, reverse=True), reversed(versions), strict=False):
            result[symbol] = version
    return result
