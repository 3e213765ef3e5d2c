# SPDX-License-Identifier: Apache-2.0
"""The documentation site in a real browser, and what objects show in a notebook."""

from __future__ import annotations

from pathlib import Path

import pytest

from .browser import Browser, check

pytestmark = pytest.mark.cpu_only


def test_the_front_page_shows_its_headings_and_links(browser: Browser, site: Path) -> None:
    check(browser, site / "index.html")
    assert browser.evaluate("document.querySelector('h1').innerText").startswith("cucore")
    assert all(width > 50 and height > 15 for _, _, width, height in browser.boxes("h1, h2"))
    cut = browser.evaluate("[...document.querySelectorAll('pre')].filter(p => p.scrollWidth > p.clientWidth).length")
    assert cut == 0, "a line of code is cut off"
    links = browser.evaluate("[...document.querySelectorAll('.sidebar-tree a')].map(a => a.getAttribute('href'))")
    assert len(links) > 15
    missing = [link for link in links if "://" not in link and not (site / link.split("#")[0]).exists()]
    assert missing == []


def test_every_page_of_the_guide_opens_without_errors(browser: Browser, site: Path) -> None:
    pages = sorted((site / "guide").glob("*.html"))
    assert len(pages) > 15
    found = {}
    for page in pages:
        browser.open(page)
        pictures = browser.evaluate("[...document.querySelectorAll('article img')].filter(i => !i.naturalWidth).length")
        if browser.errors or browser.overflow() or pictures:
            found[page.name] = (browser.errors[:], browser.overflow(), pictures)
    assert found == {}


@pytest.mark.parametrize("name", ["README", "kernels"])
def test_a_page_of_benchmarks_shows_its_chart_and_tables(browser: Browser, site: Path, name: str) -> None:
    check(browser, site / "benchmarks" / f"{name}.html")
    assert all(width > 200 and height > 40 for _, _, width, height in browser.boxes("article table"))
    assert browser.boxes("article table")
    pictures = browser.boxes("article img")
    assert all(width > 300 and height > 100 for _, _, width, height in pictures)
    if name == "README":
        assert pictures


@pytest.mark.parametrize("tool", ["debugging", "explain", "schedules", "coverage", "timeline", "testing"])
def test_each_tool_has_a_picture_that_can_be_read(browser: Browser, site: Path, tool: str) -> None:
    browser.resize(1200, 800)
    browser.open(site / "guide" / f"{tool}.html")
    pictures = browser.boxes("article img")
    assert pictures and all(width > 400 and height > 80 for _, _, width, height in pictures)
    browser.evaluate("document.querySelector('article img').scrollIntoView()")
    assert len(browser.colours(browser.screenshot())) > 30


def notebook(path: Path, body: str) -> Path:
    path.write_text(f"<!doctype html><meta charset='utf-8'><body><div id='output'>{body}</div></body>")
    return path


def test_a_graph_is_drawn_with_its_nodes_and_edges(browser: Browser, tmp_path: Path) -> None:
    from cuda.core import Device, LaunchConfig, Program
    from cuda.core.graph import GraphDefinition

    device = Device()
    device.set_current()
    source = 'extern "C" __global__ void first() {} extern "C" __global__ void second() {}'
    code = Program(source, code_type="c++").compile("cubin")
    graph = GraphDefinition()
    config = LaunchConfig(grid=1, block=1)
    graph.launch(config, code.get_kernel("first")).launch(config, code.get_kernel("second"))
    check(browser, notebook(tmp_path / "graph.html", graph._repr_svg_()))
    (_, _, width, height), *_ = browser.boxes("svg")
    assert width > 50 and height > 50
    texts = browser.evaluate("[...document.querySelectorAll('svg text')].map(t => t.textContent).join(' ')")
    assert "first" in texts and "second" in texts
    # No text is wider than the picture.
    left, top, width, height = browser.boxes("svg")[0]
    for x, y, w, h in browser.boxes("svg text"):
        assert x >= left and x + w <= left + width and y >= top and y + h <= top + height and w > 0


def test_objects_show_tables_in_a_notebook(browser: Browser, tmp_path: Path) -> None:
    from cuda.core import Device, DeviceMemoryResource

    device = Device()
    device.set_current()
    stream = device.create_stream()
    body = "".join(thing._repr_html_() for thing in (device, stream, DeviceMemoryResource(device)))
    check(browser, notebook(tmp_path / "notebook.html", body))
    tables = browser.boxes("table")
    assert len(tables) == 3 and all(width > 80 and height > 30 for _, _, width, height in tables)
    assert "cucore CPU device" in browser.evaluate("document.body.innerText")
    stream.close()
