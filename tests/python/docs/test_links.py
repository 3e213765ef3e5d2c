# SPDX-License-Identifier: Apache-2.0
"""Links of the pages lead somewhere: in the repository as it is browsed, and in the site."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from pages import ROOT, pages

sys.path.insert(0, str(ROOT / "docs"))

from render import links, site_links

PAGES = {str(path.relative_to(ROOT)): path for path in pages()}


def anchors(path: Path) -> set[str]:
    """The sections of a page, spelled as links spell them."""
    titles = re.findall(r"^#+ +(.+?) *$", path.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("name", PAGES)
def test_relative_links_work_in_the_repository(name: str) -> None:
    path = PAGES[name]
    for link in links.links(path.read_text()):
        file, _, section = link.partition("#")
        target = (path.parent / file).resolve()
        assert target.exists(), f"{name}: {link} is not there"
        assert target.is_relative_to(ROOT), f"{name}: {link} is outside of the repository"
        if section and target.suffix == ".md":
            assert section in anchors(target), f"{name}: {link}: no such section"


SITE_PAGES = [name.removeprefix("docs/") for name in PAGES if name.startswith("docs/")]
IN_THE_SITE = re.compile(r"(?:\.\./)*(?:_examples/.*|.*\.(?:md|rst|svg|png|json))")


@pytest.mark.parametrize("name", [name for name in SITE_PAGES if name != "reference/rendered.md"])
def test_links_of_the_site_stay_in_the_site(name: str, tmp_path: Path) -> None:
    for link in links.links(links.rewritten(name, (ROOT / "docs" / name).read_text())):
        file = link.partition("#")[0]
        target = (ROOT / "docs" / name).parent / file
        assert IN_THE_SITE.fullmatch(file), f"{name}: {link}"
        relative = target.resolve().relative_to(ROOT / "docs")
        if relative.parts[0] == "_examples":
            assert (ROOT / "examples" / Path(*relative.parts[1:])).exists(), f"{name}: {link}"
        elif relative.parts[0] != "reference" or target.exists():
            assert target.exists(), f"{name}: {link}"
        else:
            assert relative.stem in links.RENDERED, f"{name}: {link}"


@pytest.mark.parametrize(
    ("page", "link", "in_the_site"),
    [
        ("examples.md", "../examples/python/a.py", "_examples/python/a.py"),
        ("guide/memory.md", "../../examples/python/a.py", "../_examples/python/a.py"),
        ("guide/cpp.md", "../reference/rendered.md#cpp", "../reference/cpp.rst"),
        ("limits.md", "reference/rendered.md#promises", "reference/promises.md"),
        ("guide/cpp.md", "../examples.md", "../examples.md"),
    ],
)
def test_links_are_rewritten_for_the_site(page: str, link: str, in_the_site: str) -> None:
    assert links.site_link(page, link) == in_the_site


def test_dead_links_of_a_built_site_are_found(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        '<h1 id="top"><a href="other.html#there">a</a><a href="#top">b</a><a href="other.html#gone">c</a>'
        '<img src="lost.png"><a href="https://example.org/x">d</a>'
    )
    (tmp_path / "other.html").write_text('<p id="there"><a href="index.html?q=1">e</a>')
    assert site_links.dead_links(tmp_path) == ["index.html: other.html#gone", "index.html: lost.png"]
    assert site_links.main(tmp_path) == 1
