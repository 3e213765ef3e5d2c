# SPDX-License-Identifier: Apache-2.0
"""The C++ reference: declarations and `///` comments of include/cucore, read by a small parser of declarations.

It knows the habits of these headers (one declaration per statement, `///` above or `///<` after it) and nothing of C++ beyond
brackets, so it cannot be surprised by a template.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from .text import code, heading, prose

_OPEN = {"(": ")", "{": "}", "[": "]"}


@dataclass
class Item:
    """A declaration: its text, what is said about it, and its members where it is a class."""

    text: str
    doc: str = ""
    note: str = ""  # after the declaration
    name: str = ""
    members: list[Item] = field(default_factory=list)


class Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.scopes: list[str] = []  # namespaces we are in

    def balanced(self) -> None:
        """From an opening bracket to the position after its partner."""
        partner, opening = _OPEN[self.text[self.at]], self.text[self.at]
        depth = 0
        while True:
            c = self.text[self.at]
            depth += (c == opening) - (c == partner)
            self.at += 1
            if depth == 0:
                return

    def line(self) -> str:
        end = self.text.find("\n", self.at)
        end = len(self.text) if end < 0 else end
        line, self.at = self.text[self.at : end], end + 1
        return line

    def items(self, inside_class: bool = False, public: bool = True) -> list[Item]:
        """Declarations up to the bracket that closes what we are in."""
        found: list[Item] = []
        doc: list[str] = []
        while self.at < len(self.text):
            rest = self.text[self.at :]
            if rest[0].isspace():
                self.at += 1
            elif rest.startswith("///"):
                doc.append(self.line().strip().removeprefix("///").strip())
            elif rest.startswith("//"):
                self.line()
            elif rest.startswith("#"):
                text = self.line()
                while text.endswith("\\"):
                    text = text[:-1] + self.line()
                if text.startswith("#define") and doc:
                    found.append(Item(text.split(") ")[0] + ")", " ".join(doc)))
                doc = []
            elif match := re.match(r"(public|private|protected):", rest):
                public = match[1] == "public"
                self.at += match.end()
            elif match := re.match(r"namespace ([\w:]+) \{", rest):
                self.at += match.end() - 1
                if match[1].endswith("detail"):
                    self.balanced()
                else:
                    self.at += 1
                    self.scopes.append(match[1])
            elif rest[0] == "}":
                self.at += 1
                if inside_class:
                    return found
                if self.scopes:
                    self.scopes.pop()
            elif rest[0] == ";":
                self.at += 1
            else:
                item = self.declaration(" ".join(doc))
                doc = []
                if public and wanted(item):
                    found.append(item)
        return found

    def qualified(self, name: str) -> str:
        """A name as code that is in namespace cucore writes it."""
        scope = "::".join(self.scopes).removeprefix("cucore").removeprefix("::")
        return f"{scope}::{name}" if scope else name

    def declaration(self, doc: str) -> Item:
        start = self.at
        template = r"(?:template\s*<[^{;]*?>\s*)?"
        match = re.match(
            template + r"(class|struct|enum class)\s+(?:CUCORE_EXPORT\s+)?(\w+)[^;{(]*([;{])", self.text[start:]
        )
        if match and match[3] == "{":
            self.at += match.end() - 1
            head = clean(self.text[start : self.at])
            if match[1] == "enum class":
                self.balanced()
                body = self.text[start : self.at]
                return Item(body.replace("CUCORE_EXPORT ", "").replace("///<", "//") + ";", doc, name=match[2])
            self.at += 1
            members = self.items(inside_class=True, public=match[1] == "struct")
            return Item(head, doc, name=self.qualified(match[2]), members=members)
        closed = False  # the parameters have been read
        while True:
            c = self.text[self.at]
            if c == ";":
                end = self.at
                self.at += 1
                break
            if c in "([":
                self.balanced()
                closed = closed or c == "("
            elif c == "{" and closed:
                end = self.at
                self.balanced()
                break
            elif c == "{":
                self.balanced()
            elif c == ":" and closed and self.text[self.at + 1] != ":" and self.text[self.at - 1] != ":":
                end = self.at
                self.initializers()
                break
            else:
                self.at += 1
        item = Item(clean(self.text[start:end]) + ";", doc)
        behind = re.match(r"[ \t]*///<(.*)", self.text[self.at :])
        if behind:
            item.note = behind[1].strip()
            self.line()
            while more := re.match(r"\s*///<(.*)", self.text[self.at :]):
                item.note += " " + more[1].strip()
                self.at += more.end()
        return item

    def initializers(self) -> None:
        """Of a constructor, and its body."""
        while self.text[self.at] not in "({":
            self.at += 1
        self.balanced()
        while self.text[self.at].isspace():
            self.at += 1
        if self.text[self.at] in ",{":
            last = self.text[self.at] == "{"
            if last:
                self.balanced()
            else:
                self.initializers()


def clean(text: str) -> str:
    text = re.sub(
        r"\[\[nodiscard\]\]\s*|\[\[noreturn\]\]\s*|CUCORE_EXPORT\s+|\binline\s+|\bexplicit\s+(?=\()", "", text
    )
    text = re.sub(r"\n\s*//[^\n]*", "", text)
    return re.sub(r"\s+", " ", text).strip()


def wanted(item: Item) -> bool:
    text = item.text
    return not (
        "= delete" in text
        or text.startswith(("friend ", "~", "using StreamRef"))
        or re.fullmatch(r"(class|struct) \w+;", text)
    )


def wrapped(text: str) -> str:
    """A declaration in at most 96 columns, broken after commas."""
    if len(text) <= 96 or "\n" in text:
        return text
    out, line = [], ""
    for part in re.split(r"(?<=,) ", text):
        if line and len(line) + len(part) > 92:
            out.append(line.rstrip())
            line = "    "
        line += part + " "
    return "\n".join([*out, line.rstrip()])


def block(items: list[Item]) -> str:
    rows = []
    for item in items:
        rows.append(f"{wrapped(item.text)}{'  // ' + item.note if item.note else ''}")
    return code("\n".join(rows), "cpp")


def show(items: list[Item], level: str) -> str:
    """Undocumented neighbours share a block; what has a comment has a block and a paragraph of its own."""
    out, plain = "", []
    for item in items:
        if not item.doc and not item.members:
            plain.append(item)
            continue
        out += block(plain) if plain else ""
        plain = []
        if item.members:
            out += heading(item.name, level) + (prose(item.doc) + "\n\n" if item.doc else "")
            out += code(item.text, "cpp") + show(item.members, "^")
        else:
            out += block([item]) + prose(item.doc) + "\n\n"
    return out + (block(plain) if plain else "")


def header(path: Path) -> tuple[str, str, list[Item]]:
    """(what a header is about, its file name, its declarations)."""
    text = path.read_text()
    first = re.search(r"^// cucore/\S+: ((?:.*\n)(?://.*\n)*)", text, re.MULTILINE)
    about = re.sub(r"\n// ?", " ", first[1]).strip() if first else ""
    return about, path.name, Parser(text).items()


def render(include: Path, folder: Path) -> None:
    (folder / "cpp").mkdir(exist_ok=True)
    pages = []
    for path in sorted((include / "cucore").glob("*.hpp")):
        if path.stem in ("export", "cucore"):
            continue
        about, name, items = header(path)
        pages.append(path.stem)
        out = heading(f"cucore/{name}") + prose(about[:1].upper() + about[1:]) + "\n\n" + show(items, "-")
        (folder / "cpp" / f"{path.stem}.rst").write_text(out)
    out = (
        heading("C++ library")
        + "``#include <cucore/cucore.hpp>`` for all of it, or one header per concept. Everything is in namespace ``cucore``.\n\n"
    )
    out += ".. toctree::\n   :maxdepth: 1\n\n" + "".join(f"   cpp/{page}\n" for page in pages)
    (folder / "cpp.rst").write_text(out)
