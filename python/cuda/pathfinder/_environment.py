# SPDX-License-Identifier: Apache-2.0
"""Python's package directories, and the environment variables of a toolkit."""

import os
import sys

from . import _pathfinder

_warned = False


def site_folders() -> list[str]:
    """Returns the package directories on ``sys.path``: virtual environment, user site, system, ``PYTHONPATH``.

    The script's directory and the working directory are excluded: a library planted there must never be loaded.
    """
    standard = os.path.dirname(os.__file__)
    try:
        here = os.getcwd()
    except OSError:
        here = ""
    script = None if getattr(sys.flags, "safe_path", False) else (sys.path[0] if sys.path else None)
    folders: list[str] = []
    for entry in sys.path:
        if not isinstance(entry, str) or not entry.startswith("/") or entry in folders:
            continue
        named = os.path.basename(entry) in ("site-packages", "dist-packages")
        if not named and (entry in (script, here) or entry.startswith(standard) or entry.endswith(".zip")):
            continue
        folders.append(entry)
    return folders


def refresh() -> None:
    """Passes the current ``sys.path`` to the search. Called before every lookup that is not cached."""
    _pathfinder.set_site_packages(site_folders())


def get_cuda_path_or_home() -> str | None:
    """Return the toolkit's root from ``CUDA_PATH`` or ``CUDA_HOME`` (in that order), read once per process."""
    global _warned
    if not _warned:
        _warned = True
        first, second = os.environ.get("CUDA_PATH"), os.environ.get("CUDA_HOME")
        if first and second and os.path.realpath(first) != os.path.realpath(second):
            from cucore.warning import warn

            warn(
                "Multiple CUDA environment variables are set but differ:\n"
                f"  CUDA_PATH={first}\n  CUDA_HOME={second}\nUsing CUDA_PATH (highest priority)."
            )
    return _pathfinder.cuda_path_or_home()


refresh()
