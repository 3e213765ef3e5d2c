# SPDX-License-Identifier: Apache-2.0
"""Renders the type stubs of cuda.bindings from the rows of the extension module."""

from __future__ import annotations

import keyword
from collections.abc import Iterator

from bindings import RESULT_CLASSES, RESULTS, FunctionRow, ParamRow, Renderer
from bindings_facts import WRITTEN_BY_HAND
from bindings_types import ClassFacts, FieldFacts, PythonicTypes, Value

HEAD = """\
# Rendered from api/{library}.json: the types of {module}.
from collections.abc import Sequence
from typing import Any, ClassVar, SupportsIndex, SupportsInt
{imports}
_Int = SupportsInt | SupportsIndex

"""
HANDLE_METHODS = """\
    def __init__(self, init_value: Any = ..., _ptr: int = ...) -> None: ...
    def __int__(self) -> int: ...
    def __index__(self) -> int: ...
    def getPtr(self) -> int: ...
"""
NUMBERS = {"f32": "float", "f64": "float", "boolean": "bool", "address": "int", "kernel": "int", "text": "bytes",
           "chars": "bytes", "bytes": "bytes", "string": "str", "cstring": "str", "none": "None"}  # fmt: skip


class Stubs:
    def __init__(self, rows: Renderer) -> None:
        self.rows = rows
        self.types = rows.types
        self.pythonic = isinstance(rows.types, PythonicTypes)

    # ---- types --------------------------------------------------------------------------------------------------------------

    def cls(self, name: str) -> str:
        return name if name in self.types.classes else f"_driver.{name}"

    def returned(self, value: Value) -> str:
        if value.kind in ("enumeration", "handle", "record"):
            return self.cls(value.cls)
        return NUMBERS.get(value.kind, "int")

    def given(self, p: ParamRow) -> str:
        value = p.value
        match p.role:
            case "in" | "in_out" | "count" | "field":
                if value.kind == "enumeration":
                    return f"{self.cls(value.cls)} | int"
                if value.kind == "handle":
                    return f"{self.cls(value.cls)} | _Int | None"
                if value.kind == "record":
                    return self.cls(value.cls)
                return "float" if value.kind in ("f32", "f64") else "str | bytes" if value.kind == "string" else "_Int"
            case "in_pointer" if value.kind == "record":
                return f"{self.cls(value.cls)} | None"
            case "in_array":
                return "Sequence[Any] | None"
            case "text":
                return "bytes | str | None"
            case "text_array":
                return "Sequence[bytes | str] | None"
        return "Any"

    def outputs(self, row: FunctionRow) -> list[str]:
        made = []
        for p in row.params:
            if p.role in ("out", "in_out", "count", "result_field"):
                made.append(self.returned(p.value))
            elif p.role == "out_chars":
                made.append("str" if p.value.kind == "string" else "bytes")
            elif p.role in ("out_array", "out_counted", "out_owned", "out_asked"):
                whole = self.pythonic and p.value.kind == "record"
                made.append(self.returned(p.value) if whole else f"list[{self.returned(p.value)}]")
            elif p.role == "attribute_out":
                made.append("Any")
            elif p.role == "attributes_out":
                made.append("list[Any]")
        return made

    # ---- declarations -------------------------------------------------------------------------------------------------------

    def function(self, row: FunctionRow, raising: bool) -> str:
        f = row.function
        if f.python in WRITTEN_BY_HAND:
            return f"def {f.python}{WRITTEN_BY_HAND[f.python]}: ...\n"
        arguments = sorted((p for p in row.params if p.argument >= 0), key=lambda p: p.argument)
        texts = [f"{p.name}: {self.given(p)}" + (" = ..." if p.argument >= row.required else "") for p in arguments]
        outs = self.outputs(row)
        if "kNoResult" in row.flags:
            outs = [] if f.returns == "void" else [self.returned(self.types.value(f.returns))]
        if any(p.role == "fill" for p in row.params):
            outs = ["Any"]
        bare = raising or self.pythonic
        result = RESULT_CLASSES.get(self.rows.name) or RESULTS[self.rows.name]
        if bare:
            returns = "None" if not outs else outs[0] if len(outs) == 1 else f"tuple[{', '.join(outs)}]"
        elif outs == ["Any"]:
            returns = f"tuple[{result}, ...]"
        else:
            returns = f"tuple[{', '.join([result, *outs])}]"
        return f"def {f.python or f.name}({', '.join(texts)}) -> {returns}: ...\n"

    def class_(self, c: ClassFacts) -> str:
        if c.kind == "enumeration":
            if c.base:
                return f"{c.name} = {self.cls(c.base)}\n"
            members = "".join(
                f"    {name}: ClassVar[{c.name}]\n" for name, _ in c.members if not keyword.iskeyword(name)
            )
            return f"class {c.name}(FastEnum):\n{members or '    ...'}\n"
        base = f"({self.cls(c.base)})" if c.base else ""
        if c.kind != "record":
            more = "    def __cuda_stream__(self) -> tuple[int, int]: ...\n" if c.name == "CUstream" else ""
            return f"class {c.name}{base}:\n{HANDLE_METHODS}{more}"
        body = "" if c.base else "".join(self.field(f) for f in c.fields if not f.hidden)
        if self.pythonic:
            init = (
                "    def __init__(self, size: int = ...) -> None: ...\n    @property\n    def ptr(self) -> int: ...\n"
            )
            init += "    def __len__(self) -> int: ...\n    def __getitem__(self, index: int, /) -> Any: ...\n"
            init += "    def __setitem__(self, index: int, value: Any, /) -> None: ...\n"
            init += "    @classmethod\n    def from_ptr(cls, ptr: int, size: int = ..., readonly: bool = ..., owner: Any = ...) -> Any: ...\n"
            init += "    @classmethod\n    def from_buffer(cls, buffer: Any) -> Any: ...\n"
            init += "    @classmethod\n    def from_data(cls, data: Any) -> Any: ...\n"
        else:
            init = "    def __init__(self, _ptr: int = ...) -> None: ...\n    def getPtr(self) -> int: ...\n"
            if c.name.startswith("CUDA_MEMCPY_BATCH_NODE_PARAMS"):
                init += "    def set_dsts_srcs(self, dsts: Sequence[Any], srcs: Sequence[Any]) -> None: ...\n"
        return f"class {c.name}{base}:\n{init}{body}"

    def field(self, f: FieldFacts) -> str:
        kind = self.returned(f.value)
        if f.value.kind == "array":
            kind = f"list[{self.returned(f.element)}]" if f.element else "list[Any]"
        elif f.value.length and f.value.kind not in ("chars", "bytes", "string") and not f.count:
            kind = f"list[{kind}]"
        if f.name in ("str", "int", "bytes", "float", "list"):
            kind = "Any"  # the property hides the type's name
        if not f.name.isidentifier() or keyword.iskeyword(f.name):
            return ""
        return f"    @property\n    def {f.name}(self) -> {kind}: ...\n    @{f.name}.setter\n    def {f.name}(self, value: Any) -> None: ...\n"

    def render(self) -> str:
        module = f"cuda.bindings.{self.rows.name}"
        imports = "from cuda.bindings._fast_enum import FastEnum\n"
        if self.rows.name not in ("driver",) and not self.pythonic:
            imports += "from cuda.bindings import driver as _driver\n"
        parts = [HEAD.format(library=self.rows.name, module=module, imports=imports)]
        parts += [f"{name}: int\n" for name, _ in self.rows.constants()]
        parts += [self.class_(c) for c in self.ordered()]
        parts += [self.function(row, raising=False) for row in self.rows.functions]
        parts.append(MORE.get(self.rows.name, ""))
        return "".join(parts)

    def render_raising(self) -> str:
        module = f"cuda.bindings.{self.rows.name}"
        names = [*self.types.classes, *(name for name, _ in self.rows.constants())]
        shown = "".join(f"    {name} as {name},\n" for name in sorted(set(names)))
        imports = f"from {module} import (\n{shown})\n"
        if self.rows.name != "driver":
            imports += "from cuda.bindings import driver as _driver\n"
        head = HEAD.format(library=self.rows.name, module=f"{module}.raising", imports=imports)
        return (
            head
            + "class CUDABindingsError(RuntimeError):\n    code: Any\n    function: str\n    text: str\n"
            + "    def __init__(self, code: Any, function: str, text: str = ...) -> None: ...\n\n"
            + "".join(self.function(row, raising=True) for row in self.rows.functions)
        )

    def ordered(self) -> Iterator[ClassFacts]:
        """Sorts classes so that base classes precede derived ones."""
        done: set[str] = set()

        def visit(c: ClassFacts) -> Iterator[ClassFacts]:
            if c.name in done:
                return
            done.add(c.name)
            if c.base in self.types.classes:
                yield from visit(self.types.classes[c.base])
            yield c

        for c in self.types.classes.values():
            yield from visit(c)


SIZEOF = "def sizeof(objType: type) -> int: ...\n"
MORE = {
    "driver": SIZEOF,
    "nvrtc": SIZEOF,
    "runtime": SIZEOF
    + "def getLocalRuntimeVersion() -> tuple[cudaError_t, int]: ...\n"
    + "def make_cudaExtent(w: int, h: int, d: int) -> cudaExtent: ...\n"
    + "def make_cudaPos(x: int, y: int, z: int) -> cudaPos: ...\n"
    + "def make_cudaPitchedPtr(d: Any, p: int, xsz: int, ysz: int) -> cudaPitchedPtr: ...\n",
    **{
        library: f"class {error}(Exception):\n    status: Result\n    def __init__(self, status: Any) -> None: ...\n"
        "def check_status(status: int) -> None: ...\n"
        for library, error in {"nvjitlink": "nvJitLinkError", "nvvm": "nvvmError", "nvfatbin": "nvFatbinError"}.items()
    },
    "nvml": "class NvmlError(Exception):\n    status: Return\n    def __init__(self, status: Any) -> None: ...\n"
    "def __getattr__(name: str) -> Any: ...\ndef check_status(status: int) -> None: ...\n"
    "def check_status_size(status: int) -> None: ...\n",
    "cufile": "class cuFileError(Exception):\n    status: OpError\n    def __init__(self, status: Any, cu_err: Any = ...) -> None: ...\n"
    "def __getattr__(name: str) -> Any: ...\ndef check_status(status: int) -> None: ...\ndef op_status_error(status: int) -> str: ...\n",
}
