# SPDX-License-Identifier: Apache-2.0
"""Maps C types to Python classes: the class names of one library and their layout.

A class comes from an enum, from a struct or union (and from each typedef of it, as a derived class), from a typedef of a
pointer to an opaque struct (a handle), of an integer (CUdevice) or of a function pointer (CUhostFn).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from bindings_facts import ANONYMOUS_NAMES, COUNTED_ARRAYS
from facts import Field, Library, Record

BUILTIN = {
    "char": "i8", "signed char": "i8", "unsigned char": "u8", "short": "i16", "unsigned short": "u16",
    "int": "i32", "unsigned int": "u32", "unsigned": "u32", "long": "i64", "unsigned long": "u64",
    "long long": "i64", "unsigned long long": "u64", "size_t": "u64", "ssize_t": "i64", "off_t": "i64",
    "int8_t": "i8", "uint8_t": "u8", "int16_t": "i16", "uint16_t": "u16", "int32_t": "i32", "uint32_t": "u32",
    "int64_t": "i64", "uint64_t": "u64", "float": "f32", "double": "f64", "bool": "u8", "_Bool": "u8", "loff_t": "i64",
}  # fmt: skip
SIZES = {"i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "f32": 4, "i64": 8, "u64": 8, "f64": 8}
HIDDEN_FIELD = re.compile(r"reserved\d*|padding\d*|_\w+|unused|rsvd\d*")
# Their reserved field is all that they have: programs send its bytes to other processes.
SHOWN_RESERVED = (
    "nvmlMemory_v2_st",
    "CUipcMemHandle_st",
    "CUipcEventHandle_st",
    "cudaIpcMemHandle_st",
    "cudaIpcEventHandle_st",
)
ANONYMOUS = re.compile(r"anon_(struct|union)\d+")


@dataclass(frozen=True)
class Value:
    """A C value of the bindings engine: its Kind, and its class if the kind has one."""

    kind: str
    cls: str = ""
    length: int = 0


@dataclass
class FieldFacts:
    name: str
    offset: int
    value: Value
    element: Value | None = None  # element type of a pointer
    count: str = ""  # the field with the number of elements, also of a fixed array
    callback: str = ""  # the field with the user data of this function pointer
    user_data: bool = False
    unsigned: bool = False  # an array of unsigned char, which is never text
    hidden: bool = False  # not shown in Python: the number of elements in use of an array


@dataclass
class ClassFacts:
    name: str
    kind: str  # enumeration, handle, record, integer, function
    size: int = 8
    base: str = ""
    root: str = ""
    fields: list[FieldFacts] = field(default_factory=list)
    members: tuple[tuple[str, int], ...] = ()
    version: int = 0  # NVML: the version number in the first field of a new record
    unsigned: bool = False  # integers


def strip(spelling: str) -> str:
    """A type without const, struct, enum and union."""
    return " ".join(w for w in spelling.split() if w not in ("const", "struct", "enum", "union", "volatile"))


def split_pointer(spelling: str) -> tuple[str, int]:
    text = strip(spelling.replace("*", " * "))
    return text.replace("*", "").strip(), text.count("*")


class Types:
    """The classes of one library. `other` is the library whose classes it derives from (runtime from driver)."""

    def __init__(self, library: Library, other: Types | None = None, renames: dict[str, str] | None = None) -> None:
        self.library = library
        self.other = other
        self.renames = renames or {}
        self.classes: dict[str, ClassFacts] = {}
        self.enum_names: dict[str, str] = {}  # tag -> class
        self.anonymous = {"struct": 0, "union": 0}
        self._make_enums()
        self._make_typedefs()
        self._make_records()

    # ---- lookup -----------------------------------------------------------------------------------------------------------

    def value(self, spelling: str) -> Value:
        """The value of a non-pointer type spelling."""
        name, stars = split_pointer(spelling)
        if "(*" in spelling:
            return Value("address")
        if stars:
            if name == "char" and stars == 1:
                return Value("text")
            return Value("address")
        if name in BUILTIN:
            return Value(BUILTIN[name])
        name = self.enum_names.get(name, name)
        found = self.find(name)
        if found is None:
            raise KeyError(f"{self.library.name}: no class for {spelling!r}")
        kind = {"enumeration": "enumeration", "record": "record"}.get(found.kind, "handle")
        return Value(kind, name)

    def find(self, name: str) -> ClassFacts | None:
        if name in self.classes:
            return self.classes[name]
        return self.other.find(name) if self.other else None

    def size(self, value: Value) -> int:
        if value.kind in ("handle", "record"):
            found = self.find(value.cls)
            assert found is not None
            return found.size
        return SIZES.get(value.kind, 4 if value.kind in ("enumeration", "boolean") else 8)

    # ---- making -----------------------------------------------------------------------------------------------------------

    def _make_enums(self) -> None:
        names: dict[str, str] = {}
        for typedef in self.library.typedefs.values():
            match = re.fullmatch(r"enum (\w+)", typedef.type)
            if match:
                names.setdefault(match[1], typedef.name)
        for enum in self.library.enums.values():
            name = names.get(enum.name, enum.name)
            self.enum_names[enum.name] = name
            self.classes[name] = ClassFacts(name, "enumeration", 4, root=name, members=enum.values)

    def _make_typedefs(self) -> None:
        tags = self._handle_tags(self.other) if self.other else {}
        pending = [t for t in self.library.typedefs.values() if t.name not in self.classes and not t.older]
        while pending:
            later = [t for t in pending if not self._make_typedef(t.name, t.type, tags)]
            if len(later) == len(pending):
                break  # typedefs of records, and of types that no function uses
            pending = later
        self._share_roots()

    def _share_roots(self) -> None:
        """Handles of one opaque struct are interchangeable: a cudaArray_const_t is a cudaArray_t."""
        groups: dict[str, list[ClassFacts]] = {}
        for typedef in self.library.typedefs.values():
            target, stars = split_pointer(typedef.type)
            found = self.classes.get(typedef.name)
            if stars == 1 and found is not None and found.kind == "handle" and target != "void":
                groups.setdefault(target, []).append(found)
        for group in groups.values():
            root = next((c.root for c in group if c.root != c.name), None)
            root = root or next((c.name for c in group if "const" not in c.name), group[0].name)
            for c in group:
                c.root = root

    @staticmethod
    def _handle_tags(types: Types) -> dict[str, str]:
        """Opaque struct -> handle class."""
        tags: dict[str, str] = {}
        for typedef in types.library.typedefs.values():
            match = re.fullmatch(r"struct (\w+) \*", typedef.type)
            if match and typedef.name in types.classes:
                tags.setdefault(match[1], typedef.name)
        return tags

    def _make_typedef(self, name: str, type_: str, tags: dict[str, str]) -> bool:
        if "(*" in type_:
            self.classes[name] = ClassFacts(name, "function", 8, root=name)
            return True
        target, stars = split_pointer(type_)
        if stars == 1 and target not in self.library.records:
            base = tags.get(target, "")
            found = self.other.find(base) if base and self.other else None
            self.classes[name] = ClassFacts(name, "handle", 8, base, found.root if found else name)
            return True
        if stars:
            self.classes[name] = ClassFacts(name, "handle", 8, "", name)
            return True
        if target in BUILTIN:
            kind = BUILTIN[target]
            self.classes[name] = ClassFacts(name, "integer", SIZES[kind], root=name, unsigned=kind.startswith("u"))
            return True
        if type_.startswith("enum ") or target in self.enum_names:
            enum = self.enum_names.get(target, target)
            if enum != name:
                self.classes[name] = ClassFacts(name, "enumeration", 4, base=enum, root=enum)
            return True
        found = self.classes.get(target)
        if found is None or found.kind == "record":
            return False
        if found.kind == "enumeration":
            self.classes[name] = ClassFacts(name, "enumeration", 4, base=target, root=found.root)
        else:  # CUdevice is a separate int class, not derived from CUdevice_v1; both are equivalent
            self.classes[name] = ClassFacts(name, found.kind, found.size, root=found.root, unsigned=found.unsigned)
        return True

    def _make_records(self) -> None:
        chain: dict[str, str] = {}
        for typedef in self.library.typedefs.values():
            target, stars = split_pointer(typedef.type)
            if not stars and "(*" not in typedef.type and target not in BUILTIN and typedef.name != target:
                chain[typedef.name] = target
        for record in self.library.records.values():
            if not record.older:
                self.classes[record.name] = ClassFacts(record.name, "record", record.size, root=record.name)
        grew = True
        while grew:
            grew = False
            for name, target in chain.items():
                found = self.classes.get(target)
                if name not in self.classes and found is not None and found.kind == "record":
                    self.classes[name] = ClassFacts(name, "record", found.size, base=target, root=found.root)
                    grew = True
        for record in self.library.records.values():
            if not record.older:
                self.classes[record.name].fields = self._fields(record.fields, 0, record.name)

    def _fields(self, fields: tuple[Field, ...], shift: int, owner: str) -> list[FieldFacts]:
        made: list[FieldFacts] = []
        for item in fields:
            if not item.name:  # members of an anonymous union are members of the record
                if item.record is not None:
                    made += self._fields(item.record.fields, shift + item.offset, owner)
                continue
            if (HIDDEN_FIELD.fullmatch(item.name) and owner not in SHOWN_RESERVED) or (
                item.name == "pad" and owner.lower().endswith("launchattribute_st")
            ):
                continue
            if item.bits:
                continue
            made.append(self._field(item, shift, owner))
        self._link(made)
        return made

    def _field(self, item: Field, shift: int, owner: str) -> FieldFacts:
        offset = shift + item.offset
        if item.record is not None:
            name = self._record_class(item.record)
            length = 1
            for n in item.array:
                length *= n
            return FieldFacts(item.name, offset, Value("record", name, length if item.array else 0))
        if "(*" in item.type:
            return FieldFacts(item.name, offset, Value("address"))
        spelling, length = item.type, 1
        extents = re.search(r"((?:\[\d+\])+)$", spelling)
        if extents:
            for n in re.findall(r"\d+", extents[1]):
                length *= int(n)
            spelling = spelling[: extents.start()].strip()
        base, stars = split_pointer(spelling)
        if extents and not stars and base in ("char", "signed char", "unsigned char"):
            text = base == "char" and length >= 32 and item.name not in ("data", "opaque", "reserved")
            value = Value("chars" if text else "bytes", "", length)
            return FieldFacts(item.name, offset, value, unsigned=base == "unsigned char")
        if stars:
            return self._pointer_field(item.name, offset, base, stars, length if extents else 0)
        value = self.value(base)
        return FieldFacts(item.name, offset, Value(value.kind, value.cls, length if extents else 0))

    def _pointer_field(self, name: str, offset: int, base: str, stars: int, length: int) -> FieldFacts:
        if base == "void" and stars == 2 and name == "kernelParams":
            return FieldFacts(name, offset, Value("kernel"))
        if base == "void" and stars == 2 and name in ("dsts", "srcs"):
            return FieldFacts(name, offset, Value("array"), Value("address"))
        if base == "char" and stars == 1 and not length:
            return FieldFacts(name, offset, Value("text"))
        if base != "void" and stars == 1 and not length:
            try:
                element = self.value(base)
            except KeyError:
                return FieldFacts(name, offset, Value("address"))
            return FieldFacts(name, offset, Value("array", element.cls), element)
        return FieldFacts(name, offset, Value("address", "", length))

    def _record_class(self, record: Record) -> str:
        if record.name:
            name = record.name
        else:
            name = self._anonymous_name(record)
        if name not in self.classes:
            self.classes[name] = ClassFacts(name, "record", record.size, root=name)
            self.classes[name].fields = self._fields(record.fields, 0, name)
        return name

    def _anonymous_name(self, record: Record) -> str:
        """The first unused released name of a record with these fields, else a new numbered name."""
        fields = " ".join(sorted(f.name for f in record.fields if f.name and not HIDDEN_FIELD.fullmatch(f.name)))
        for name, known in ANONYMOUS_NAMES.get(self.library.name, {}).items():
            if (
                name not in self.classes
                and name.startswith(f"anon_{record.kind}")
                and " ".join(sorted(known.split())) == fields
            ):
                return name
        self.anonymous[record.kind] += 1
        return f"anon_{record.kind}{100 + self.anonymous[record.kind]}"

    def _link(self, fields: list[FieldFacts]) -> None:
        """Links each pointer to its element count and each callback to its user data."""
        names = {f.name for f in fields}
        for item in fields:
            if item.value.kind == "array":
                short = item.name.lower()
                wanted = ("numAttrs", "numParams", "numExtSems", "count", "accessDescCount", "numExecAffinityParams",
                          "gpuPairsCount", "size", "numCigParams")  # fmt: skip
                options = [w for w in wanted if w in names]
                options += [n for n in names if n.lower() in (f"num{short}", f"{short}count", f"n{short}")]
                if options and item.name not in ("nextResource", "cigParams", "dstActBytes", "streamCigParams"):
                    item.count = next((o for o in options if o == "numAttrs" and item.name == "attrs"), options[0])
                if item.name in ("dsts", "srcs", "sizes") and "count" in names:
                    item.count = "count"
                if item.name == "opList" and "numOps" in names:
                    item.count = "numOps"
            if item.value.cls in ("CUhostFn", "cudaHostFn_t", "cudaGraphRecaptureCallback_t") and "userData" in names:
                item.callback = "userData"
            item.user_data = item.name == "userData"


def snake(name: str) -> str:
    """pciInfo -> pci_info, gpuIndex -> gpu_index."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


class PythonicTypes(Types):
    """The classes of a module that renames (such as NVML): its functions take enums and handles as plain ints."""

    def __init__(self, library: Library, driver: Types | None = None) -> None:
        self.inner = Types(library, driver)
        self.library = library
        self.other = None
        self.enum_names = {}
        self.classes = {}
        self.records = self._record_names()
        self._make_python_enums()
        self._make_python_records()

    def value(self, spelling: str) -> Value:
        return self._translate(self.inner.value(spelling))

    def _translate(self, value: Value) -> Value:
        if value.kind == "enumeration":
            return Value("i32", "", value.length)
        if value.kind == "handle":
            found = self.inner.find(value.cls)
            assert found is not None
            return Value("u64" if found.size == 8 else "u32", "", value.length)
        if value.kind == "record":
            found = self.inner.find(value.cls)
            assert found is not None
            return Value("record", self.records.get(found.root, found.root), value.length)
        if value.kind == "chars":
            return Value("string", "", value.length)
        if value.kind == "text":
            return Value("cstring")
        return value

    def _record_names(self) -> dict[str, str]:
        """Class of the inner types -> Python name."""
        names: dict[str, str] = {}
        for python, struct in self.library.python_structs.items():
            first, *members = struct.type.split(".")
            found = self.inner.find(first)
            for member in members:
                inner = next((f for f in found.fields if f.name == member), None) if found else None
                found = self.inner.find(inner.value.cls) if inner and inner.value.kind == "record" else None
            if found is not None:
                names.setdefault(found.root, python)
        return names

    def _make_python_enums(self) -> None:
        values = {n: v for e in self.library.enums.values() for n, v in e.values}
        values.update({c.name: c.value for c in self.library.constants.values() if isinstance(c.value, int)})
        for name, members in self.library.python_enums.items():
            pairs = tuple((m, int(values[c])) for m, c in members if c in values)
            self.classes[name] = ClassFacts(name, "enumeration", 4, root=name, members=pairs)

    def _make_python_records(self) -> None:
        used = [c for c in self.inner.classes.values() if c.kind == "record" and c.root == c.name]
        for c in used:
            name = self.records.get(c.name, c.name)
            self.classes[name] = ClassFacts(name, "record", c.size, root=name, version=version_of(name, c))
        for c in used:
            name = self.records.get(c.name, c.name)
            struct = self.library.python_structs.get(name)
            renamed = {v: k for k, v in struct.fields.items()} if struct else {}
            fields = [self._python_field(f, renamed) for f in c.fields]
            self.classes[name].fields = [f for f in fields if f is not None]
            self._count_arrays(self.classes[name])

    def _count_arrays(self, c: ClassFacts) -> None:
        counted = COUNTED_ARRAYS.get(c.name, {})
        by_name = {f.name: f for f in c.fields}
        for array, count in counted.items():
            if array in by_name and count in by_name:
                by_name[array].count = count
                by_name[count].hidden = True

    def _python_field(self, item: FieldFacts, renamed: dict[str, str]) -> FieldFacts | None:
        value = Value("address") if item.value.kind in ("array", "kernel") else self._translate(item.value)
        if item.value.kind == "handle" and value.kind == "u64" and not value.length:
            value = Value("address")  # a pointer, as in the NumPy dtype
        if value.kind == "bytes" and value.length > 1 and not item.unsigned:
            value = Value(
                "string" if value.length >= 8 and "uuid" not in item.name.lower() else "bytes", "", value.length
            )
        return FieldFacts(renamed.get(item.name, snake(item.name)), item.offset, value)


def version_of(name: str, c: ClassFacts) -> int:
    """The version number of an NVML struct that starts with `version`; it is part of the struct's name."""
    if not c.fields or c.fields[0].name != "version" or c.fields[0].offset != 0:
        return 0
    match = re.search(r"_v(\d+)(?:_t|_st)?$", name) or re.search(r"_v(\d+)(?:_t|_st)?$", c.name)
    return int(match[1]) if match else 1
