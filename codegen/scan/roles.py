# SPDX-License-Identifier: Apache-2.0
"""Assigns roles to parameters. codegen/README.md lists the roles.

Roles come from the Python signature of a function, or from C types and names if it has none. Other roles are specified in
api/overlay/<library>.json under "roles".
"""

from __future__ import annotations

import re
from typing import Any

from scan.surface import Argument, match_arguments, parse_signature

COUNT_NAME = re.compile(r"(p?num\w*|nb\w*|\w*[cC]ount\w*|n|nr|len|length|size|\w*Size|numOps)$")


def is_pointer(type_: str) -> bool:
    return type_.endswith("*") and "(*" not in type_


def pointee(type_: str) -> str:
    return type_[:-1].strip()


def is_const(type_: str) -> bool:
    return type_.startswith("const ") or type_.endswith("*const *")


class Assigner:
    """Assigns roles for one library."""

    def __init__(self, facts: dict[str, Any], *, addresses: bool) -> None:
        self.addresses = addresses  # the Python module takes plain addresses for C pointers to data
        self.callbacks = {n for n, row in facts["typedefs"].items() if "(*" in row["type"] or row.get("params")}
        self.structs = set(facts["structs"])
        for name, row in facts["typedefs"].items():
            target = row["type"].replace("struct ", "").replace("union ", "")
            if target in self.structs:
                self.structs.add(name)
        for name, row in facts["typedefs"].items():  # a second pass for typedefs of typedefs
            if row["type"] in self.structs:
                self.structs.add(name)
        for name, row in facts["typedefs"].items():
            if row["type"] in self.structs:
                self.structs.add(name)

    def assign(self, row: dict[str, Any], signature: str | None) -> bool:
        """Appends a role to each parameter. Returns False if the signature does not match the C parameters."""
        params = row["params"]
        for param in params:
            del param[2:]
        given = match_arguments([p[0] for p in params], parse_signature(signature)) if signature is not None else None
        if given is None:
            assigned = [self.guess(p) for p in params]
        else:
            sized = next((n for n, a in given.items() if a.default and is_pointer(dict(p[:2] for p in params)[n])), "")
            assigned = [
                self.taken(p, given[p[0]], params) if p[0] in given else self.returned(p, params, given, sized)
                for p in params
            ]
        for param, role in zip(params, assigned, strict=True):
            if role != ["in"]:
                param += [word for word in role if word]
        counted = {p[3] for p in params if len(p) > 3 and p[2] == "out_array"}
        for param in params:
            if param[0] in counted and param[2:] == ["out"]:
                param[2] = "inout_count"
        return signature is None or given is not None

    def taken(self, param: list[str], argument: Argument, params: list[list[str]]) -> list[str]:
        name, type_ = param[0], param[1]
        if type_ in self.callbacks or "(*" in type_:
            return ["callback"]
        if not is_pointer(type_):
            return ["in"]
        if name in ("kernelParams", "extra") and type_ == "void **":
            return ["kernel_params"]
        if "tuple[" in argument.annotation:
            return ["in_array", self.count_of(param, params)]
        if argument.default and not is_const(type_):
            return ["inout_count"]
        element = self.base(pointee(type_))
        if type_ == "const char *":
            return ["in_string"]
        if type_ == "char *":
            return ["fill_buffer"]
        if element == "void":
            return ["user_data"] if name.lower() in ("userdata", "user_data") else ["in_buffer"]
        if element in self.structs:
            return ["struct_address" if self.addresses else "in_struct" if is_const(type_) else "inout_struct"]
        if is_const(type_) or type_ == "const char **":
            return ["in_array", self.count_of(param, params)]
        return ["address"] if self.addresses else ["inout"]

    def returned(self, param: list[str], params: list[list[str]], given: dict[str, Argument], sized: str) -> list[str]:
        """The role of a pointer that the Python function does not take. `sized`: the common count of the function's arrays."""
        name, type_ = param[0], param[1]
        if not is_pointer(type_):
            return ["implied"]  # computed by the Python function, for example a length
        if type_ == "char *":
            return ["out_string", self.count_of(param, params)]
        if type_ == "const char **":
            return ["out_string"]
        if type_ == "void *":
            return ["out_buffer", self.count_of(param, params)]
        if sized:
            return ["out_array", sized]
        count = self.count_of(param, params)
        if type_.startswith("const ") and type_.endswith("**"):
            count = self.out_count(params)
            return ["out_array", count] if count else ["out"]
        if is_const(type_):
            return ["in_array", count] if count else ["in_struct"]
        plural = re.search(r"(s|List|Array)$", name) and not re.search(
            r"(ss|bytes|[sS]tatus|[eE]xists|Flags|flags)$", name
        )
        if plural and count and count != name and not COUNT_NAME.match(name):
            taken_count = count in given and not is_pointer(dict(p[:2] for p in params)[count])
            returned_count = count not in given and is_pointer(dict(p[:2] for p in params)[count])
            if taken_count or returned_count or sized:
                return ["out_array", count]
        return ["out"]

    def guess(self, param: list[str]) -> list[str]:
        type_ = param[1]
        if type_ in self.callbacks or "(*" in type_:
            return ["callback"]
        if not is_pointer(type_):
            return ["in"]
        if type_ == "const char *":
            return ["in_string"]
        if type_ in ("void *", "const void *"):
            return ["in_buffer"]
        if is_const(type_):
            return ["in_struct"] if self.base(pointee(type_)) in self.structs else ["in_array", ""]
        return ["out"]

    def base(self, type_: str) -> str:
        return re.sub(r"\b(const|struct|union|enum) ", "", type_).strip()

    def count_of(self, param: list[str], params: list[list[str]]) -> str:
        """The parameter with the number of elements: the nearest count after this parameter, or the one before it."""
        index = params.index(param)
        counts = [(i, p) for i, p in enumerate(params) if COUNT_NAME.match(p[0]) and self.is_count_type(p[1])]
        after = [p[0] for i, p in counts if i > index]
        before = [p[0] for i, p in counts if i < index]
        named = [p[0] for _, p in counts if param[0].rstrip("s").lower() in p[0].lower()]
        if named:
            return named[0]
        return after[0] if after else (before[-1] if before else "")

    def out_count(self, params: list[list[str]]) -> str:
        return next((p[0] for p in params if COUNT_NAME.match(p[0]) and is_pointer(p[1])), "")

    @staticmethod
    def is_count_type(type_: str) -> bool:
        return type_.replace(" *", "") in ("int", "unsigned int", "size_t", "unsigned long long", "uint32_t")
