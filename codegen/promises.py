# SPDX-License-Identifier: Apache-2.0
"""Renders the page of promises: the promises of each case, and the tests that verify them.

tests/promises.json lists the cases and sentences. A test names the promise that it verifies: in Python with the marker
``@pytest.mark.promise("sentence")`` (or ``pytestmark`` for a file), in C++ with a comment ``// promise: sentence`` above it.

    python codegen/promises.py --tests tests --page FILE
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Test:
    path: str  # relative to the project's root
    name: str
    line: int


@dataclass(frozen=True)
class Protection:
    """Code that keeps a promise, marked CUCORE_PROTECTION(hook), and the test that fails without it."""

    case: str
    name: str
    hook: str
    test: str  # Suite.Name or path::name
    seen: str  # result of the test without the protection, and the date; empty: never run


@dataclass
class Case:
    title: str
    promises: dict[str, list[Test]] = field(default_factory=dict)
    protections: list[Protection] = field(default_factory=list)


def sentences_of(marker: ast.expr) -> Iterator[str]:
    """The arguments of pytest.mark.promise(...), also inside a list."""
    if isinstance(marker, ast.List | ast.Tuple):
        for element in marker.elts:
            yield from sentences_of(element)
    elif isinstance(marker, ast.Call) and ast.unparse(marker.func) == "pytest.mark.promise":
        for argument in marker.args:
            if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                raise SystemExit(f"line {marker.lineno}: a promise is a plain string")
            yield argument.value


def python_tests(path: Path, shown: str) -> Iterator[tuple[str, Test]]:
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    named: dict[str, list[str]] = {}  # markers assigned to a variable of the file
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            named[ast.unparse(statement.targets[0])] = list(sentences_of(statement.value))
    of_file = named.get("pytestmark", [])
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            own = [s for decorator in node.decorator_list for s in sentences_of(decorator)]
            own += [s for decorator in node.decorator_list for s in named.get(ast.unparse(decorator), [])]
            if node.name.startswith("test") or own:
                for sentence in own + of_file:
                    yield sentence, Test(shown, node.name, node.lineno)


CPP = re.compile(
    r"^// promise: (?P<sentence>.*\n(?:// .*\n)*)TEST\w*\(\s*(?P<suite>\w+)\s*,\s*(?P<name>\w+)", re.MULTILINE
)


def cpp_tests(path: Path, shown: str) -> Iterator[tuple[str, Test]]:
    text = path.read_text(encoding="utf-8")
    for found in CPP.finditer(text):
        for sentence in re.split(r"^// promise: ", found["sentence"], flags=re.MULTILINE):
            words = " ".join(line.removeprefix("//").strip() for line in sentence.splitlines())
            line = text.count("\n", 0, found.start("suite")) + 1
            yield words, Test(shown, f"{found['suite']}.{found['name']}", line)
    if text.count("// promise:") != sum(m[0].count("// promise:") for m in CPP.finditer(text)):
        raise SystemExit(f"{path}: a promise that stands above no test")


def read_cases(tests: Path) -> list[Case]:
    rows = json.loads((tests / "promises.json").read_text(encoding="utf-8"))
    return [Case(row["case"], {sentence: [] for sentence in row["promises"]}) for row in rows]


def read_protections(tests: Path) -> list[Protection]:
    path = tests / "protections.json"
    rows = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    return [Protection(row["case"], row["name"], row["hook"], row["test"], row.get("seen", "")) for row in rows]


def collect(tests: Path) -> tuple[list[Case], list[tuple[str, Test]]]:
    """The cases with their tests, and the tests whose sentence is not in promises.json."""
    cases = read_cases(tests)
    lists = {sentence: found for case in cases for sentence, found in case.promises.items()}
    unknown = []
    for path in sorted(tests.rglob("*")):
        shown = path.relative_to(tests.parent).as_posix()
        if path.suffix == ".py":
            found = python_tests(path, shown)
        elif path.suffix == ".cpp":
            found = cpp_tests(path, shown)
        else:
            continue
        for sentence, test in found:
            if sentence in lists:
                lists[sentence].append(test)
            else:
                unknown.append((sentence, test))
    for case in cases:
        case.protections = [row for row in read_protections(tests) if row.case == case.title]
    return cases, unknown


def render(cases: list[Case]) -> str:
    lines = [
        "# Promises",
        "",
        "The tests below each promise verify it. The page is rendered from the markers of the tests, so every promise has",
        "a test. All tests run on the CPU device; those of cuda.core also run on a GPU.",
        "",
        "`tools/protections` disables single protections, which the source marks with `CUCORE_PROTECTION`, and checks that the",
        "named test then fails. The last lines of a case list these protections with the result and the date.",
    ]
    for case in cases:
        lines += ["", f"## {case.title}"]
        for sentence, tests in case.promises.items():
            lines += ["", f"**{sentence}.**", ""]
            lines += [f"- `{test.path}`: `{test.name}`" for test in sorted(set(tests), key=lambda t: (t.path, t.line))]
        seen = [row for row in case.protections if row.seen]
        if seen:
            lines += ["", "Test results without a protection:", ""]
            lines += [f"- {row.name} (`{row.hook}`): `{row.test.split('::')[-1]}` {row.seen}" for row in seen]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tests", type=Path, required=True)
    parser.add_argument("--page", type=Path, required=True)
    arguments = parser.parse_args()
    cases, unknown = collect(arguments.tests.resolve())
    for sentence, test in unknown:
        print(
            f"{test.path}:{test.line}: the promise of {test.name} is not in tests/promises.json: {sentence!r}",
            file=sys.stderr,
        )
    arguments.page.write_text(render(cases), encoding="utf-8")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
