# SPDX-License-Identifier: Apache-2.0
"""A type has one definition: two headers that define the same qualified name break the one-definition rule."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
NAMESPACE = re.compile(r"^namespace ([\w:]+) \{|^\}  // namespace ([\w:]+)")
# A definition at namespace level starts in the first column (clang-format does not indent namespaces).
TYPE = re.compile(r"^(?:class|struct|enum class|enum|union) (?:alignas\(\d+\) )?(?:CUCORE_EXPORT )?([\w:]+)[^;]*$")


def definitions(text: str) -> list[str]:
    """The qualified names of the types that a header defines at namespace level."""
    scopes: list[str] = []
    found = []
    previous = ""
    for line in text.splitlines():
        if match := NAMESPACE.match(line):
            if match[1]:
                scopes.append(match[1])
            else:
                scopes.pop()
        elif (match := TYPE.match(line)) and not previous.startswith("template <>"):
            found.append("::".join([*scopes, match[1]]))
        previous = line
    return found


@pytest.mark.parametrize("folders", [("include", "src"), ("cpu",)], ids=["library", "cpu"])
def test_no_type_is_defined_in_two_headers(folders: tuple[str, ...]) -> None:
    homes = defaultdict(set)
    for folder in folders:
        for file in sorted((ROOT / folder).rglob("*.hpp")):
            for name in definitions(file.read_text()):
                homes[name].add(str(file.relative_to(ROOT)))
    assert len(homes) > 50
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}


def test_definitions_are_found_with_their_namespaces() -> None:
    text = "namespace a::b {\nclass Seen final : public X {\n};\nclass Declared;\nnamespace c {\nstruct Inner {\n};\n}  // namespace c\n}  // namespace a::b\n"
    assert definitions(text) == ["a::b::Seen", "a::b::c::Inner"]
