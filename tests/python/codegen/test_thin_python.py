# SPDX-License-Identifier: Apache-2.0
"""Python only converts: what the C++ library can do is counted where Python does it, and the counts may only fall.

A driver call in src/python/core, or a branch in python/cuda/core, is logic that a C++ program cannot use. Move it to src/core and
lower the number here.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CALL = re.compile(r"\bCUCORE_CALL\(|\bdriver\(\)\.cu[A-Z]|\btable\.cu[A-Z]")
# file of src/python/core: driver calls it makes itself
DRIVER_CALLS = {
    "buffer.cpp": 2,  # entry points of the shortest way through allocate() and close(), taken once
    "launch.cpp": 1,  # the entry point of the shortest way through launch(), taken once
}
# file of src/python/core: uses of Python modules of ours. Each is a part that C++ programs do not have, or that only Python needs
# (docstrings, pickling, HTML, asyncio, classes of exceptions).
PYTHON_USES = {
    "buffer.cpp": 4,
    "buffer_copy.cpp": 2,
    "context.cpp": 1,
    "device.cpp": 15,
    "dlpack_exchange.cpp": 2,
    "errors.cpp": 3,
    "event.cpp": 3,
    "graph.cpp": 2,
    "kernel.cpp": 3,
    "launch.cpp": 1,
    "managed.cpp": 1,
    "object_code.cpp": 1,
    "program.cpp": 1,
    "stream.cpp": 5,
    "support.cpp": 2,
    "tensor_map.cpp": 5,
}
PYTHON_USE = re.compile(r'(?:\bimport_|\bhelper|\bMember \w+)\s*[({]\s*"(?:cuda|cucore)\b')
# module of python/cuda/core: statements that decide or repeat (if, for, while, try, with)
BRANCHES: dict[str, int] = {
    "__init__.py": 4,
    "_copy.py": 7,
    "_dataclass.py": 3,
    "_device.py": 1,
    "_errors.py": 1,
    "_graphics.py": 7,
    "_ipc.py": 14,
    "_linker.py": 9,
    "_location.py": 14,
    "_managed.py": 1,
    "_memory.py": 19,
    "_module.py": 6,
    "_options.py": 9,
    "_peers.py": 12,
    "_program.py": 27,
    "_program_cache.py": 13,
    "_resources.py": 22,
    "_sharing.py": 16,
    "_strenum.py": 1,
    "_strided.py": 63,
    "_tensor_map.py": 2,
    "_virtual_memory.py": 7,
    "_wait.py": 1,
    "checkpoint.py": 7,
    "graph/__init__.py": 1,
    "graph/_builder.py": 6,
    "graph/_definition.py": 25,
    "graph/_executable.py": 4,
    "graph/_node_classes.py": 1,
    "graph/_nodes.py": 20,
    "graph/_options.py": 3,
    "system/__init__.py": 5,
    "system/_device.py": 5,
    "system/_events.py": 1,
    "system/_nvml.py": 3,
    "system/_parts.py": 3,
    "texture.py": 18,
    "utils.py": 3,
}
# Stand-ins for NVIDIA's private modules, typing, and what only Python has: notebooks and inspect.signature().
NOT_COUNTED = (
    "_utils/",
    "experimental/",
    "typing.py",
    "system/typing.py",
    "_version.py",
    "_html.py",
    "_signatures.py",
    "graph/_drawing.py",
)


def driver_calls(file: Path) -> int:
    text = re.sub(r"//[^\n]*|^#define.*(?:\\\n.*)*", "", file.read_text(), flags=re.MULTILINE)
    return len(CALL.findall(text))


def branches(file: Path) -> int:
    kinds = (ast.If, ast.For, ast.While, ast.Try, ast.With)
    return sum(isinstance(node, kinds) for node in ast.walk(ast.parse(file.read_text())))


def counted_modules() -> dict[str, Path]:
    folder = ROOT / "python/cuda/core"
    found = {str(f.relative_to(folder)): f for f in sorted(folder.rglob("*.py"))}
    return {name: f for name, f in found.items() if not name.startswith(NOT_COUNTED)}


def test_the_bindings_make_no_more_driver_calls_than_recorded() -> None:
    files = sorted((ROOT / "src/python/core").glob("*.[ch]pp"))
    found = {f.name: n for f in files if (n := driver_calls(f))}
    assert found == DRIVER_CALLS, "move the call to src/core; where the number has fallen, lower it here"


def test_the_bindings_use_no_more_python_modules_than_recorded() -> None:
    files = sorted((ROOT / "src/python/core").glob("*.[ch]pp"))
    found = {f.name: n for f in files if (n := len(PYTHON_USE.findall(f.read_text())))}
    assert found == PYTHON_USES, "move the logic to src/core; where the number has fallen, lower it here"


@pytest.mark.parametrize("name", counted_modules())
def test_a_module_of_cuda_core_decides_no_more_than_recorded(name: str) -> None:
    found = branches(counted_modules()[name])
    assert name in BRANCHES or found == 0, f"{name} is new: put its logic in src/core"
    assert found <= BRANCHES.get(name, 0), f"{name} has {found} branches: put new logic in src/core"


def test_no_module_is_recorded_that_is_gone() -> None:
    assert set(BRANCHES) <= set(counted_modules())
