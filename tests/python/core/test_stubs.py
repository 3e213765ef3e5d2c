# SPDX-License-Identifier: Apache-2.0
"""The type stubs of cuda.core match the runtime: mypy.stubtest compares names, these tests compare signatures."""

from __future__ import annotations

import ast
import os
import re
import site
import subprocess
import sys
from pathlib import Path
from typing import Any

import cuda.core
import pytest
from cuda.core import _core

pytest.importorskip("mypy")

PACKAGE = Path(cuda.core.__file__).resolve().parent
INSTALLED = PACKAGE.parents[1]

# Differences that stubtest reports because C++ classes and functions do not use Python's types.
OF_NANOBIND = re.compile(
    r"metaclass differs$"  # nanobind classes have their own metaclass
    r"|is a disjoint base at runtime"  # and their own object layout
    r"|is not a function$|stub is a (static|class)method but runtime is not$"  # as do its functions, including static ones
    r"|__init__ is inconsistent, stub does not have \*args"  # object.__init__ of classes without a constructor
    r"|\.__signature__ is not present in stub$"  # what inspect.signature() finds
    r'|differs from runtime parameter "(arg\d*|/)"$'  # arguments without a name; those with one are compared below
)
# Intended differences with their reasons.
KNOWN = {
    "cuda.core.typing.ProcessStateType": "a Literal of four strings; checkers see a union of four literals",
    "cuda.core._dataclass.dataclass_transform": "stands in for the one of typing_extensions, which is not imported",
    "cuda.core._device._Pair": "a namedtuple at run time, so that typing is not imported",
}


def environment() -> dict[str, str]:
    found = dict(os.environ)
    if str(INSTALLED) not in site.getsitepackages():  # mypy searches it by itself and rejects it in MYPYPATH
        found["MYPYPATH"] = str(INSTALLED)
    return found


def run(folder: Path, options: str, *command: str) -> str:
    config = folder / "mypy.ini"
    config.write_text(f"[mypy]\nnamespace_packages = True\nexplicit_package_bases = True\n{options}")
    done = subprocess.run(
        [sys.executable, "-m", command[0], *command[1:], "--mypy-config-file" if "stubtest" in command[0] else "--config-file",
         str(config)], capture_output=True, text=True, check=False, cwd=folder, env=environment(),
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def test_package_passes_mypy_strict(tmp_path: Path) -> None:
    said = run(tmp_path, "strict = True\n", "mypy", "-p", "cuda.core", "--cache-dir", str(tmp_path))
    assert said.startswith("Success"), said


def test_stubs_match_the_runtime_names(tmp_path: Path) -> None:
    lines = run(tmp_path, "", "mypy.stubtest", "cuda.core", "--concise").splitlines()
    assert len(lines) > 50, "stubtest did not look at the C++ half"
    left = [line for line in lines if line and not OF_NANOBIND.search(line)]
    assert [line for line in left if line.split()[0].split("@")[0] not in KNOWN] == []


def stub_of(name: str) -> ast.ClassDef:
    tree = ast.parse((PACKAGE / "_core.pyi").read_text())
    return next(item for item in tree.body if isinstance(item, ast.ClassDef) and item.name == name)


def stubbed(function: ast.FunctionDef) -> list[str]:
    a = function.args
    return [arg.arg for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs) if arg.arg not in ("self", "cls")]


def actual(function: Any) -> list[str] | None:
    """The names of a function's parameters, or None if they are unknown."""
    known = getattr(function, "__nb_signature__", None)
    text = known[0][0] if known else f"def f{getattr(function, '__text_signature__', None) or ''}"
    if "(" not in text:
        return None
    inside = re.sub(r"\\\d+", "None", text[text.index("(") + 1 : text.rindex(")")])
    tree = ast.parse(f"def f({inside.replace('$', '')}): ...").body[0]
    assert isinstance(tree, ast.FunctionDef)
    names = stubbed(tree)
    return None if any(re.fullmatch(r"arg\d*", name) for name in names) else names


CLASSES = [name for name in dir(_core) if isinstance(getattr(_core, name), type)]


@pytest.mark.parametrize("name", CLASSES)
def test_methods_have_the_parameters_of_their_stubs(name: str) -> None:
    for function in stub_of(name).body:
        if not isinstance(function, ast.FunctionDef) or function.name in ("__init__", "__new__"):
            continue
        names = actual(vars(getattr(_core, name)).get(function.name))
        if names is not None and not function.name.startswith("__"):
            assert stubbed(function) == names, f"{name}.{function.name}"


def test_functions_have_the_parameters_of_their_stubs() -> None:
    tree = ast.parse((PACKAGE / "_core.pyi").read_text())
    functions = [item for item in tree.body if isinstance(item, ast.FunctionDef)]
    for function in functions:
        names = actual(getattr(_core, function.name))
        if names is not None and function.name != "launch":  # variadic
            assert stubbed(function) == names, function.name
    assert len(functions) > 50


MISTAKES = """
from cuda.core import Buffer, Program, Stream
def f(buffer: Buffer, stream: Stream) -> None:
    Program("x", "cuda")
    buffer.copy_from([1, 2], stream=stream)
"""
CORRECT = """
from cuda.core import Buffer, Program, Stream
from cuda.core.typing import SourceCodeType
def f(buffer: Buffer, other: Buffer, stream: Stream) -> None:
    Program("x", "c++")
    Program("x", SourceCodeType.PTX)
    buffer.copy_from(other, stream=stream)
    buffer.copy_from(bytearray(4), stream=stream)
    buffer.copy_from(memoryview(b"1234"), stream=stream)
"""


def test_mistakes_are_refused_by_type_checkers(tmp_path: Path) -> None:
    (tmp_path / "mistakes.py").write_text(MISTAKES)
    (tmp_path / "correct.py").write_text(CORRECT)
    said = run(tmp_path, "", "mypy", "mistakes.py", "correct.py", "--cache-dir", str(tmp_path / "cache"))
    errors = [line.split(": error:")[0] for line in said.splitlines() if ": error:" in line]
    assert errors == ["mistakes.py:4", "mistakes.py:5"], said
