# SPDX-License-Identifier: Apache-2.0
"""The browser of these tests, and the documentation site."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .browser import Browser, executable

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = executable()
    if program is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    with Browser(program) as browser:
        yield browser


@pytest.fixture(scope="session")
def site() -> Path:
    """The documentation site, built from this checkout."""
    for package in ("sphinx", "myst_parser", "furo", "sphinx_copybutton"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: pip install -r docs/requirements.txt")
    done = subprocess.run([ROOT / "tools" / "docs", sys.executable], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return ROOT / "build" / "docs" / "html"
