# SPDX-License-Identifier: Apache-2.0
"""The Python reference: signatures from the type stubs and sources, texts from the docstrings of the built package.

Reading the stubs with `ast` gives parameter names and types where the functions are C++; importing gives the docstrings.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

from .text import heading, indent, prose, table

# Page: title, module, and its names by section. A section lists names; what the module exports beyond them is an error.
CORE = {
    "Devices, streams, events": ["Device", "Context", "ContextOptions", "Stream", "StreamOptions", "LEGACY_DEFAULT_STREAM",
        "PER_THREAD_DEFAULT_STREAM", "Event", "EventOptions", "DeviceResources", "SMResource", "SMResourceOptions",
        "WorkqueueResource", "WorkqueueResourceOptions"],
    "Memory": ["Buffer", "MemoryResource", "DeviceMemoryResource", "DeviceMemoryResourceOptions", "PinnedMemoryResource",
        "PinnedMemoryResourceOptions", "ManagedMemoryResource", "ManagedMemoryResourceOptions", "ManagedBuffer", "Host",
        "LegacyPinnedMemoryResource", "GraphMemoryResource", "VirtualMemoryResource", "VirtualMemoryResourceOptions",
        "GraphicsResource", "TensorMapDescriptor", "TensorMapDescriptorOptions"],
    "Compiling and linking": ["Program", "ProgramOptions", "ObjectCode", "Kernel", "Linker", "LinkerOptions"],
    "Launching": ["LaunchConfig", "launch"],
    "Errors": ["CUDAError", "NVRTCError"],
}  # fmt: skip
MODULES = {
    "cuda.core.graph": "Graphs: work described once and launched many times.",
    "cuda.core.texture": "Arrays, textures and surfaces.",
    "cuda.core.utils": "Views of other libraries' arrays, batched copies, program caches.",
    "cuda.core.typing": "Names of options as enumerations; a plain string does as well.",
    "cuda.core.system": "What NVML knows about the machine.",
    "cuda.core.checkpoint": "Checkpoint and restore of a process.",
    "cuda.pathfinder": "Where the toolkit's libraries, headers and programs are.",
}
BINDINGS = ("driver", "runtime", "nvrtc", "nvjitlink", "nvvm", "nvfatbin", "nvml", "cufile")


class Sources:
    """The declarations of every class and function in the package's sources and stubs, by name."""

    def __init__(self, folder: Path) -> None:
        self.found: dict[str, ast.ClassDef | ast.FunctionDef] = {}
        paths = [*sorted(folder.rglob("*.py")), *sorted(folder.rglob("*.pyi"))]  # stubs last: they are typed
        for path in paths:
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                    self.found[node.name] = node

    def get(self, name: str) -> ast.ClassDef | ast.FunctionDef | None:
        return self.found.get(name)


def signature(node: ast.FunctionDef, method: bool) -> str:
    arguments = ast.parse(ast.unparse(node)).body[0].args  # type: ignore[attr-defined]
    static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list)
    if method and not static:
        (arguments.posonlyargs or arguments.args).pop(0)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"({ast.unparse(arguments)}){returns}"


def doc(thing: Any) -> str:
    """The docstring, without the signatures that nanobind writes at its beginning: the page has typed ones."""
    name = getattr(thing, "__name__", "")
    text = inspect.getdoc(thing) or ""
    while name and (
        found := re.match(rf"(?:Overloaded function\.|(?:\d+\. )?`*{re.escape(name)}\(.*\)(?: -> .*)?`*)(?:\n|$)", text)
    ):
        text = text[found.end() :].lstrip("\n")
    return prose(text) + "\n" if text else ""


def members(cls: type, node: ast.ClassDef | None) -> str:
    """Methods and properties, in the order of the source where there is one."""
    declared: dict[str, ast.FunctionDef] = {}
    fields: list[tuple[str, str, str]] = []
    for item in node.body if node else []:
        if isinstance(item, ast.FunctionDef):
            declared.setdefault(item.name, item)
        elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and item.target.id[0] != "_":
            default = f" = {ast.unparse(item.value)}" if item.value else ""
            fields.append((item.target.id, ast.unparse(item.annotation), default))
    out = ""
    for name, kind, default in fields:
        out += f".. py:attribute:: {name}\n   :type: {kind}{default}\n   :no-index:\n\n"
    ours = [
        base for base in cls.__mro__[1:-1] if base.__module__.startswith("cuda")
    ]  # not what every exception or tuple has
    inherited = [n for base in ours for n in vars(base) if n not in vars(cls)]
    field_names = {name for name, _, _ in fields}
    for name in dict.fromkeys([*declared, *(n for n in vars(cls)), *inherited]):
        if name.startswith("_") or name in field_names or not hasattr(cls, name):
            continue
        value = inspect.getattr_static(cls, name)
        function = declared.get(name)
        if function is None and callable(getattr(cls, name)) and not isinstance(value, property):
            try:
                shown = str(inspect.signature(getattr(cls, name))).replace("(self, ", "(").replace("(self)", "()")
            except (TypeError, ValueError):
                shown = "(...)"
            directive = f".. py:method:: {name}{shown}"
        elif function is not None and not any(
            "property" in ast.dump(d) or "setter" in ast.dump(d) for d in function.decorator_list
        ):
            directive = f".. py:method:: {name}{signature(function, True)}"
            for flag in ("classmethod", "staticmethod"):
                if any(isinstance(d, ast.Name) and d.id == flag for d in function.decorator_list):
                    directive += f"\n   :{flag}:"
        else:
            directive = f".. py:property:: {name}"
            if function is not None and function.returns is not None:
                directive += f"\n   :type: {ast.unparse(function.returns)}"
        out += f"{directive}\n   :no-index:\n\n{indent(doc(value), 3)}\n"
    return out


def entry(name: str, value: Any, sources: Sources) -> str:
    node = sources.get(name)
    if isinstance(value, type):
        start = next((i for i in node.body if isinstance(i, ast.FunctionDef) and i.name in ("__init__", "__new__")), None) \
            if isinstance(node, ast.ClassDef) else None  # fmt: skip
        shown = signature(start, True).split(" -> ")[0] if start and not hasattr(value, "__members__") else ""
        out = f".. py:class:: {name}{shown}\n\n{indent(doc(value), 3)}\n"
        if hasattr(value, "__members__"):
            names = ", ".join(f"``{item.name}`` (``{item.value!r}``)" for item in value)
            return out + indent(f"One of {names}.\n", 3) + "\n"
        return out + indent(members(value, node if isinstance(node, ast.ClassDef) else None), 3)
    if isinstance(node, ast.FunctionDef):
        return f".. py:function:: {name}{signature(node, False)}\n\n{indent(doc(value), 3)}\n"
    if inspect.isroutine(value):
        return f".. py:function:: {name}{inspect.signature(value)}\n\n{indent(doc(value), 3)}\n"
    shown = "" if type(value).__module__.startswith("cuda") else f"\n   :value: {' '.join(repr(value).split())[:200]}"
    return f".. py:data:: {name}{shown}\n\n"


def public(module: ModuleType) -> list[str]:
    return [name for name in module.__all__ if not name.startswith("__")]


def core_page(sources: Sources) -> str:
    module = importlib.import_module("cuda.core")
    listed = [name for names in CORE.values() for name in names]
    missing, unknown = set(public(module)) - set(listed), set(listed) - set(public(module))
    if missing or unknown:
        raise SystemExit(f"docs/render/python_reference.py: not on the page: {missing}; not in cuda.core: {unknown}")
    out = heading("cuda.core") + ".. py:currentmodule:: cuda.core\n\n"
    for section, names in CORE.items():
        out += heading(section, "-")
        for name in names:
            out += entry(name, getattr(module, name), sources)
    return out


def module_page(name: str, text: str, sources: Sources) -> str:
    module = importlib.import_module(name)
    out = heading(name) + f".. py:currentmodule:: {name}\n\n{text}\n\n"
    for item in sorted(public(module)):
        out += entry(item, getattr(module, item), sources)
    return out


def prototype(function: Any) -> tuple[str, str]:
    """The C declaration of a function of the bindings, and the name in it; both empty where there is none."""
    text = (inspect.getdoc(function) or "").partition("\n")[0]
    found = re.match(r"[\w \*]+?\b(\w+)\(.*\)$", text)
    return (text, found[1]) if found else ("", "")


def bindings_module_page(name: str, body: list[ast.stmt]) -> str:
    """Every function of a module with its Python signature and its C declaration, and the names of its types."""
    module = importlib.import_module(f"cuda.bindings.{name}")
    out = heading(f"cuda.bindings.{name}") + f".. py:currentmodule:: cuda.bindings.{name}\n\n"
    out += heading("Functions", "-")
    for node in body:
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
            continue
        declaration, c_name = prototype(getattr(module, node.name, None))
        if c_name and c_name != node.name:
            out += f".. index:: single: {c_name} (cuda.bindings.{name}.{node.name})\n\n"
        out += f".. py:function:: {node.name}{signature(node, False)}\n\n"
        out += f"   C: ``{declaration}``\n\n" if declaration else ""
    types = [node.name for node in body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    if types:
        out += (
            heading("Types", "-")
            + "Enumerations, structures and handles, with the names and fields of the C headers.\n\n"
        )
        out += ", ".join(f"``{item}``" for item in sorted(types)) + "\n"
    return out


def bindings_pages(package: Path) -> dict[str, str]:
    """A page for each module of the bindings and one that leads to them, by the names of their files; from the rendered stubs."""
    out = heading("cuda.bindings")
    out += (
        "The C APIs, one Python function per C function, rendered from the facts in ``api/``. Functions of ``driver``, ``runtime``\n"
        "and ``nvrtc`` return a tuple whose first item is the result code; they raise no exception for it. Each of these three has a\n"
        "submodule ``raising`` with the same functions, which raise exceptions and return the values alone. The functions of the\n"
        "other modules always raise.\n\n"
    )
    rows, pages = [], {}
    for name in BINDINGS:
        path = package / f"{name}.pyi"
        body = ast.parse((path if path.exists() else package / name / "__init__.pyi").read_text()).body
        functions = [node for node in body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
        classes = [node for node in body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
        rows.append((f":doc:`cuda.bindings.{name} <cuda_bindings_{name}>`", str(len(functions)), str(len(classes))))
        pages[f"cuda_bindings_{name}.rst"] = bindings_module_page(name, body)
    out += table(("module", "functions", "types"), rows, "60 20 20")
    out += ".. toctree::\n   :hidden:\n\n" + "".join(f"   cuda_bindings_{name}\n" for name in BINDINGS)
    return {"cuda_bindings.rst": out, **pages}


def render(package: Path, folder: Path) -> None:
    """`package` is the folder that holds `cuda/` and `cucore/` as installed."""
    sources = Sources(package / "cuda" / "core")
    sources.found.update(Sources(package / "cuda" / "pathfinder").found)
    (folder / "cuda_core.rst").write_text(core_page(sources))
    for name, text in MODULES.items():
        (folder / (name.replace(".", "_") + ".rst")).write_text(module_page(name, text, sources))
    for name, text in bindings_pages(package / "cuda" / "bindings").items():
        (folder / name).write_text(text)
