# SPDX-License-Identifier: Apache-2.0
"""The top folder holds what readers look for there: files that tools drop, such as a fuzzer's finds, do not belong into a commit."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FILES = {
    ".clang-format",
    ".clang-tidy",
    ".editorconfig",
    ".gitignore",
    ".pre-commit-config.yaml",
    "CHANGELOG.md",
    "CMakeLists.txt",
    "CMakePresets.json",
    "CONTRIBUTING.md",
    "HACKING.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "pyproject.toml",
}


def test_the_top_folder_holds_no_unexpected_file() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a Git checkout")
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode != 0:
        pytest.skip(f"git ls-files failed: {listing.stderr.strip()}")
    tracked = {name for name in listing.stdout.splitlines() if "/" not in name and (ROOT / name).exists()}
    assert tracked == FILES
