# SPDX-License-Identifier: Apache-2.0
"""Programs that name every function of libcu++'s cuda::ptx, made from its headers: each overload, with each allowed qualifier."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from pathlib import Path

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
FUNCTION = re.compile(
    r"/\*\n(?P<comment>(?:(?!\*/).)*?)\*/\s*#if __cccl_ptx_isa >= (?P<isa>\d+)\s*template <(?P<template>[^{}]*?)>\s*_CCCL_DEVICE_API "
    r"(?P<result>[\w:]+)\s+(?P<name>\w+)\((?P<parameters>[^{]*?)\)\s*\{(?P<body>.*?)\n\}\n#endif",
    re.S,
)


@dataclass(frozen=True)
class Function:
    header: str
    name: str
    isa: int
    targets: tuple[str, ...]  # "90", "100a", "100f": as the comment says
    casts: tuple[str, ...]  # one expression for each overload and choice of qualifiers

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


def type_of(parameter: str) -> str:
    """The type of a parameter, without its name and default value."""
    parameter = re.sub(r"\s*=\s*[^=]*$", "", parameter)
    name = re.findall(r"\b__\w+", parameter)
    return parameter.replace(name[-1], "", 1).strip() if name and "::ptx::space" not in parameter else parameter


def casts(match: re.Match[str]) -> list[str]:
    """The function as an address of each signature."""
    choices: list[list[tuple[str, str]]] = []
    for parameter in split(match["parameters"]):
        dot = re.match(r"(?:const )?::cuda::ptx::(\w+)_t<_\w+> (__\w+)", parameter)
        if dot and dot[1] != "n32":
            asserted = " ".join(re.findall(r"static_assert\((.*?),\s*\"\"\)", match["body"], re.S))
            found = re.findall(rf"{dot[2]} == (\w+)", asserted)
            choices.append([(dot[0], f"::cuda::ptx::{word}_t") for word in dict.fromkeys(found)])
    number = re.search(r"int _N32 = (\d+)", match["template"])
    made = []
    for chosen in itertools.product(*choices):
        types = []
        rest = list(chosen)
        for parameter in split(match["parameters"]):
            if rest and parameter.startswith(rest[0][0]):
                types.append(rest.pop(0)[1])
                continue
            types.append(type_of(parameter))
        text = ", ".join(types).replace("<_N32>", f"<{number[1] if number else 0}>")
        result = match["result"]
        for name, real in DATA.items():
            text, result = re.sub(rf"\b{name}\b", real, text), re.sub(rf"\b{name}\b", real, result)
        made.append(f"reinterpret_cast<void*>(static_cast<{result} (*)({text})>(::cuda::ptx::{match['name']}))")
    return made


def functions() -> list[Function]:
    """Every function of the generated headers."""
    _, includes = library()
    folders = [Path(option[2:]) / "cuda/__ptx/instructions/generated" for option in includes]
    headers = [path for folder in folders if folder.is_dir() for path in sorted(folder.glob("*.h"))]
    found = []
    for path in headers:
        for match in FUNCTION.finditer(path.read_text()):
            targets = re.findall(r"\bSM_(\d+[af]?)\b", match["comment"])
            found.append(Function(path.stem, match["name"], int(match["isa"]), tuple(targets), tuple(casts(match))))
    return found


def program(chosen: list[Function]) -> str:
    """A kernel that stores the address of every function."""
    lines = [cast for function in chosen for cast in function.casts]
    stores = "".join(f"  out[{n}] = {line};\n" for n, line in enumerate(lines))
    return f'{HEAD}extern "C" __global__ void addresses(void** out) {{\n{stores}}}\n'
