# SPDX-License-Identifier: Apache-2.0
"""Reads the Python signatures of cuda.bindings to find out which pointers a caller passes.

A parameter that the Python function takes is an input; a pointer that it does not take is an output. The annotation
distinguishes an array ('tuple[T] | list[T]') from a single struct ('Optional[T]').
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from factfile import Facts, read_facts

FACTS = Path(__file__).resolve().parent.parent.parent / "tests" / "compat" / "facts"
RENAMED = {"typename": "type", "numbytes": "bytes", "pformat": "format", "length": "len"}


@dataclass(frozen=True)
class Argument:
    name: str
    annotation: str = ""
    default: str = ""


def read_surface(library: str) -> Facts:
    return read_facts(FACTS / f"cuda.bindings.{library}.json")


def plain(name: str) -> str:
    """Normalizes a name so that memoryClockMHz and memory_clock_m_hz compare equal."""
    return name.replace("_", "").lower()


def parse_signature(text: str) -> list[Argument]:
    inner = text[1 : text.rindex(")")]
    parts: list[str] = []
    depth = 0
    current = ""
    for c in inner:
        depth += (c in "[(") - (c in "])")
        if c == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += c
    if current.strip():
        parts.append(current)
    arguments = []
    for part in parts:
        match = re.fullmatch(r"\s*(\*{0,2}\w+)\s*(?::\s*'([^']*)')?\s*(?:=\s*(.*))?\s*", part)
        if match:
            arguments.append(Argument(match[1], match[2] or "", match[3] or ""))
    return arguments


def match_arguments(params: list[str], arguments: list[Argument]) -> dict[str, Argument] | None:
    """C parameter -> Python argument, or None if the two lists do not match."""
    waiting = list(arguments)
    found: dict[str, Argument] = {}
    for name in params:
        if waiting and same_name(name, waiting[0].name):
            found[name] = waiting.pop(0)
    return None if waiting else found


def same_name(c_name: str, python_name: str) -> bool:
    candidate = RENAMED.get(python_name, python_name)
    return plain(c_name) in (plain(candidate), plain(python_name))


def python_names(c_names: list[str], prefix: str, surface: Facts) -> dict[str, str]:
    """C symbol -> Python function, for the modules that rename: nvmlDeviceGetCount_v2 is device_get_count_v2."""
    wanted = {plain(n): n for n in surface["functions"]}
    result: dict[str, str] = {}
    for c_name in c_names:
        key = plain(c_name.removeprefix(prefix))
        if key in wanted:
            result[c_name] = wanted[key]
    return result
