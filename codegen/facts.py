# SPDX-License-Identifier: Apache-2.0
"""The facts of one library as typed objects: api/<library>.json merged with api/overlay/<library>.json."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from factfile import read_facts

API = Path(__file__).resolve().parent.parent / "api"


@dataclass(frozen=True)
class Param:
    """One parameter. `role` describes what a caller passes; codegen/README.md lists the roles."""

    name: str
    type: str
    role: str = "in"
    count: str = ""  # the parameter that holds the length of this array


@dataclass(frozen=True)
class Function:
    name: str  # name in programs
    symbol: str  # exported symbol
    returns: str
    params: tuple[Param, ...]
    since: int = 0  # first CUDA version in cuGetProcAddress's encoding (12040); 0: older than all scanned headers
    entry: str = ""  # name for cuGetProcAddress
    per_thread: str = ""  # symbol of the per-thread default stream variant, or ""
    per_thread_since: int = 0
    blocks: bool = True  # may wait for the device or for a lock, or run a callback
    deprecated: bool = False
    group: str = ""  # interop header that declares it: "gl", "egl", "vdpau", "profiler"
    python: str = ""  # its name in a Python module that renames (such as NVML)
    python_args: tuple[str, ...] = ()  # its arguments, if they are fields of a struct instead of C parameters
    later: bool = False  # newer than the scanned headers: see api/later


@dataclass(frozen=True)
class Field:
    name: str  # "" for an anonymous member
    offset: int
    type: str = ""
    record: Record | None = None  # the struct or union of a member that is defined in place
    array: tuple[int, ...] = ()  # extents if such a member is an array
    bits: int = 0
    bit_offset: int = 0


@dataclass(frozen=True)
class Record:
    name: str
    kind: str  # "struct" or "union"
    size: int
    align: int
    fields: tuple[Field, ...]
    alignas: int = 0  # explicit alignment, if larger than that of the fields
    packed: bool = False  # no padding between fields; `align` is explicit
    typedef_only: bool = False  # has no tag: a typedef of an unnamed record
    older: bool = False
    group: str = ""


@dataclass(frozen=True)
class Enum:
    name: str
    values: tuple[tuple[str, int], ...]
    typedef_only: bool = False
    group: str = ""
    later: tuple[str, ...] = ()  # enumerators newer than the scanned headers


@dataclass(frozen=True)
class Typedef:
    name: str
    type: str
    params: tuple[str, ...] = ()  # parameter names of a function pointer
    older: bool = False
    group: str = ""


@dataclass(frozen=True)
class Constant:
    name: str
    value: int | str
    type: str = ""
    group: str = ""
    later: bool = False  # newer than the scanned headers


@dataclass(frozen=True)
class PythonStruct:
    """A struct class of a Python module that renames."""

    type: str  # the C type, or 'Record.member' for a record defined in place
    fields: dict[str, str]  # Python field -> C field, if they differ


@dataclass(frozen=True)
class Library:
    name: str
    version: int
    functions: dict[str, Function]
    older: dict[str, Function]  # by symbol: old versions that a driver still exports
    records: dict[str, Record]
    enums: dict[str, Enum]
    typedefs: dict[str, Typedef]
    constants: dict[str, Constant]
    guards: dict[str, str]  # type -> macro that is defined if another header has already defined it
    anonymous: dict[str, str]  # Python name of a record defined in place -> 'Record.member'
    python_enums: dict[str, tuple[tuple[str, str], ...]]  # Python enum -> (member, C name), in modules that rename
    python_structs: dict[str, PythonStruct]

    def symbols(self) -> dict[str, Function]:
        """Every exported symbol except the per-thread variants, current and older."""
        return {**self.older, **{f.symbol: f for f in self.functions.values()}}

    def resolve(self, type_: str) -> str:
        """Resolves typedefs and removes 'struct', 'union' and 'enum': CUuuid yields CUuuid_st."""
        name = (
            type_.replace("const ", "").split(" ", 1)[1] if type_.startswith(("struct ", "union ", "enum ")) else type_
        )
        seen: set[str] = set()
        while name in self.typedefs and name not in seen:
            seen.add(name)
            target = self.typedefs[name].type
            if name in self.records or name in self.enums or target.endswith("*") or "(" in target:
                break
            name = target.split(" ", 1)[1] if target.startswith(("struct ", "union ", "enum ")) else target
        return name

    def record_of(self, type_: str) -> Record | None:
        return self.records.get(self.resolve(type_))

    def enum_of(self, type_: str) -> Enum | None:
        return self.enums.get(self.resolve(type_))

    def groups(self) -> list[str]:
        """The interop groups that have functions, sorted; the library's main header is not one."""
        return sorted({f.group for f in self.functions.values()} - {""})


def load(name: str, api: Path = API, *, later: bool = False) -> Library:
    """`later`: with what a release after the scanned headers has, known from its documentation (api/later). Only the
    Python bindings show that: there is no header yet that the ABI could be checked with."""
    facts = read_facts(api / f"{name}.json")
    overlay_path = api / "overlay" / f"{name}.json"
    overlay = read_facts(overlay_path) if overlay_path.exists() else {}
    merge(facts, overlay)
    add_history(facts, name, api)
    later_path = api / "later" / f"{name}.json"
    if later and later_path.exists():
        merge_later(facts, read_facts(later_path))
    default = facts["returns"]
    return Library(
        name=name,
        version=facts["version"],
        functions={n: function(n, row, default) for n, row in sorted(facts["functions"].items())},
        older={n: function(n, row, default) for n, row in sorted(facts.get("older", {}).items())},
        records={n: record(n, row) for n, row in sorted(facts["structs"].items())},
        enums={
            n: Enum(
                n,
                tuple((k, v) for k, v in row["values"]),
                row.get("typedef_only", False),
                row.get("group", ""),
                tuple(row.get("later", ())),
            )
            for n, row in sorted(facts["enums"].items())
        },
        typedefs={
            n: Typedef(n, row["type"], tuple(row.get("params", ())), row.get("older", False), row.get("group", ""))
            for n, row in sorted(facts["typedefs"].items())
        },
        constants={
            n: Constant(
                n,
                row["value"] if "value" in row else row["text"],
                row.get("type", ""),
                row.get("group", ""),
                row.get("later", False),
            )
            for n, row in sorted(facts["constants"].items())
        },
        guards=dict(facts.get("guards", {})),
        anonymous=dict(facts.get("anonymous", {})),
        python_enums={
            n: tuple((member, c_name) for member, c_name in rows)
            for n, rows in sorted(facts.get("python_enums", {}).items())
        },
        python_structs={
            n: PythonStruct(row["type"], row["fields"]) for n, row in sorted(facts.get("python_structs", {}).items())
        },
    )


def merge(facts: dict[str, Any], overlay: dict[str, Any]) -> None:
    """Merges overlay rows into the rows of the same section and name. A row with an unknown name is an error."""
    for section, rows in overlay.items():
        if section == "guards":
            facts[section] = rows
        elif section == "roles":
            merge_roles(facts, rows)
        elif section == "python_enums":
            for name, members in rows.items():
                facts[section].setdefault(name, []).extend(members)
        elif section == "later":
            add_later(facts, rows)
        elif section == "quick":
            for name, row in facts["functions"].items():
                row["blocks"] = not any(fnmatchcase(name, pattern) for pattern in rows)
        else:
            for name, row in rows.items():
                facts[section].setdefault(name, {}).update(row)


def add_history(facts: dict[str, Any], name: str, api: Path) -> None:
    """Adds the first release of each function that codegen/scan_history.py found in older headers."""
    path = api / "history.json"
    rows = read_facts(path).get(name, {}) if path.exists() else {}
    for function, since in rows.items():
        if function in facts["functions"]:
            facts["functions"][function].setdefault("since", since)


def add_later(facts: dict[str, Any], rows: dict[str, Any]) -> None:
    """Adds enumerators of CUDA versions newer than the scanned headers."""
    for name, values in rows.items():
        facts["enums"].setdefault(name, {"values": [], "typedef_only": True})["values"] += values
        facts["enums"][name]["later"] = [n for n, _ in values]


def merge_later(facts: dict[str, Any], rows: dict[str, Any]) -> None:
    """New functions and types; `members` are new members of the union inside a struct."""
    for section, named in rows.items():
        if section == "members":
            for struct, fields in named.items():
                union = next(f for f in facts["structs"][struct]["fields"] if not f["name"] and "record" in f)
                union["record"]["fields"] += fields
            continue
        for name, row in named.items():
            if name in facts.setdefault(section, {}):
                raise ValueError(f"{name}: the scanned headers have it; remove it from api/later")
            facts[section][name] = {**row, "later": True} if section == "functions" else row


def merge_roles(facts: dict[str, Any], rows: dict[str, Any]) -> None:
    """Merges the parameter roles of the overlay: {"cuFoo": {"param": "role"}}."""
    for name, roles in rows.items():
        params = facts["functions"][name]["params"]
        known = {p[0]: p for p in params}
        for param, role in roles.items():
            known[param][2:] = role.split()


def function(name: str, row: dict[str, Any], default_return: str) -> Function:
    symbol = row.get("symbol", name)
    flavour, per_thread_since = row.get("per_thread", ("", 0))
    return Function(
        name=name,
        symbol=symbol,
        returns=row.get("returns", default_return),
        params=tuple(param(p) for p in row["params"]),
        since=row.get("since", 0),
        entry=row.get("entry", name),
        per_thread=f"{symbol}_{flavour}" if flavour else "",
        per_thread_since=per_thread_since,
        blocks=row.get("blocks", True),
        deprecated=row.get("deprecated", False),
        group=row.get("group", ""),
        python=row.get("python", ""),
        python_args=tuple(row.get("python_args", ())),
        later=row.get("later", False),
    )


def param(row: list[str]) -> Param:
    name, type_, *rest = row
    return Param(name, type_, *rest)


def record(name: str, row: dict[str, Any]) -> Record:
    return Record(
        name=name,
        kind=row["kind"],
        size=row["size"],
        align=row["align"],
        fields=tuple(field(f) for f in row["fields"]),
        alignas=row.get("alignas", 0),
        packed=row.get("packed", False),
        typedef_only=row.get("typedef_only", False),
        older=row.get("older", False),
        group=row.get("group", ""),
    )


def field(row: dict[str, Any]) -> Field:
    return Field(
        name=row["name"],
        offset=row["offset"],
        type=row.get("type", ""),
        record=record(row["record"].get("tag", ""), row["record"]) if "record" in row else None,
        array=tuple(row.get("array", ())),
        bits=row.get("bits", 0),
        bit_offset=row.get("bit_offset", 0),
    )
