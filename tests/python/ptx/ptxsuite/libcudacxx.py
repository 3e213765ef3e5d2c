# SPDX-License-Identifier: Apache-2.0
"""Programs that name every function of libcu++'s cuda::ptx, made from its headers: each overload, with each allowed qualifier."""

from __future__ import annotations

import functools
import itertools
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from .nvrtc import library

# Types for the template parameters that stand for data of a size.
DATA = {
    "_B8": "::cuda::std::int8_t", "_B16": "::cuda::std::int16_t", "_B32": "::cuda::std::int32_t", "_B64": "::cuda::std::int64_t",
    "_B128": "longlong2", "_B256": "Four", "_S32": "::cuda::std::int32_t", "_S64": "::cuda::std::int64_t",
    "_U32": "::cuda::std::uint32_t", "_U64": "::cuda::std::uint64_t", "_Type": "float", "_Ty": "float", "_Tp": "float",
}  # fmt: skip
HEAD = """#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda/ptx>
struct alignas(32) Four { long long a, b, c, d; };
"""
HEADING = re.compile(
    r"/\*\n(?P<comment>(?:(?!\*/).)*?)\*/\s*#if __cccl_ptx_isa >= (?P<isa>\d+)[^\n]*\s*template <", re.S
)
RESULT = re.compile(r"\s*_CCCL_DEVICE_API (?P<result>[\w:]+)\s+(?P<name>\w+)\(")


@dataclass(frozen=True)
class Parameter:
    type: str  # as the header writes it, with template parameters
    name: str  # "" for a qualifier that has none
    words: tuple[str, ...] = ()  # the allowed qualifiers, e.g. "scope_cta", "scope_gpu"; () for data


@dataclass(frozen=True)
class Function:
    header: str
    name: str
    isa: int
    targets: tuple[str, ...]  # "90", "100a", "100f": as the comment says
    result: str
    parameters: tuple[Parameter, ...]

    def runs_on(self, target: str) -> bool:
        number = int(target.rstrip("af"))
        for known in self.targets:
            own = int(known.rstrip("af"))
            if known.endswith("a") and own == number and target.endswith("a"):
                return True
            if known.endswith("f") and own // 10 == number // 10 and own <= number:
                return True
            if known.isdigit() and own <= number:
                return True
        return False


def split(text: str) -> list[str]:
    """A list of C++ parameters at its outer commas."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += letter in "(<[{"
        depth -= letter in ")>]}"
        if letter == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [part.strip() for part in (*parts, text[start:]) if part.strip()]


def type_of(parameter: str) -> tuple[str, str]:
    """The type and the name of a parameter, without its default value."""
    parameter = re.sub(r"\s*=[^=].*$", "", parameter, flags=re.S)
    found = re.findall(r"\b__[a-zA-Z]\w*", parameter)
    if not found:
        return parameter, ""
    return re.sub(rf"\b{found[-1]}\b", "", parameter, count=1).strip(), found[-1].removeprefix("__")


def closing(text: str, at: int) -> int:
    """The index of the bracket that closes the one before `at`."""
    depth = 1
    while depth:
        depth += (text[at] in "(<[{") - (text[at] in ")>]}" and text[at - 1 : at + 1] != "->")
        at += 1
    return at - 1


def parameter_of(text: str, body: str) -> Parameter:
    type_, name = type_of(text)
    if fixed := re.fullmatch(r"::cuda::ptx::(\w+)_t", type_):
        return Parameter(type_, name, (fixed[1],))
    if re.fullmatch(r"::cuda::ptx::n32_t<_\w+>", type_) or not re.fullmatch(r"::cuda::ptx::\w+_t<_\w+>", type_):
        return Parameter(type_, name)
    asserted = " ".join(re.findall(r"static_assert\((.*?),\s*\"\"\)", body, re.S))
    return Parameter(type_, name, tuple(dict.fromkeys(re.findall(rf"\b__{name} == (\w+)", asserted))))


@functools.cache
def functions() -> list[Function]:
    """Every function of the generated headers."""
    _, includes = library()
    folders = [Path(option[2:]) / "cuda/__ptx/instructions/generated" for option in includes]
    headers = [path for folder in folders if folder.is_dir() for path in sorted(folder.glob("*.h"))]
    if headers and not any("_CCCL_DEVICE_API" in path.read_text() for path in headers):
        pytest.skip("this version of libcu++ writes its functions in an older form, which the tests do not read")
    found = []
    for path in headers:
        text = path.read_text()
        count = len(found)
        for match in HEADING.finditer(text):
            end = closing(text, match.end())
            head = RESULT.match(text, end + 1)
            assert head, text[match.start() : end + 80]
            close = closing(text, head.end())
            body = text[close : text.index("\n}\n", close)]
            targets = re.findall(r"\bSM_(\d+[af]?)\b", match["comment"])
            parameters = [parameter_of(part, body) for part in split(text[head.end() : close])]
            found.append(
                Function(path.stem, head["name"], int(match["isa"]), tuple(targets), head["result"], tuple(parameters))
            )
        assert len(found) - count == text.count("_CCCL_DEVICE_API"), f"{path.name} has a function of another form"
    return found


@dataclass(frozen=True)
class Call:
    """A function with chosen qualifiers; `words` has one for each parameter that is a qualifier."""

    function: Function
    words: tuple[str, ...]
    number: int = 0  # the value of an n32_t

    @property
    def name(self) -> str:
        return self.function.name

    @property
    def header(self) -> str:
        return self.function.header

    def __str__(self) -> str:
        data = [re.sub(r"::cuda::\w+::", "", p.type) for p in self.function.parameters if not p.words]
        return f"{self.name}({', '.join((*self.words, *data))})"

    def types(self) -> list[str]:
        """The types of the parameters, with data types for template parameters."""
        rest = list(self.words)
        made = [f"::cuda::ptx::{rest.pop(0)}_t" if p.words else p.type for p in self.function.parameters]
        return [real(re.sub(r"<_\w+>", f"<{self.number}>", text)) for text in made]

    def cast(self) -> str:
        """The address of this overload."""
        text = ", ".join(self.types())
        return (
            f"reinterpret_cast<void*>(static_cast<{real(self.function.result)} (*)({text})>(::cuda::ptx::{self.name}))"
        )

    def text(self, *, exact: bool = False, **values: str) -> str:
        """A call with these values for the parameters that are not qualifiers; a missing one is an error. `exact` names the overload
        by its types, where a call would be ambiguous."""
        rest, given = list(self.words), []
        for p in self.function.parameters:
            if p.words:
                given.append(f"::cuda::ptx::{rest.pop(0)}")
            elif "n32_t" in p.type:
                given.append(f"::cuda::ptx::n32_t<{values.get(p.name, self.number)}>{{}}")
            else:
                given.append(values[p.name])
        function = f"::cuda::ptx::{self.name}"
        if exact:
            function = f"static_cast<{real(self.function.result)} (*)({', '.join(self.types())})>({function})"
        return f"{function}({', '.join(given)})"

    def has(self, name: str) -> bool:
        return any(p.name == name for p in self.function.parameters)

    def type_of(self, name: str) -> str:
        return self.types()[[p.name for p in self.function.parameters].index(name)]


def real(text: str) -> str:
    """A type with data types for template parameters."""
    for name, data in DATA.items():
        text = re.sub(rf"\b{name}\b", data, text)
    return text


def calls(function: Function) -> list[Call]:
    """The function with each choice of qualifiers."""
    known = {"size": 128, "size32": 128, "imm_reg_count": 24}  # constants of which 0 is none
    number = max((known.get(p.name, 0) for p in function.parameters if "n32_t" in p.type), default=0)
    return [
        Call(function, words, number) for words in itertools.product(*(p.words for p in function.parameters if p.words))
    ]


def program(chosen: list[Function]) -> str:
    """A kernel that stores the address of every function."""
    lines = [call.cast() for function in chosen for call in calls(function)]
    stores = "".join(f"  out[{n}] = {line};\n" for n, line in enumerate(lines))
    return f'{HEAD}extern "C" __global__ void addresses(void** out) {{\n{stores}}}\n'
