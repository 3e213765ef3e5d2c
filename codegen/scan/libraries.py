"""Which headers hold which library, and how their declarations become the tables of api/."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scan import versions
from scan.clang_reader import Reader, Row, Unit, evaluate_macros

Facts = dict[str, Any]
NOT_CONSTANTS = re.compile(r"__.*|.*_H_?|.*_H_INCLUDED|CUDAAPI|CUDA_CB|.*_HAS_BEEN_DEFINED|PFN_.*|DECLDIR|NVML_INTERNAL.*")


@dataclass(frozen=True)
class Library:
    headers: tuple[str, ...]
    version_macro: str = ""
    own: tuple[str, ...] = ()  # headers whose declarations count; default: all of `headers`
    arguments: tuple[str, ...] = ()
    prelude: str = ""
    returns: str = "CUresult"
    finish: Callable[[Library, Facts, Path], None] | None = field(default=None, compare=False)

    def source(self) -> str:
        return self.prelude + "".join(f"#include <{h}>\n" for h in self.headers)

    def read(self, include: Path, *extra: str) -> Unit:
        arguments = self.all_arguments(include, *extra)
        return Reader(self.source(), arguments, set(self.own or self.headers)).read()

    def all_arguments(self, include: Path, *extra: str) -> list[str]:
        return ["-std=c11", f"-I{include}", *self.arguments, *extra]


def scan_library(name: str, include: Path, api: Path) -> Facts:
    library = LIBRARIES[name]
    unit = library.read(include)
    facts: Facts = {
        "library": name,
        "version": 0,
        "headers": " ".join(library.own or library.headers),
        "returns": library.returns,
        "functions": {n: function_facts(library, n, row) for n, row in unit.functions.items()},
        "structs": unit.structs,
        "enums": {n: row for n, row in unit.enums.items() if n},
        "typedefs": {n: row for n, row in unit.typedefs.items() if not n.startswith("PFN_")},
        "constants": constants(library, include, unit),
    }
    if library.version_macro:
        facts["version"] = facts["constants"][library.version_macro]["value"]
    if name == "driver":
        add_driver_versions(library, include, unit, facts)
    return facts


def function_facts(library: Library, name: str, row: Row) -> Row:
    result = dict(row)
    if result.get("returns") == library.returns:
        del result["returns"]
    return result


def constants(library: Library, include: Path, unit: Unit) -> dict[str, Row]:
    names = [
        n for n, tokens in unit.macros.items() if not NOT_CONSTANTS.fullmatch(n) and not is_function_alias(n, tokens)
    ]
    values = evaluate_macros(names, library.source(), library.all_arguments(include))
    result: dict[str, Row] = {}
    for name in names:
        tokens = unit.macros[name]
        if name in values:
            result[name] = {"value": values[name]}
            if len(tokens) >= 5 and tokens[0] == "(" and tokens[1] == "(":
                result[name]["type"] = " ".join(tokens[2 : tokens.index(")")])
        elif len(tokens) == 1 and tokens[0].startswith('"'):
            result[name] = {"text": tokens[0][1:-1]}
    for value_name, value in unit.enums.get("", {"values": []})["values"]:
        result[value_name] = {"value": value}
    return result


def is_function_alias(name: str, tokens: list[str]) -> bool:
    return bool(re.match(r"(cu|nvml|nvrtc|cuda|nvJitLink|nvFatbin)[A-Z]\w+$", name)) and bool(
        re.match(r"[A-Za-z_]", tokens[0])
    )


def add_driver_versions(library: Library, include: Path, unit: Unit, facts: Facts) -> None:
    """Names, versions and per-thread variants of the driver's symbols; older symbols go to the section 'older'."""
    internal = library.read(include, "-D__CUDA_API_VERSION_INTERNAL", "-D__CUDA_API_VERSION_INTERNAL_ODR")
    symbols = set(unit.functions) | set(internal.functions)
    since = versions.versions_of_symbols(symbols, set(unit.typedefs) | set(internal.typedefs))
    names = versions.name_of_symbol(unit.macros, set(unit.functions))
    functions: dict[str, Row] = {}
    older: dict[str, Row] = {}
    for symbol in symbols:
        base, _, flavour = versions.split_symbol(symbol)
        if flavour:
            continue
        row = function_facts(library, symbol, unit.functions.get(symbol) or internal.functions[symbol])
        row = {"since": since[symbol], **row}
        for variant in ("ptds", "ptsz"):
            if f"{symbol}_{variant}" in symbols:
                row["per_thread"] = [variant, since[f"{symbol}_{variant}"]]
        current = symbol in unit.functions
        name = names.get(symbol, symbol)
        if current and name != symbol:
            row = {"symbol": symbol, **row}
        if base != name:
            row["entry"] = base  # what cuGetProcAddress calls it
        if current:
            functions[name] = row
        else:
            older[symbol] = row
    missing = {s for s in symbols if versions.split_symbol(s)[2]} - {
        f"{r.get('symbol', n)}_{r['per_thread'][0]}"
        for n, r in [*functions.items(), *older.items()]
        if "per_thread" in r
    }
    if missing:
        raise RuntimeError(f"per-thread symbols without a base: {sorted(missing)}")
    facts["functions"] = functions
    facts["older"] = older
    for section in ("structs", "typedefs"):
        theirs = getattr(internal, section)
        mine = facts[section]
        for key, row in theirs.items():
            if key not in mine and not key.startswith("PFN_"):
                mine[key] = {**row, "older": True}


LIBRARIES = {
    "driver": Library(headers=("cuda.h", "cudaTypedefs.h"), version_macro="CUDA_VERSION"),
}
