# SPDX-License-Identifier: Apache-2.0
"""The example in README.md runs, and its numbers match the latest benchmark run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import front_page  # noqa: E402


def test_readme_numbers_match_the_benchmark_pages() -> None:
    page = (ROOT / "README.md").read_text()
    assert front_page.BEGIN + front_page.numbers() + front_page.END in page, "run python bench/front_page.py"


def test_readme_example_runs(tmp_path: Path) -> None:
    page = (ROOT / "README.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.S)
    done = subprocess.run(
        [sys.executable, "-c", example],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=dict(os.environ, PYTHONWARNINGS="ignore"),
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
