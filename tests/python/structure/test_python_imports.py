# SPDX-License-Identifier: Apache-2.0
"""The modules of cuda.core import each other without cycles, so each can be read and imported on its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3] / "python"


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules(package: str) -> dict[str, Path]:
    return {module_name(path): path for path in sorted((ROOT / package).rglob("*.py"))}


def is_type_checking(test: ast.expr) -> bool:
    return ast.unparse(test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def import_statements(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports at any depth, because a late import hides a cycle but does not remove it; not those for type checkers."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and is_type_checking(child.test):
            for other in child.orelse:
                yield from import_statements(other)
        elif isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        else:
            yield from import_statements(child)


def imported(name: str, path: Path, known: dict[str, Path]) -> set[str]:
    """The modules that a module imports; a package counts only where one of its own names is imported."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = set()
    for statement in import_statements(ast.parse(path.read_text())):
        if isinstance(statement, ast.Import):
            found |= {alias.name for alias in statement.names}
            continue
        base = statement.module or ""
        if statement.level:
            parents = package.split(".")[: len(package.split(".")) - statement.level + 1]
            base = ".".join([*parents, base] if base else parents)
        for alias in statement.names:
            found.add(f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base)
    return found & known.keys() - {name}


def cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """The groups of modules that reach each other (strongly connected components of more than one)."""

    def reach(start: str) -> set[str]:
        found: set[str] = set()
        waiting = [start]
        while waiting:
            for target in edges[waiting.pop()] - found:
                found.add(target)
                waiting.append(target)
        return found

    reached = {name: reach(name) for name in edges}
    groups = {frozenset(other for other in reached[name] if name in reached[other]) for name in edges}
    return sorted(sorted(group) for group in groups if len(group) > 1)


def test_modules_of_cuda_core_have_no_import_cycles() -> None:
    known = modules("cuda/core")
    assert cycles({name: imported(name, path, known) for name, path in known.items()}) == []


def test_cycle_between_two_modules_is_found() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]
