# SPDX-License-Identifier: Apache-2.0
"""The benchmark page matches the JSON files of the runs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/benchmarks"


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "bench/page.py", "--check", folder], capture_output=True, text=True, check=False
    )


def test_page_and_plots_match_the_recorded_runs() -> None:
    done = check(PAGE)
    assert done.returncode == 0, done.stdout + done.stderr


def test_changed_number_makes_the_page_stale(tmp_path: Path) -> None:
    folder = tmp_path / "benchmarks"
    shutil.copytree(PAGE, folder)
    assert check(folder).returncode == 0
    run = json.loads((folder / "h200.json").read_text())
    run["calls"]["launch_3"]["ours"] += 1000
    (folder / "h200.json").write_text(json.dumps(run))
    done = check(folder)
    assert done.returncode == 1 and "README.md" in done.stdout and "h200.svg" in done.stdout


def test_goal_is_met_missed_or_out_of_reach() -> None:
    sys.path.insert(0, str(ROOT / "bench"))
    import page

    row = {"driver": 100.0, "C inside": 100.0, "least": 120.0, "ours": 130.0}
    assert page.verdict("event_record", row) == "+40 met" and page.proof("event_record", row) == ""
    row["ours"] = 150.0
    assert page.verdict("event_record", row) == "+40 missed"
    assert page.proof("event_record", row).startswith(
        "missed: a C function that does nothing but this takes +20; ours takes +30"
    )
    row["least"] = 145.0
    assert page.proof("event_record", row).startswith("out of reach")
    assert page.verdict("event_record", row | {"C inside": 115.0}) == "+40 met against C inside"
    assert (
        page.verdict("device", {"ours": 41.0}) == "40 missed" and page.verdict("device_current", {"ours": 41.0}) == ""
    )


CHARTS = [*sorted(PAGE.glob("*.svg")), ROOT / "docs/_static/architecture.svg"]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("path", CHARTS, ids=lambda path: path.name)
def test_charts_fit_a_page_and_show_readable_names(path: Path) -> None:
    picture = ElementTree.parse(path).getroot()
    width, height = float(picture.attrib["width"]), float(picture.attrib["height"])
    assert width <= 720 and height <= 1500, "a chart is seen as a whole"
    assert picture.findtext(f"{SVG}title"), "a title for readers who do not see it"
    for element in picture.iter(f"{SVG}text"):
        words = "".join(element.itertext())
        assert not re.match(r"(b|launch|graph|copy|alloc)_", words), "the name of a row, not a readable one"
        size = float(element.get("font-size", picture.get("font-size", "13")))
        length = 0.56 * size * len(words)
        x = float(element.attrib["x"])
        anchor = element.get("text-anchor", picture.get("text-anchor", "start"))
        left = {"start": x, "middle": x - length / 2, "end": x - length}[anchor]
        assert left >= 0 and left + length <= width, f"{words!r} leaves the picture"


def test_every_call_of_both_packages_has_a_readable_name() -> None:
    sys.path.insert(0, str(ROOT / "bench"))
    from call_names import NAMES

    for run in PAGE.glob("*.json"):
        if not run.stem.startswith("kinds"):
            calls = json.loads(run.read_text())["calls"]
            assert {name for name, row in calls.items() if "ours" in row} - {"clock_1000", "clock_4000"} <= NAMES.keys()
