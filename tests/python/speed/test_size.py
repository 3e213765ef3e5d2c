"""How large the installed packages are."""

from __future__ import annotations

from pathlib import Path

import cucore
import cuda.bindings
import cuda.core
import cuda.pathfinder

MEGABYTE = 1_000_000


def files() -> dict[Path, int]:
    """Every file of our packages and its size; links count once."""
    folders = [Path(next(iter(p.__path__))) for p in (cucore, cuda.bindings, cuda.core, cuda.pathfinder)]
    found = (path for folder in folders for path in folder.rglob("*"))
    return {
        path: path.stat().st_size
        for path in found
        if path.is_file() and not path.is_symlink() and "__pycache__" not in path.parts
    }


def test_the_packages_without_the_cpu_device_take_less_than_10_mb() -> None:
    sizes = {
        path: size for path, size in files().items() if "libcucore_cpu" not in path.name and path.parent.name != "cpu"
    }
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:8]
    assert sum(sizes.values()) < 10 * MEGABYTE, largest


def test_the_packages_with_the_cpu_device_take_less_than_60_mb() -> None:
    sizes = files()
    assert sum(sizes.values()) < 60 * MEGABYTE, sorted(sizes.items(), key=lambda item: -item[1])[:8]
