# SPDX-License-Identifier: Apache-2.0
"""Renders the tables of src/python/bindings (rows.hpp): functions, parameters, classes, fields, enum members.

Only data is rendered; the C++ engine implements each role once. codegen/README.md defines the roles.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from bindings_facts import (
    ASKED_COUNTS,
    ATTRIBUTES,
    CALLBACKS,
    FIELD_ALIASES,
    FILL_SIZES,
    OPTIONAL_ARGUMENTS,
    RECTANGLES,
    RESULT_FIELDS,
    SIZED_BUFFERS,
    module_name,
)
from bindings_types import BUILTIN, ClassFacts, FieldFacts, PythonicTypes, Types, Value, snake, split_pointer
from facts import Function, Library, Param

APIS = ("driver", "runtime", "nvrtc", "nvjitlink", "nvvm", "nvfatbin", "nvml", "cufile")
RENAMED = {"type": "typename", "input": "input_", "len": "length", "format": "pformat", "bytes": "numbytes"}
RESULT_CLASSES = {"nvjitlink": "Result", "nvvm": "Result", "nvfatbin": "Result", "nvml": "Return", "cufile": "OpError"}
RESULTS = {
    "driver": "CUresult", "runtime": "cudaError_t", "nvrtc": "nvrtcResult", "nvjitlink": "nvJitLinkResult",
    "nvvm": "nvvmResult", "nvfatbin": "nvFatbinResult", "nvml": "nvmlReturn_t",
}  # fmt: skip
IMAGES = {"image", "fatCubin", "code"}


def python_name(name: str) -> str:
    renamed = RENAMED.get(name, name)
    return renamed + "_" if keyword.iskeyword(renamed) else renamed


@dataclass
class ParamRow:
    name: str
    role: str
    value: Value
    argument: int = -1
    link: int = -1
    extra: str = "0"


@dataclass
class FunctionRow:
    function: Function
    params: list[ParamRow]
    arguments: int
    required: int
    flags: list[str] = field(default_factory=list)
    extras: int = 0


MakeRow = Callable[..., ParamRow]


class Text:
    """A string table: NUL-separated strings in one block. Calling it adds a string and returns its offset."""

    def __init__(self) -> None:
        self.offsets: dict[str, int] = {}
        self.size = 0

    def __call__(self, text: str) -> int:
        if text not in self.offsets:
            self.offsets[text] = self.size
            self.size += len(text) + 1
        return self.offsets[text]

    def render(self) -> str:
        return "\n".join(f'  "{t}\\0"' for t in self.offsets)


def element(types: Types, spelling: str, stars: int) -> Value:
    """The element type of a pointer with the given number of indirections."""
    base, have = split_pointer(spelling)
    if have > stars:
        if types.find(f"{base}_t") is not None and base not in types.classes:
            return Value("handle", f"{base}_t")  # cudaGraphicsResource **
        return Value("text" if base == "char" else "address")
    if base == "void":
        return Value("address")
    if base == "char":
        return Value("chars")
    return types.value(base)


def argument_name(types: Types, name: str) -> str:
    return snake(name) if isinstance(types, PythonicTypes) else python_name(name)


def param_row(types: Types, function: Function, index: int) -> ParamRow:
    p = function.params[index]
    names = [q.name for q in function.params]
    base, stars = split_pointer(p.type)
    link = names.index(p.count) if p.count in names else -1
    fixed = p.count if p.count.isdigit() else "0"
    if link < 0 and "-" in p.count and p.count.split("-")[0] in names:
        count, fixed = p.count.split("-")  # the array has this many elements less than the count
        link = names.index(count)
    name = argument_name(types, p.name)

    def row(role: str, value: Value, extra: str = "0") -> ParamRow:
        return ParamRow(name, role, value, -1, link, extra)

    made = special_row(types, function, p, names, row)
    if made is None and isinstance(types, PythonicTypes):
        made = pythonic_row(types, function, p, names, row)
    return made or plain_row(types, p, base, stars, fixed, row)


def special_row(types: Types, function: Function, p: Param, names: list[str], row: MakeRow) -> ParamRow | None:
    """Rows of roles that depend on the function or on another parameter."""
    key = f"{function.name}.{p.name}"
    if p.role == "out_attribute" and p.count not in names:
        return row("out", Value("address"))
    if p.role == "out_array" and key in ASKED_COUNTS:
        return row("out_asked", element(types, p.type, 1), f"F_{ASKED_COUNTS[key]}")
    if p.role in ("in_attribute", "out_attribute", "out_attributes", "option_values"):
        key_type = function.params[names.index(p.count)].type if p.count in names else ""
        enum = split_pointer(key_type)[0]
        role = {"in_attribute": "attribute_in", "out_attribute": "attribute_out", "out_attributes": "attributes_out",
                "option_values": "options"}[p.role]  # fmt: skip
        after = names[names.index(p.name) + 1 :][:1]
        sized = p.role.startswith("out") and after in (["dataSize"], ["dataSizes"])
        return row(role, Value("u64" if sized else "address"), f"{attribute_table(types.library.name, enum)}")
    if p.role == "callback":
        value = Value("handle", split_pointer(p.type)[0]) if types.find(p.type) else Value("address")
        shape = CALLBACKS.get(key) or CALLBACKS.get(p.type, "other")
        return row("callback", value, f"shape(CallbackShape::{shape})")
    if p.role == "user_data" or key in ("cuUserObjectCreate.ptr", "cudaUserObjectCreate.ptr"):
        return row("user_data", Value("address"))
    if key in FILL_SIZES:
        return row("fill", Value("chars"), f"F_{FILL_SIZES[key]}")
    if p.role == "in_string" and key in SIZED_BUFFERS:
        made = row("image", Value("address"))
        made.link = names.index(SIZED_BUFFERS[key])
        return made
    if p.role == "implied" and any(q.role.endswith("attribute") for q in function.params):
        made = row("size_of", Value("u64"))
        made.link = next(i for i, q in enumerate(function.params) if q.role.endswith("attribute"))
        return made
    if key in RECTANGLES:
        pitch, width, height = (names.index(n) for n in RECTANGLES[key].split())
        return row("in_void", Value("address"), str(1 | pitch << 1 | width << 6 | height << 11))
    if key in SIZED_BUFFERS:
        image = p.name in IMAGES or types.library.name in RESULT_CLASSES
        made = row(
            "image" if image else "in_void" if p.type.startswith("const") or p.role == "in_buffer" else "out_void",
            Value("address"),
        )
        made.link = names.index(SIZED_BUFFERS[key])
        return made
    return None


ROOM = 256  # strings whose length NVML takes as an argument


def pythonic_row(types: PythonicTypes, function: Function, p: Param, names: list[str], row: MakeRow) -> ParamRow | None:
    """Rows of modules that rename: implied arguments are computed, strings are str, arguments may form a struct."""
    base, stars = split_pointer(p.type)
    if p.role == "out_string" and stars == 1:
        made = row("out_chars", Value("string"), p.count if p.count.isdigit() else str(ROOM))
        made.link = (
            names.index(p.count) if p.count in names and function.params[names.index(p.count)].role == "in" else -1
        )
        return made
    if p.role == "implied":
        target = next((i for i, q in enumerate(function.params) if q.role == "struct_address"), -1)
        if target >= 0:
            made = row("elements", Value("u64"))
            made.link = target
            return made
        array = next((q for q in function.params if q.role == "out_array" and q.count == p.name), None)
        if array is not None:  # NVML_MAX_GPU_PERF_PSTATES elements; the size is in bytes
            return row("constant", Value("u64"), f"16 * sizeof({split_pointer(array.type)[0]})")
        return row("constant", Value("u64"), str(ROOM))
    if p.role == "inout_size":  # size of the string or of the named struct
        sized = next((q for q in function.params if q.name == p.count), None)
        return row(
            "asked", element(types, p.type, 1), f"sizeof({split_pointer(sized.type)[0]})" if sized else str(ROOM)
        )
    if p.role == "out_array" and function.params[names.index(p.count)].role == "implied":
        made = row("out_array", types.value(base), "16")
        made.link = -1
        return made
    if p.role == "in_ref":
        return row("in_pointer", Value("u64"))
    if p.role == "in_array" and base != "char":
        return row("in_array", types.value(base))
    if stars == 1 and base not in ("void", "char") and p.role in ("out", "in_struct"):
        value = types.value(base)
        if value.kind == "record" and (function.python_args or RESULT_FIELDS.get(function.python)):
            returned = function.python not in RESULT_FIELDS and p.role == "out" and "_get_" in function.python
            return row("out" if returned else "compose", value)
    return None


def composed_rows(types: PythonicTypes, function: Function, params: list[ParamRow]) -> list[ParamRow]:
    """Rows of arguments that become fields of a struct, and of the field that is returned."""
    index = next((i for i, p in enumerate(params) if p.value.kind == "record" and p.role in ("compose", "out")), -1)
    if index < 0:
        return []
    struct = types.classes[params[index].value.cls]
    by_name = {plain(f.name): f for f in struct.fields}
    rows = []
    for argument in function.python_args:
        if any(p.name == argument and p.role not in OUTPUT_ROLES for p in params):
            continue
        f = by_name.get(plain(argument)) or by_name.get(plain(FIELD_ALIASES.get(f"{function.python}.{argument}", "")))
        if f is None:
            raise ValueError(f"{function.python}: no field for {argument}")
        value = Value("string", "", 41) if f.value.kind == "record" else f.value  # nvmlUUID_t: its text
        rows.append(ParamRow(argument, "field", value, 0, index, str(f.offset)))
    wanted = RESULT_FIELDS.get(function.python)
    if wanted:
        f = by_name[plain(wanted)]
        rows.append(ParamRow(wanted, "result_field", f.value, -1, index, str(f.offset)))
    return rows


def plain(name: str) -> str:
    return name.replace("_", "").lower()


def plain_row(types: Types, p: Param, base: str, stars: int, fixed: str, row: MakeRow) -> ParamRow:
    match p.role:
        case "in":
            if stars and base == "char":
                return row("text", Value("chars"))
            return row("in", types.value(p.type) if not stars else Value("address"))
        case "in_string":
            return row("text", Value("chars"))
        case "in_buffer":
            return row("image" if p.name in IMAGES else "in_void", Value("address"))
        case "fill_buffer":
            return row("out_void", Value("address"))
        case "in_struct" | "inout_struct" | "in_ref":
            return row("in_pointer", element(types, p.type, 1))
        case "in_array":
            if base == "char" and stars == 2:
                return row("text_array", Value("text"))
            return row("in_array", element(types, p.type, 1), fixed)
        case "kernel_params":
            return row("kernel", Value("kernel"))
        case "out":
            return row("out", element(types, p.type, 1))
        case "out_string":
            if stars == 2:
                return row("out", Value("text"))
            return row("out_chars", Value("bytes" if fixed != "0" else "chars"), fixed)
        case "out_buffer":
            return row("out", Value("u64") if base == "void" else element(types, p.type, 1))
        case "out_array":
            owned = stars == 2 and base != "void"
            return row("out_owned" if owned else "out_array", element(types, p.type, 2 if owned else 1), fixed)
        case "inout":
            return row("in_pointer" if base != "void" else "in_void", element(types, p.type, 1))
        case "inout_count":
            return row("count", element(types, p.type, 1))
        case "address" | "struct_address":
            return row("in_void", Value("address"))
        case "implied":
            return row("null", Value("none"))
    raise ValueError(f"{p.name}: unknown role {p.role!r}")


OUTPUT_ROLES = {
    "asked",
    "constant",
    "elements",
    "compose",
    "result_field",
    "out",
    "out_asked",
    "out_chars",
    "out_array",
    "out_counted",
    "out_owned",
    "attribute_out",
    "attributes_out",
    "null",
    "size_of",
}
RETURNED_INOUT = {"cuThreadExchangeStreamCaptureMode.mode", "cudaThreadExchangeStreamCaptureMode.mode",
                  "cuLogsDumpToFile.iterator", "cudaLogsDumpToFile.iterator", "cuLogsDumpToMemory.iterator",
                  "cudaLogsDumpToMemory.iterator"}  # fmt: skip


def function_row(types: Types, function: Function) -> FunctionRow:
    params = [param_row(types, function, i) for i in range(len(function.params))]
    names = [p.name for p in function.params]
    for p, c in zip(params, function.params, strict=True):
        if c.role == "out_array" and c.count in names and params[names.index(c.count)].role == "count":
            counter = function.params[names.index(c.count)]
            required = not isinstance(types, PythonicTypes) and counter.name in required_counts(function)
            p.role = p.role if p.role == "out_owned" else "out_counted"
            if p.role == "out_owned":
                params[names.index(c.count)].role = "out"
            elif required:
                params[names.index(c.count)].role = "in_out"
        if f"{function.name}.{c.name}" in RETURNED_INOUT:
            p.role = "in_out"
    extras: list[ParamRow] = []
    call_twice = False
    if isinstance(types, PythonicTypes):
        extras = composed_rows(types, function, params)
        for p in params:
            if p.role == "count":
                p.role = "asked"
                call_twice = True
        if function.python_args and len(function.python_args) == sum(p.role not in OUTPUT_ROLES for p in params):
            for p, wanted in zip((p for p in params if p.role not in OUTPUT_ROLES), function.python_args, strict=True):
                p.name = wanted
    params += extras
    arguments = [p for p in params if p.role not in OUTPUT_ROLES]
    for position, p in enumerate(arguments):
        p.argument = position
    optional = 0
    for p in reversed(arguments):
        if p.role != "count":
            break
        optional += 1
    optional = OPTIONAL_ARGUMENTS.get(function.python, optional)
    row = FunctionRow(function, params, len(arguments), len(arguments) - optional, extras=len(extras))
    if call_twice:
        row.flags.append("kCallTwice")
    if function.blocks:
        row.flags.append("kBlocking")
    if function.name == "cuCtxCreate":
        row.flags.append("kLegacyContext")
    if function.returns == "CUfileError_t":
        row.flags.append("kStatusRecord")
    elif function.returns not in RESULTS.values():
        row.flags.append("kNoResult")
    return row


def required_counts(function: Function) -> set[str]:
    return {"nbGroups", "count"} & {p.name for p in function.params if p.role == "inout_count"}


def attribute_table(library: str, enum: str) -> int:
    tables = sorted(ATTRIBUTES.get(library, {}))
    return tables.index(enum) + 1 if enum in tables else 0


class Renderer:
    """Renders the rows of one library."""

    def __init__(self, library: Library, types: Types, all_types: dict[str, Types]) -> None:
        self.library = library
        self.name = library.name
        self.types = types
        self.all_types = all_types
        self.text = Text()
        self.text("")
        self.functions = [function_row(types, f) for f in self.chosen_functions()]
        self.class_names = list(types.classes)

    def chosen_functions(self) -> Iterable[Function]:
        renames = isinstance(self.types, PythonicTypes)
        return [f for f in self.library.functions.values() if f.python or not renames]

    def type_id(self, cls: str) -> str:
        if not cls:
            return "kNoType"
        for name, types in self.all_types.items():
            if cls in types.classes and (name == self.name or cls not in self.types.classes):
                return str((list(self.all_types).index(name) << 12) | list(types.classes).index(cls))
        raise KeyError(f"{self.name}: {cls}")

    def signature(self, f: Function) -> str:
        """The C type of a function. The ABI header does not declare a later one, nor its structs."""
        if not f.later:
            return f"std::remove_pointer_t<decltype(&{f.name})>"
        types = []
        for p in f.params:
            base, stars = split_pointer(p.type)
            known = base in BUILTIN or not stars
            cls = self.types.find(base) if not stars else None
            types.append("int" if cls and cls.kind == "enumeration" else p.type if known else "void *")
        return f"{f.returns}({', '.join(types)})"

    def prototype(self, f: Function) -> str:
        return f"{f.returns} {f.name}({', '.join(declare(p.type, p.name) for p in f.params) or 'void'})"

    def render(self) -> str:
        param_lines: list[str] = []
        function_lines: list[str] = []
        for row in self.functions:
            f = row.function
            first = len(param_lines)
            for p in row.params:
                param_lines.append(
                    f"  {{{self.text(p.name)}, Role::{p.role}, Kind::{p.value.kind}, {self.type_id(p.value.cls)}, "
                    f"{p.argument}, {p.link}, {p.extra}}},  // {f.name}.{p.name}"
                    if p.role not in ("field", "result_field") or p.value.kind not in ("string", "bytes")
                    else f"  {{{self.text(p.name)}, Role::{p.role}, Kind::{p.value.kind}, {p.value.length}, "
                    f"{p.argument}, {p.link}, {p.extra}}},"
                )
            returns, returns_type = "none", "kNoType"
            if "kNoResult" in row.flags:
                value = Value("none") if f.returns == "void" else self.types.value(f.returns)
                if value.kind == "text" and isinstance(self.types, PythonicTypes):
                    value = Value("cstring")
                returns, returns_type = value.kind, self.type_id(value.cls)
            function_lines.append(
                f"  {{{self.text(f.python or f.name)}, {self.text(f.symbol if f.python else f.name)}, {self.text(self.prototype(f))}, {first}, {len(row.params) - row.extras}, {row.extras}, "
                f"{row.arguments}, {row.required}, {' | '.join(row.flags) or '0'}, {'kNoSlot' if f.later else f'SLOT({f.name})'}, "
                f"Kind::{returns}, {returns_type}, &Caller<{self.signature(f)}>::invoke}},"
            )
        type_lines, field_lines, member_lines = self.type_rows()
        constants = self.constant_rows()
        attributes = self.attribute_rows()
        names = self.name_rows()
        fills = "".join(f"constexpr std::uint16_t F_{n} = {i};\n" for i, n in enumerate(r.function.name for r in self.functions)
                        if n in (*FILL_SIZES.values(), *ASKED_COUNTS.values()))  # fmt: skip
        result = RESULT_CLASSES.get(self.name) or RESULTS[self.name]
        title = self.name.capitalize()
        sections = [
            f"// {self.name}_rows.cpp: rows of {module_name(self.name)}. Rendered from api/{self.name}.json.",
            f'#include "{self.name}_entry.hpp"',
            "",
            '#pragma GCC diagnostic ignored "-Woverlength-strings"',
            '#pragma GCC diagnostic ignored "-Wdeprecated-declarations"',
            "namespace cucore::bindings {\nnamespace {",
            fills,
            table("ParamRow kParams", param_lines),
            table("FunctionRow kFunctions", function_lines),
            table("FieldRow kFields", field_lines),
            table("MemberRow kMembers", member_lines),
            table("TypeRow kTypes", type_lines),
            table("ConstantRow kConstants", constants),
            table("AttributeRow kAttributes", attributes),
            table("NameRow kNames", names),
            f"constexpr char kText[] =\n{self.text.render()};",
            "}  // namespace\n",
            f"extern const Api k{title}Api = {{",
            f'  "{module_name(self.name)}", kText, kFunctions, kParams, kTypes, kFields, kMembers, kConstants, kAttributes, kNames,',
            f"  {len(function_lines)}, {len(type_lines)}, {len(constants)}, {len(attributes)}, {len(names)}, "
            f"{self.type_id(result)}, {int(self.name in RESULT_CLASSES)}, resolve}};",
            "}  // namespace cucore::bindings\n",
        ]
        return "\n".join(sections)

    def type_rows(self) -> tuple[list[str], list[str], list[str]]:
        fields: list[str] = []
        members: list[str] = []
        spans: dict[str, tuple[int, int]] = {}  # class -> index of its first field or member, and their number
        for name in self.class_names:
            c = self.types.classes[name]
            if c.kind == "enumeration":
                spans[name] = (len(members), len(c.members))
                members += [f"  {{{self.text(n)}, {signed(v)}}}," for n, v in c.members]
            elif self.owner(c) is c:
                spans[name] = (len(fields), len(c.fields))
                names = [f.name for f in c.fields]
                fields += [self.field_row(c.name, f, names, c.fields) for f in c.fields]
        lines = []
        for name in self.class_names:
            c = self.types.classes[name]
            first, count = spans[name] if name in spans else spans[self.owner(c).name]
            lines.append(
                f"  {{{self.text(name)}, TypeClass::{c.kind}, {int(c.unsigned) or c.version}, {c.size}, {self.type_id(c.base)}, "
                f"{self.type_id(c.root)}, {first}, {count}}},  // {name}"
            )
        return lines, fields, members

    def owner(self, c: ClassFacts) -> ClassFacts:
        """The class that defines the fields of an alias."""
        while c.base and c.kind == "record":
            c = self.types.classes[c.base]
        return c

    def field_row(self, owner: str, f: FieldFacts, names: list[str], fields: list[FieldFacts]) -> str:
        flags = "0"
        link = -1
        if f.value.kind == "array":
            assert f.element is not None
            flags = f"static_cast<unsigned>(Kind::{f.element.kind}) << 3"
            link = names.index(f.count) if f.count in names else -1
        elif f.callback:
            flags, link = "kCallback", names.index(f.callback)
        elif f.user_data:
            flags = "kUserData"
        elif f.count:
            flags, link = "kCounted", names.index(f.count)
        elif f.hidden:
            flags = "kHidden"
        elif any(o.count == f.name for o in fields):
            flags = "kCountsArray"
        return (
            f"  {{{self.text(f.name)}, {f.offset}, Kind::{f.value.kind}, {flags}, {self.type_id(f.value.cls)}, "
            f"{f.value.length}, {link}}},  // {owner}.{f.name}"
        )

    def constants(self) -> Iterable[tuple[str, int]]:
        """Names and numbers of constants. A pointer constant ((CUstream)0x1) is its number; text constants are skipped."""
        for constant in self.library.constants.values():
            name = constant.name
            if isinstance(self.types, PythonicTypes):
                short = re.sub(r"^(NVML|CUFILE|NVJITLINK)_", "", name)
                name = short if short.isidentifier() else name
            if isinstance(constant.value, int):
                yield name, constant.value
            elif match := re.fullmatch(r"\(?\((?:\w+ ?\*?)\)\s*(0[xX][0-9a-fA-F]+|\d+)\)?", constant.value.strip()):
                yield name, int(match[1], 0)

    def constant_rows(self) -> list[str]:
        rows = []
        for name, value in self.constants():
            suffix = "ULL" if value > 0x7FFFFFFFFFFFFFFF else "LL"
            rows.append(f"  {{{self.text(name)}, static_cast<std::int64_t>({value}{suffix}), kNoType}},")
        return rows

    def attribute_rows(self) -> list[str]:
        rows = []
        for table_index, enum in enumerate(sorted(ATTRIBUTES.get(self.name, {})), start=1):
            cls = self.types.classes[self.types.enum_names.get(enum, enum)]
            values = dict(self.types.classes[cls.root].members)
            entries = []
            for member, spelling in ATTRIBUTES[self.name][enum].items():
                length = 0
                if spelling.startswith("char["):
                    length = int(spelling[5:-1])
                    value = Value("chars")
                elif spelling.endswith("[]"):
                    length = 0xFFFF  # kAsManyAsFit
                    value = self.types.value(spelling[:-2])
                elif spelling in ("bool", "bool[1]"):
                    length = 1 if spelling.endswith("]") else 0
                    value = Value("boolean")
                elif spelling == "void *":
                    value = Value("address")
                else:
                    value = self.types.value(spelling)
                if member in values:
                    entries.append((values[member], value, length, member))
            for number, value, length, member in sorted(entries, key=lambda e: e[0]):
                rows.append(
                    f"  {{{table_index}, Kind::{value.kind}, {self.type_id(value.cls)}, {number}, {length}}},  // {member}"
                )
        return rows

    def name_rows(self) -> list[str]:
        entries: dict[str, tuple[str, int]] = {}
        for i, (constant, _) in enumerate(self.constants()):
            entries[constant] = ("constant", i)
        for i, name in enumerate(self.class_names):
            entries[name] = ("type", i)
        for i, row in enumerate(self.functions):
            entries[row.function.python or row.function.name] = ("function", i)
        return [
            f"  {{{self.text(n)}, Entry::{e}, {i}}},"
            for n, (e, i) in sorted(entries.items(), key=lambda x: x[0].encode())
        ]


def signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def declare(type_: str, name: str) -> str:
    return f"{type_}{name}" if type_.endswith("*") else f"{type_} {name}"


def table(declaration: str, rows: list[str]) -> str:
    kind, name = declaration.split()
    body = "\n".join(rows) if rows else "  {}"
    return f"constexpr {kind} {name}[] = {{\n{body}\n}};\n"


def all_types(libraries: dict[str, Library]) -> dict[str, Types]:
    types: dict[str, Types] = {}
    for name in APIS:
        if name in libraries:
            kind = PythonicTypes if name in RESULT_CLASSES else Types
            types[name] = kind(libraries[name], types.get("driver"))
    return types


def render_rows(libraries: dict[str, Library], name: str) -> str:
    types = all_types(libraries)
    return Renderer(libraries[name], types[name], types).render()


__all__ = ["APIS", "render_rows"]
