# SPDX-License-Identifier: Apache-2.0
"""The pages of the tools in a real browser: no errors, everything is drawn, nothing is cut off."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .browser import Browser, check

pytestmark = pytest.mark.cpu_only

GUIDE = Path(__file__).parents[3] / "docs" / "guide"


def program_of(page: str, name: str) -> str:
    """A program that a page of the guide shows."""
    found = re.search(rf"<!-- file: {re.escape(name)} -->\n```\w+\n(.*?)```", (GUIDE / page).read_text(), re.S)
    assert found is not None
    return found.group(1)


def cucore(folder: Path, *arguments: str) -> None:
    environment = os.environ | {"CUCORE_DEVICE": "cpu"}
    done = subprocess.run([sys.executable, "-m", "cucore", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def timeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("timeline")
    (folder / "pipeline.py").write_text(program_of("timeline.md", "pipeline.py"))
    cucore(folder, "trace", "-o", "trace.json", "--html", "timeline.html", "pipeline.py")
    return folder / "timeline.html"


def test_the_timeline_shows_kernels_copies_and_compilation(browser: Browser, timeline: Path) -> None:
    check(browser, timeline, "#33aa77", "#9999aa", "#cc8833")
    names = browser.evaluate("[...document.querySelectorAll('.track .name')].map(e => e.textContent)")
    assert "main thread" in names and sum(name.startswith("stream ") for name in names) >= 3
    tracks = browser.boxes(".track")
    assert len(tracks) == len(names) and all(width > 600 and height > 10 for _, _, width, height in tracks)
    kernels = browser.boxes("rect[data-name=smooth]")
    assert len(kernels) == 12 and all(width > 0 and height > 10 for _, _, width, height in kernels)
    assert browser.evaluate("document.querySelector('rect[data-name=smooth] title').textContent.includes('grid')")


def test_the_timeline_is_zoomed_and_moved_with_the_mouse(browser: Browser, timeline: Path) -> None:
    check(browser, timeline)
    left, top, width, height = browser.boxes("rect[data-name=smooth]")[0]
    for _ in range(25):
        left, top, width, height = browser.boxes("rect[data-name=smooth]")[0]
        browser.wheel(left + width / 2, top + height / 2, -100)
    assert browser.boxes("rect[data-name=smooth]")[0][2] > 40, "the first kernel is wide now"
    assert "smooth" in browser.evaluate("[...document.querySelectorAll('.labels span')].map(e => e.textContent)")
    zoomed = browser.evaluate("document.querySelector('.axis').textContent")
    assert browser.colours(browser.screenshot())["#33aa77"] > 400
    browser.evaluate("document.querySelector('.picture').dispatchEvent(new MouseEvent('dblclick', {bubbles: true}))")
    assert browser.evaluate("document.querySelector('.axis').textContent") != zoomed
    assert browser.evaluate("document.querySelector('.axis').textContent").startswith("0.000 ms to ")
    assert browser.errors == []


def test_explain_shows_source_ptx_and_vector_code_side_by_side(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "mix.cu").write_text(program_of("explain.md", "mix.cu"))
    cucore(tmp_path, "explain", "mix.cu", "--html", "mix.html")
    check(browser, tmp_path / "mix.html", "#f0f3f8", "#1c2330")
    source, ptx, code = ([box[0] for box in browser.boxes(f"tr td:nth-child({n})")] for n in (3, 4, 5))
    assert max(source) < min(ptx) and max(ptx) < min(code)
    assert all(height < 400 for _, _, _, height in browser.boxes("tr")), "a long prologue hides the source"
    text = browser.evaluate("document.body.innerText")
    assert "ld.param" in text and 'extern "C" __global__ void mix' in text
    bars = browser.boxes(".bar")
    assert bars and max(width for _, _, width, _ in bars) > 5
    # The headings stay visible while the page scrolls.
    browser.evaluate("scrollTo(0, document.body.scrollHeight / 2)")
    assert browser.boxes("th")[0][1] == pytest.approx(0, abs=2)


def test_coverage_shows_lines_that_ran_and_lines_that_did_not(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "clamp.py").write_text(program_of("coverage.md", "clamp.py"))
    cucore(tmp_path, "coverage-run", "--html", "pages", "clamp.py")
    check(browser, tmp_path / "pages" / "index.html", "#44aa44", "#ffd9d6")
    assert browser.evaluate("document.querySelector('table').innerText.includes('86%')")
    left, top, *_ = browser.boxes("a")[0]
    browser.events.clear()
    browser.click(left + 5, top + 5)
    while "Page.loadEventFired" not in browser.events:  # the link leads to the page of the file
        browser.note(browser.receive())
    assert browser.evaluate("document.body.innerText.includes('data[i] = -limit;')")
    page = tmp_path / "pages" / "file0.html"
    found = check(browser, page, "#d9f2d9", "#fff2c2", "#ffd9d6")
    assert found["#d9f2d9"] > found["#ffd9d6"], "more lines ran than not"
