# SPDX-License-Identifier: Apache-2.0
"""The pictures of the front pages: the example draws what they show, and every picture that a page names is there."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from pages import ROOT, pages, read

FRONT = ("README.md", "docs/index.md")


def pixels(path: Path) -> tuple[tuple[int, int], bytes]:
    """Size and colours of a PNG file as examples/python/julia.py writes it: 8 bits for each of three colours, no filters."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    body, at = b"", 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] == b"IDAT":
            body += data[at + 8 : at + 8 + length]
        at += 12 + length
    rows = zlib.decompress(body)
    step = 3 * width + 1
    assert set(rows[::step]) == {0}, "a filter"
    return (width, height), b"".join(rows[step * y + 1 : step * (y + 1)] for y in range(height))


def test_the_julia_set_of_the_front_page_is_what_the_example_draws(tmp_path: Path) -> None:
    drawn = tmp_path / "julia.png"
    command = [sys.executable, str(ROOT / "examples/python/julia.py"), str(drawn)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    size, ours = pixels(drawn)
    recorded_size, recorded = pixels(ROOT / "docs/_static/julia.png")
    assert size == recorded_size
    # The last bits of logarithms and cosines differ between machines, and a point of the chaotic border may fall on another side.
    different = sum(abs(a - b) > 8 for a, b in zip(ours, recorded, strict=True))
    assert different < len(ours) / 50, f"{different} of {len(ours)} values"


def test_the_graph_of_the_guide_is_what_its_program_draws(tmp_path: Path) -> None:
    page = read(ROOT / "docs/guide/graphs.md")
    (tmp_path / "graphs.py").write_text("\n".join(block.text for block in page.of("python")))
    done = subprocess.run([sys.executable, "graphs.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "graph.svg").read_text() == (ROOT / "docs/guide/graph.svg").read_text()


@pytest.mark.parametrize("name", FRONT)
def test_a_front_page_has_its_pictures(name: str) -> None:
    text = (ROOT / name).read_text()
    for picture in ("julia.png", "architecture.svg", "front_calls.svg", "front_kernels.svg"):
        assert picture in text, picture


@pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_pictures_of_pages_exist_and_have_a_description(path: Path) -> None:
    text = path.read_text()
    for description, target in re.findall(r"!\[([^\]]*)\]\(([^)\s]+)\)", text):
        assert (path.parent / target).exists(), target
        assert len(description) > 5, f"{target} says nothing to those who cannot see it"
