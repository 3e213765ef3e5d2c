"""Which CUDA libraries would be used here, and why: `python examples/python/find_libraries.py [name ...]`."""

from __future__ import annotations

import sys

from cuda import pathfinder


def main() -> None:
    names = sys.argv[1:]
    if names:
        for name in names:
            print(pathfinder.explain(name))
        return
    for name in pathfinder.SUPPORTED_NVIDIA_LIBNAMES:
        report = pathfinder.explain(name)
        where = (
            f"{report.abs_path} ({report.found_via})"
            if report.abs_path
            else f"not found, {len(report.attempts)} places"
        )
        print(f"{name:<12} {where}")


if __name__ == "__main__":
    main()
