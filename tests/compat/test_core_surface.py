# SPDX-License-Identifier: Apache-2.0
"""Every method of cuda.core has the arguments of NVIDIA's: the same names, order, kinds and defaults."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import compare  # noqa: F401  makes codegen importable
import pytest
from factfile import read_facts

HERE = Path(__file__).resolve().parent
FACTS = HERE / "facts"
MODULES = [
    "cuda.core",
    "cuda.core.checkpoint",
    "cuda.core.graph",
    "cuda.core.system",
    "cuda.core.texture",
    "cuda.core.utils",
]
DEVIATIONS = read_facts(HERE.parent.parent / "api" / "deviations.json").get("cuda.core signatures", {})

# Functions that return these types, which are not names of a module.
HOMES = {
    "AccessedBySetProxy": "cuda.core._managed",
    "AdjacencySetProxy": "cuda.core.graph._nodes",
    "CUDAError": "cuda.core._errors",
    "ComputeCapability": "cuda.core._device",
    "DeviceProperties": "cuda.core._core",
    "GraphMemoryResourceAttributes": "cuda.core._memory",
    "IPCAllocationHandle": "cuda.core._ipc",
    "IPCBufferDescriptor": "cuda.core._ipc",
    "IPCEventDescriptor": "cuda.core._ipc",
    "KernelAttributes": "cuda.core._module",
    "KernelOccupancy": "cuda.core._core",
    "NVRTCError": "cuda.core._errors",
    "PeerAccessibleBySetProxy": "cuda.core._peers",
    "TensorMapDataType": "cuda.core._tensor_map",
    "TensorMapIm2ColWideMode": "cuda.core._tensor_map",
    "TensorMapInterleave": "cuda.core._tensor_map",
    "TensorMapL2Promotion": "cuda.core._tensor_map",
    "TensorMapOOBFill": "cuda.core._tensor_map",
    "TensorMapSwizzle": "cuda.core._tensor_map",
    "DeviceEvents": "cuda.core.system._events",
    "EventData": "cuda.core.system._events",
    "RegisteredSystemEvents": "cuda.core.system._events",
    "SystemEvent": "cuda.core.system._events",
    "SystemEvents": "cuda.core.system._events",
}
PARTS = "cuda.core.system._parts"  # all other returned types


def parameters(signature: str) -> list[tuple[str, bool, bool]]:
    """(name, keyword only, has a default) of "(self, a: 'int', *, b=None) -> 'None'"; without self and cls."""
    text = re.sub(r"<[^<>]*>", "None", signature)  # defaults given as repr: <Enum.MEMBER: 'x'>
    tree = ast.parse(f"def f{text.split(' -> ')[0]}: ...").body[0]
    assert isinstance(tree, ast.FunctionDef)
    a = tree.args
    places = [*a.posonlyargs, *a.args]
    first_default = len(places) - len(a.defaults)
    rows = [(arg.arg, False, i >= first_default) for i, arg in enumerate(places)]
    rows += [(arg.arg, True, default is not None) for arg, default in zip(a.kwonlyargs, a.kw_defaults, strict=True)]
    if a.vararg is not None:
        rows.append((f"*{a.vararg.arg}", False, False))
    return [row for row in rows if row[0] not in ("self", "cls")]


def ours(function: Any) -> list[tuple[str, bool, bool]] | None:
    """The same for an installed function; None if it has no signature."""
    rendered = getattr(function, "__nb_signature__", None)
    if rendered:
        text = rendered[0][0].removeprefix("def ").strip()
        body = re.sub(r"\\\d+", "None", text[text.index("(") :])
        return parameters(body.replace("/, ", "").replace(", /", ""))
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    rows = []
    for p in signature.parameters.values():
        if p.name in ("self", "cls") or p.kind is p.VAR_KEYWORD:
            continue
        if p.kind is p.VAR_POSITIONAL:
            rows.append((f"*{p.name}", False, False))
        else:
            rows.append((p.name, p.kind is p.KEYWORD_ONLY, p.default is not p.empty))
    return rows


def difference(wanted: list[tuple[str, bool, bool]], found: list[tuple[str, bool, bool]]) -> str:
    """The difference that a caller of NVIDIA's function would notice, or "". Additional and optional arguments are allowed."""
    known = {name: (keyword, default) for name, keyword, default in found}
    order = [name for name, keyword, _ in found if not keyword]
    place = 0
    for name, keyword, default in wanted:
        if name not in known:
            return f"{name} is not there"
        if default and not known[name][1] and not name.startswith("*"):
            return f"{name} has no default"
        if not keyword and not name.startswith("*"):
            if known[name][0] or order.index(name) != place:
                return f"{name} cannot be given by place {place}"
            place += 1
    return ""


def cases() -> list[tuple[str, str, str, str]]:
    rows = []
    for module in MODULES:
        facts = read_facts(FACTS / f"{module}.json")
        rows += [(module, "", name, signature) for name, signature in facts["functions"].items()]
        for cls, row in facts["classes"].items():
            rows += methods(module, cls, row)
    for cls, row in read_facts(FACTS / "cuda.core.returned-types.json")["classes"].items():
        rows += methods(HOMES.get(cls, PARTS), cls, row)
    return rows


def methods(module: str, cls: str, row: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    found = []
    for line in row["methods"]:
        text = line.removeprefix("@staticmethod ").removeprefix("@classmethod ")
        if "(" not in text or "(…)" in text or text.split("(")[0] in ("add_note", "with_traceback"):
            continue
        name, _, rest = text.partition("(")
        found.append((module, cls, name, f"({rest}"))
    return found


CASES = cases()


@pytest.mark.parametrize(("module", "cls", "name", "signature"), CASES, ids=[f"{c}.{n}" for _, c, n, _ in CASES])
def test_method_has_the_arguments_of_nvidias(module: str, cls: str, name: str, signature: str) -> None:
    owner: Any = importlib.import_module(module)
    if cls:
        owner = getattr(owner, cls)
    function = getattr(owner, name)
    key = f"{cls}.{name}" if cls else name
    found = ours(function)
    assert found is not None, f"{module}.{key} does not tell its arguments"
    wrong = difference(parameters(signature), found)
    if key in DEVIATIONS:
        pytest.skip(DEVIATIONS[key])
    assert not wrong, f"{module}.{key}{signature}: {wrong}; ours takes {found}"


@pytest.mark.parametrize(
    "cls, row",
    [
        pytest.param(cls, row, id=cls)
        for cls, row in read_facts(FACTS / "cuda.core.returned-types.json")["classes"].items()
    ],
)
def test_returned_types_have_the_members_of_nvidias(cls: str, row: dict[str, Any]) -> None:
    owner = getattr(importlib.import_module(HOMES.get(cls, PARTS)), cls)
    missing = [name for name in row["properties"] if not hasattr(owner, name)]
    assert missing == []


def test_difference_of_signatures_is_detected() -> None:
    wanted = parameters("(self, a: 'int', b=1, *, c=None) -> 'None'")
    assert wanted == [("a", False, False), ("b", False, True), ("c", True, True)]
    assert difference(wanted, [("a", False, False), ("b", False, True), ("c", True, True), ("d", False, True)]) == ""
    assert "b" in difference(wanted, [("a", False, False), ("c", True, True)])
    assert "place" in difference(wanted, [("b", False, True), ("a", False, False), ("c", True, True)])
    assert "default" in difference(wanted, [("a", False, False), ("b", False, True), ("c", True, False)])
