# SPDX-License-Identifier: Apache-2.0
"""Blocking functions are called without the GIL: a check of the sources of the cuda.core bindings.

The rendered cuda.bindings release the GIL around every function that is not `quick` in the facts. This test reads the
sources of cuda.core: a call of such a function, or of a library method that calls one, must be in a scope that has released
the GIL (WithoutGil), or be bound with call_guard<WithoutGil>.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

import facts
import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCES = sorted((ROOT / "src/python/core").glob("*.cpp"))
QUICK = {name for name, function in facts.load("driver").functions.items() if not function.blocks}
CALL = re.compile(r"\b(cu[A-Z]\w+)\s*\(")
# may_keep_lock() in the same statement: no other thread can need the GIL (src/python/core/submission.hpp).
RELEASE = re.compile(r"\bWithoutGil\s+\w+\s*;|\bwithout_gil\(|\bmay_keep_lock\(|\brelease\.emplace\(\)")
# Intended calls with the GIL held: (file, function) and the reason.
MEANT = {
    ("graph.cpp", "update"): "PyGraph::update gives the lock up itself",
    ("graph_definition.cpp", "add_kernel"): "with_arguments gives the lock up around it",
    ("graph_nodes.cpp", "set_kernel"): "with_arguments gives the lock up around it",
    ("graph.cpp", "set_kernel"): "with_arguments gives the lock up around it",
    ("kernel.cpp", "max_potential_cluster_size"): "cluster_query gives the lock up around it",
    ("graph.cpp", "release_after"): "from a destructor, which may run where the lock cannot be given up",
    ("device.cpp", "synchronize"): "on a thread of its own, which never had the lock",
    ("support.cpp", "synchronize"): "wait_interruptible gives the lock up around it",
    (
        "buffer.cpp",
        "cuMemAllocFromPoolAsync",
    ): "only while no host function is pending: nothing in the driver waits for Python",
    ("launch.cpp", "fill"): "the table of types, no memory of a device",
}


def plain(text: str) -> str:
    """The text with comments and strings replaced by spaces."""
    text = re.sub(r"//[^\n]*", lambda m: " " * len(m.group()), text)
    return re.sub(r'"(?:\\.|[^"\\\n])*"', lambda m: '"' + " " * (len(m.group()) - 2) + '"', text)


def blocks(text: str) -> list[tuple[int, int]]:
    found, opened = [], []
    for i, c in enumerate(text):
        if c == "{":
            opened.append(i)
        elif c == "}" and opened:
            found.append((opened.pop(), i))
    return found


def is_released(text: str, scopes: list[tuple[int, int]], at: int) -> bool:
    """True if the GIL is released before `at` in an enclosing scope, or in the same statement."""
    around = [s for s in scopes if s[0] < at < s[1]]
    for found in RELEASE.finditer(text, 0, at):
        inner = max((s for s in scopes if s[0] < found.start() < s[1]), default=None, key=lambda s: s[0])
        macro = found.group().endswith("(")
        if macro and ";" not in text[found.start() : at]:
            return True
        if not macro and (inner is None or inner in around):
            return True
    return False


def closing(text: str) -> int:
    """The position where the first parenthesis of the text is closed."""
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if c == ")" and depth == 0:
            return i
    return len(text)


def held_calls(text: str) -> list[tuple[int, str]]:
    """Line and name of every blocking driver call with the GIL held."""
    text = plain(text)
    scopes = blocks(text)
    return [
        (text.count("\n", 0, call.start()) + 1, call.group(1))
        for call in CALL.finditer(text)
        if call.group(1) not in QUICK and not is_released(text, scopes, call.start())
    ]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_blocking_driver_calls_release_the_gil(source: Path) -> None:
    held = [(n, name) for n, name in held_calls(source.read_text()) if (source.name, name) not in MEANT]
    assert held == [], f"{source.name}: call them in a scope with WithoutGil"


# Ambiguous names, and methods whose callers release the GIL.
AMBIGUOUS = {
    "handle", "get", "set", "create", "allocate", "deallocate", "close", "release", "nodes", "edges", "load", "find", "wait",
    "make", "current", "view", "primary", "context", "device", "record", "library", "attach", "run",
    "set_current", "state", "restore", "open", "put",
}  # fmt: skip


def library_methods() -> set[str]:
    """Names of the library methods that make a blocking driver call, directly or through another method."""
    bodies: dict[str, str] = {}
    for source in sorted((ROOT / "src/core").glob("*.cpp")):
        text = plain(source.read_text())
        for head in re.finditer(r"^(?![\s}#])[^\n;{}=]*?\b\w+::(\w+)\([^;{}]*\)[^;{}]*\{", text, re.MULTILINE):
            body = text[head.end() : text.find("\n}", head.end())]
            bodies[head.group(1)] = bodies.get(head.group(1), "") + body
    found = {name for name, body in bodies.items() if any(call not in QUICK for call in CALL.findall(body))}
    while True:
        callers = {
            name
            for name, body in bodies.items()
            if any(re.search(rf"\b{n}\(", body) for n in found - AMBIGUOUS | {"make"})
        }
        if callers <= found:
            return found - AMBIGUOUS
        found |= callers


def library_functions() -> set[str]:
    """Names of the functions of src/core/query.cpp that make a blocking driver call."""
    text = plain((ROOT / "src/core/query.cpp").read_text())
    heads = re.finditer(r"^\w[\w:<> ]* (\w+)\([^;{}]*\) noexcept \{", text, re.MULTILINE)
    bodies = [(head.group(1), text[head.end() : text.find("}\n", head.end())]) for head in heads]
    return {name for name, body in bodies if any(call not in QUICK for call in CALL.findall(body))}


def test_blocking_library_methods_release_the_gil() -> None:
    methods = library_methods()
    assert {"instantiate", "add_kernel", "upload", "trim_to"} <= methods
    functions = library_functions()
    assert {"synchronize", "synchronize_current_context", "release_after"} <= functions
    wrong = []
    for source in SOURCES:
        text = plain(source.read_text())
        scopes = blocks(text)
        for call in re.finditer(r"(?:\.|->)(\w+)\(|&\w+::(\w+)\b|\bdetail::(\w+)\(", text):
            name = call.group(1) or call.group(2) or call.group(3)
            if name not in (functions if call.group(3) else methods) or is_released(text, scopes, call.start()):
                continue
            bound = text[text.rfind(".def", 0, call.start()) :]
            if "call_guard<WithoutGil>" not in bound[: closing(bound)] and (source.name, name) not in MEANT:
                wrong.append(f"{source.name}:{text.count(chr(10), 0, call.start()) + 1}: {name}")
    assert wrong == []


def doubled(text: str) -> list[int]:
    """Lines that release the GIL twice, which aborts the process."""
    text = plain(text)
    scopes = blocks(text)
    return [
        text.count("\n", 0, found.start()) + 1
        for found in RELEASE.finditer(text)
        if is_released(text, scopes, found.start())
    ]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_gil_is_not_released_twice(source: Path) -> None:
    assert doubled(source.read_text()) == []


def test_source_check_detects_violations() -> None:
    assert doubled("void f() { WithoutGil a; { WithoutGil b; cuCtxSynchronize(); } }") == [1]
    assert doubled("void f() { { WithoutGil a; } { WithoutGil b; cuCtxSynchronize(); } }") == []
    assert held_calls("void f() { CUCORE_CALL(cuCtxSynchronize()); }") == [(1, "cuCtxSynchronize")]
    assert held_calls("void f() { { WithoutGil release; } CUCORE_CALL(cuCtxSynchronize()); }") != []
    assert held_calls("void f() { WithoutGil release; { CUCORE_CALL(cuCtxSynchronize()); } }") == []
    assert held_calls("void f() { CUCORE_CALL(cuCtxGetCurrent(&c)); }") == []
    assert held_calls("void f() { if (may_keep_lock(s)) { cuGraphLaunch(g, s); } }") == []
    assert held_calls("void f() { if (may_keep_lock(s)) { cuGraphLaunch(g, s); } cuGraphLaunch(g, s); }") != []
    assert not any(fnmatchcase("cuCtxSynchronize", name) for name in QUICK)
