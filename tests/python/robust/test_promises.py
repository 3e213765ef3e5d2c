# SPDX-License-Identifier: Apache-2.0
"""Every promise has a test, every marker names a promise, and every protection names an existing test."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "codegen"))

import promises  # noqa: E402


def test_every_promise_has_a_test_and_every_marker_a_promise() -> None:
    cases, unknown = promises.collect(ROOT / "tests")
    assert not unknown, "markers whose sentence is not in tests/promises.json"
    bare = [sentence for case in cases for sentence, tests in case.promises.items() if not tests]
    assert not bare, "promises without a test"
    assert all(case.promises for case in cases)


def test_page_lists_the_tests_of_each_promise() -> None:
    cases, _ = promises.collect(ROOT / "tests")
    page = promises.render(cases)
    for case in cases:
        assert f"\n## {case.title}\n" in page
        for sentence, tests in case.promises.items():
            assert f"\n**{sentence}.**\n" in page
            assert all(f"`{test.name}`" in page for test in tests)


def hooks_in_the_source() -> list[str]:
    sources = [path for folder in ("cpu", "src") for path in (ROOT / folder).rglob("*.[ch]pp")]
    return [hook for path in sources for hook in re.findall(r'CUCORE_PROTECTION\("([^"]+)"\)', path.read_text())]


def test_every_protection_has_a_hook_in_the_source_and_names_an_existing_test() -> None:
    """tools/protections runs the tests; this test keeps sources, tests and tests/protections.json consistent."""
    titles = {case.title for case in promises.collect(ROOT / "tests")[0]}
    cpp = "".join(path.read_text() for path in (ROOT / "tests" / "cpp").rglob("*.cpp"))
    rows = json.loads((ROOT / "tests" / "protections.json").read_text())
    assert sorted(row["hook"] for row in rows) == sorted(hooks_in_the_source())
    for row in rows:
        assert row["case"] in titles, row
        assert row["seen"], row
        path, _, test = row["test"].rpartition("::")
        if path:
            assert f"def {test}(" in (ROOT / path).read_text(), row["test"]
        else:
            suite, name = test.split(".")
            assert re.search(rf"TEST\w*\(\s*{suite}\s*,\s*{name}\s*\)", cpp), row["test"]
    page = promises.render(promises.collect(ROOT / "tests")[0])
    assert all(f"- {row['name']} (" in page for row in rows)


def test_marker_with_an_unknown_promise_is_reported(tmp_path: Path) -> None:
    (tmp_path / "promises.json").write_text('[{"case": "c", "promises": ["It holds"]}]')
    (tmp_path / "test_a.py").write_text(
        'import pytest\n@pytest.mark.promise("It holds")\ndef test_one(): ...\n'
        '@pytest.mark.promise("It flies")\ndef test_two(): ...\n'
    )
    (tmp_path / "a_test.cpp").write_text("// promise: It\n// holds\nTEST_F(Suite, Name) {}\n")
    cases, unknown = promises.collect(tmp_path)
    assert [test.name for test in cases[0].promises["It holds"]] == ["Suite.Name", "test_one"]
    assert [(sentence, test.name) for sentence, test in unknown] == [("It flies", "test_two")]
    (tmp_path / "b_test.cpp").write_text("// promise: It holds\nint x;\n")
    with pytest.raises(SystemExit, match="above no test"):
        promises.collect(tmp_path)
