# SPDX-License-Identifier: Apache-2.0
"""Every tcgen05 instruction of libcu++'s cuda::ptx that compute capabilities 10.0 and 10.3 have is accepted. The text of the
instructions comes from the installed headers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ptxsuite.nvrtc import library
from ptxsuite.program import device

pytestmark = pytest.mark.cpu_only

REGISTERS = {"r": ("b32", "%r"), "l": ("b64", "%l"), "h": ("b16", "%h"), "f": ("f32", "%f")}


def headers() -> list[Path]:
    try:
        _, options = library()
    except OSError as error:
        pytest.skip(str(error))
    for option in options:
        found = sorted(Path(option[2:]).glob("cuda/__ptx/instructions/generated/tcgen05_*.h"))
        if found:
            return found
    pytest.skip("libcu++ has no tcgen05 instructions")


def statements(text: str, target: str) -> list[str]:
    """The inline assembly of the functions whose comment names this target, with registers as operands."""
    made = []
    for part in text.split("/*")[1:]:
        comment, _, code = part.partition("*/")
        if target not in re.findall(r"SM_\w+", comment):
            continue
        for match in re.finditer(r'asm(?: volatile)?\(((?:\s*"(?:[^"\\]|\\.)*")+)(.*?)\);\n', code, re.DOTALL):
            body = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', match[1])).replace("\\n", "\n").replace("\\t", " ")
            kinds = re.findall(r'"=?(\w)"\s*\(', match[2])
            names = [str(n % 16) if kind == "n" else f"{REGISTERS[kind][1]}{n}" for n, kind in enumerate(kinds)]
            for n in reversed(range(len(names))):
                body = re.sub(rf"%{n}(?!\d)", lambda _, name=names[n]: name, body)
            made.append(body.replace("%%", "%"))
    return made


def refused(target: str, body: str) -> bool:
    """Where the comments of the headers and ptxas differ, ptxas decides."""
    if "kind::i8" in body and target in ("SM_100f", "SM_103a"):
        return True
    return target == "SM_100f" and ".sp." in body and "kind::mxf4" in body


@pytest.mark.parametrize(
    ("target", "arch"), [("SM_100a", "10.0"), ("SM_100f", "10.0"), ("SM_103a", "10.3"), ("SM_110a", "11.0")]
)
def test_instructions_of_the_headers_are_accepted(monkeypatch: pytest.MonkeyPatch, target: str, arch: str) -> None:
    monkeypatch.setenv("CUCORE_CPU_ARCH", arch)
    declare = " ".join(f".reg .{type_} {name}<140>;" for type_, name in REGISTERS.values())
    count = 0
    for header in headers():
        bodies = [body for body in statements(header.read_text(), target) if not refused(target, body)]
        for group in (1, 2, 0):  # a function uses one kind of group
            chosen = [b for b in bodies if f"cta_group::{group}" in b or (group == 0 and "cta_group" not in b)]
            count += len(chosen)
            for first in range(0, len(chosen), 64):
                lines = "\n".join(chosen[first : first + 64])
                text = f".version 9.4\n.target {target.lower()}\n.address_size 64\n.visible .entry k() {{ {declare}\n{lines}\nret; }}\n"
                device().unload(device().load(text.encode()))
    if count == 0:
        pytest.skip(f"this version of libcu++ names no instructions of {target}")
    assert count > 300, count
