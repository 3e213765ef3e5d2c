# SPDX-License-Identifier: Apache-2.0
"""The benchmark page matches the JSON files of the runs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

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
