# SPDX-License-Identifier: Apache-2.0
"""Compares an installed module with the facts of NVIDIA's surface: names, arguments, values, members.

`absent(facts)` lists the facts that are missing in the module, with the names of compare.py: "f", "f(arg)",
"Class.member", "Enum.MEMBER".

    python tests/compat/installed.py        lists missing facts
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compare import NOT_API, same_value
from factfile import Facts, read_facts
from scan.surface import parse_signature

FACTS = Path(__file__).resolve().parent / "facts"
# Members of every Python object, and implementation details of the original.
NOT_MEMBERS = {"add_note", "args", "with_traceback", "__reduce__"}


def modules() -> list[str]:
    """Every module of the surface. 'returned-types' is not a module: its classes are reached through the functions that return them."""
    return sorted(p.stem for p in FACTS.glob("*.json") if p.stem != "cuda.core.returned-types")


def absent(name: str) -> list[str]:
    facts = read_facts(FACTS / f"{name}.json")
    try:
        module = importlib.import_module(name)
    except ImportError:
        return [name]
    checks = (functions, enums, classes, constants)
    return sorted(item for check in checks for item in check(module, facts))


def lookup(module: Any, name: str) -> Any:
    try:
        return getattr(module, name)
    except (AttributeError, ImportError):
        return None


def functions(module: Any, facts: Facts) -> Iterator[str]:
    for name, signature in facts["functions"].items():
        if name in NOT_API:
            continue
        function = lookup(module, name)
        if function is None:
            yield name
        else:
            yield from (f"{name}({a})" for a in missing_arguments(function, signature))


def missing_arguments(function: Any, signature: str) -> list[str]:
    """Arguments that cannot be passed by name or position. A function without a signature is accepted."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return []
    kinds = {p.kind for p in parameters.values()}
    if inspect.Parameter.VAR_KEYWORD in kinds and inspect.Parameter.VAR_POSITIONAL in kinds:
        return []
    wanted = [
        a.name for a in parse_signature(signature) if a.name not in ("self", "cls") and not a.name.startswith("*")
    ]
    return [name for name in wanted if name not in parameters]


def enums(module: Any, facts: Facts) -> Iterator[str]:
    for name, members in facts["enums"].items():
        enum = lookup(module, name)
        if enum is None:
            yield name
            continue
        for member, value in members.items():
            found = lookup(enum, member)
            if found is None or not same_member(found, value):
                yield f"{name}.{member}"


def same_member(found: Any, value: int | str) -> bool:
    if isinstance(value, int):
        return same_value(int(found), value)
    return str(found) == value.strip("'\"") or str(getattr(found, "value", found)) == value.strip("'\"")


def classes(module: Any, facts: Facts) -> Iterator[str]:
    for name, row in facts["classes"].items():
        cls = lookup(module, name)
        if cls is None:
            yield name
            continue
        fields = set(getattr(cls, "__annotations__", {})) | set(getattr(cls, "__dataclass_fields__", {}))
        for member in [*row["properties"], *(method_name(m) for m in row["methods"])]:
            if member and member not in NOT_MEMBERS and member not in fields and not hasattr(cls, member):
                yield f"{name}.{member}"


def method_name(line: str) -> str:
    """'@staticmethod from_ptr(ptr)' -> 'from_ptr'; '__eq__/__hash__' -> '__eq__'."""
    text = line.removeprefix("@staticmethod ").removeprefix("@classmethod ")
    return text.split("(")[0].split("/")[0].split(" ")[0].split(":")[0].strip()


def constants(module: Any, facts: Facts) -> Iterator[str]:
    for name, value in facts["constants"].items():
        found = lookup(module, name)
        if found is None or int(found) != value:
            yield name


def main() -> int:
    """Lists missing facts that are not deviations, module by module."""
    deviations = read_facts(FACTS.parent.parent.parent / "api" / "deviations.json")
    for module in modules():
        known = {**deviations.get(module, {}), **deviations.get(f"{module} surface", {})}
        names = [] if module in known else [n for n in absent(module) if n not in known]
        print(f"{module}: {len(names)} missing", *names)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
