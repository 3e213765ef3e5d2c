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
# file of src/python/core: the names of our Python modules that it uses, and why they are Python's. Classes that only some programs
# need are imported when they are first used, so that `import cuda.core` stays cheap.
LAZY = "a class of Python, imported by the first call that makes one"
PICKLED = "pickle writes the name of a Python function"
OPTIONS = "a class of options, which users make in Python"
PYTHON_USES = {
    "buffer.cpp": {
        "_managed.ManagedBuffer": "a class of Python that derives from Buffer",
        "_pickling": PICKLED,
        "_sharing.export_buffer": "makes a descriptor that pickles",
        "_sharing.import_buffer": "takes a descriptor that was pickled",
    },
    "buffer_copy.cpp": {"_copy.CopyOptions": OPTIONS},
    "context.cpp": {"_resources.DeviceResources": LAZY},
    "device.cpp": {
        "_memory._default_device_resource": LAZY,
        "_device.ComputeCapability": "a named tuple",
        "_html.device": "for notebooks",
        "_memory.MemoryResource": "users derive from it in Python",
        "_resources.DeviceResources": LAZY,
        "_resources.create_context": LAZY,
        "texture.OpaqueArray": LAZY,
        "texture.MipmappedArray": LAZY,
        "texture.TextureObject": LAZY,
        "texture.SurfaceObject": LAZY,
        "system.Device": LAZY,
    },
    "dlpack_exchange.cpp": {"utils.StridedMemoryView": LAZY},
    "errors.cpp": {
        "_errors": "classes of exceptions",
        "nvml._exception": "classes of exceptions",
        "warning.warn": "finds the line of the user's program",
    },
    "event.cpp": {
        "_wait.wait": "asyncio",
        "_ipc.IPCEventDescriptor": "makes and takes a descriptor that pickles",
        "_pickling.reduce_event": PICKLED,
    },
    "graph.cpp": {"graph._executable_node": LAZY, "_options.GraphCompleteOptions": OPTIONS},
    "graph_builder.cpp": {"graph.GraphBuilder": LAZY},
    "kernel.cpp": {"_module": "named tuples, and " + PICKLED, "_module.KernelAttributes": LAZY},
    "managed.cpp": {"_copy.CopyOptions": OPTIONS},
    "object_code.cpp": {"_module._object_code": PICKLED},
    "program.cpp": {"pathfinder.DynamicLibNotFoundError": "a class of exceptions"},
    "stream.cpp": {
        "_ipc.register_event_reducer": "multiprocessing",
        "_pickling.reduce_stream": PICKLED,
        "_wait.wait": "asyncio",
        "_html.stream": "for notebooks",
        "_resources.DeviceResources": LAZY,
    },
    "support.cpp": {"_options.EventOptions": OPTIONS, "_options.StreamOptions": OPTIONS},
}
PYTHON_USE = re.compile(
    r'(?:\bimport_|\bhelper|\bMember \w+)\s*[({]\s*"((?:cuda|cucore)[\w.]*)"(?:, "(\w+)"|\)\s*\.attr\("(\w+)"\))?'
)
# module of python/cuda/core: statements that decide or repeat (if, for, while, try, with), and what they are for
BRANCHES: dict[str, tuple[int, str]] = {
    "__init__.py": (3, "names are imported when first used; a mixed installation is refused"),
    "_dataclass.py": (2, "dataclasses without the import"),
    "_errors.py": (1, "exceptions that pickle"),
    "_graphics.py": (6, "a context manager over the C++ resource"),
    "_ipc.py": (8, "pickling, file descriptors of multiprocessing"),
    "_linker.py": (8, "arguments; warnings"),
    "_memory.py": (8, "options; properties that are the driver's attributes"),
    "_module.py": (5, "attributes that can be called, as older programs do"),
    "_options.py": (8, "classes of options"),
    "_peers.py": (3, "a set of Python"),
    "_pickling.py": (17, "pickle: what an object is rebuilt from; out-of-band buffers"),
    "_program.py": (10, "options, arguments, handles of cuda.bindings"),
    "_program_cache.py": (7, "the abstract class of caches that users write in Python: a mapping"),
    "_resources.py": (9, "options; resources of a dry run"),
    "_sharing.py": (23, "pickling: one object of Python per resource, by a name of multiprocessing"),
    "_strenum.py": (1, "enumerations before Python 3.11"),
    "_strided.py": (28, "types of NumPy; a decorator; pickling"),
    "_tensor_map.py": (2, "arguments"),
    "_virtual_memory.py": (6, "options"),
    "_wait.py": (1, "asyncio"),
    "checkpoint.py": (7, "arguments"),
    "graph/__init__.py": (1, "names are imported when first used"),
    "graph/_builder.py": (6, "arguments; what the graph keeps of Python"),
    "graph/_definition.py": (12, "objects of nodes, one per node; what a node keeps of Python"),
    "graph/_executable.py": (3, "arguments"),
    "graph/_node_classes.py": (1, "the class of a node"),
    "graph/_nodes.py": (17, "objects of nodes; what a destroyed node remembers"),
    "system/__init__.py": (4, "names are imported when first used"),
    "system/_device.py": (3, "arguments"),
    "system/_parts.py": (2, "a warning"),
    "texture.py": (12, "arguments; what a texture keeps of Python"),
    "utils.py": (2, "names are imported when first used"),
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
)


def driver_calls(file: Path) -> int:
    text = re.sub(r"//[^\n]*|^#define.*(?:\\\n.*)*", "", file.read_text(), flags=re.MULTILINE)
    return len(CALL.findall(text))


def branches(file: Path) -> int:
    kinds = (ast.If, ast.For, ast.While, ast.Try, ast.With)
    found = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, kinds)]
    return sum(not is_for_type_checkers(node) for node in found)


def is_for_type_checkers(node: ast.AST) -> bool:
    """`if TYPE_CHECKING:`, which never runs."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def counted_modules() -> dict[str, Path]:
    folder = ROOT / "python/cuda/core"
    found = {str(f.relative_to(folder)): f for f in sorted(folder.rglob("*.py"))}
    return {name: f for name, f in found.items() if not name.startswith(NOT_COUNTED)}


def test_the_bindings_make_no_more_driver_calls_than_recorded() -> None:
    files = sorted((ROOT / "src/python/core").glob("*.[ch]pp"))
    found = {f.name: n for f in files if (n := driver_calls(f))}
    assert found == DRIVER_CALLS, "move the call to src/core; where the number has fallen, lower it here"


def test_the_bindings_use_python_modules_for_the_recorded_reasons_only() -> None:
    files = sorted((ROOT / "src/python/core").glob("*.[ch]pp"))
    found = {
        f.name: {".".join([module.split(".")[-1], *filter(None, names)]) for module, *names in used}
        for f in files
        if (used := PYTHON_USE.findall(f.read_text()))
    }
    recorded = {name: set(uses) for name, uses in PYTHON_USES.items()}
    assert found == recorded, "move the logic to src/core; take the row away where the use is gone"


@pytest.mark.parametrize("name", counted_modules())
def test_a_module_of_cuda_core_decides_no_more_than_recorded(name: str) -> None:
    found = branches(counted_modules()[name])
    assert name in BRANCHES or found == 0, f"{name} is new: put its logic in src/core"
    assert found <= BRANCHES.get(name, (0, ""))[0], f"{name} has {found} branches: put new logic in src/core"


def test_no_module_is_recorded_that_is_gone() -> None:
    assert set(BRANCHES) <= set(counted_modules())
