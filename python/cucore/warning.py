# SPDX-License-Identifier: Apache-2.0
"""Warnings of all packages: one category, attributed to the line of the user's program.

import warnings, cucore.warning
warnings.simplefilter("ignore", cucore.warning.CucoreWarning)
"""

from __future__ import annotations

import sys
import warnings

_OURS = ("cuda.core", "cuda.bindings", "cuda.pathfinder", "cucore", "importlib")


class CucoreWarning(RuntimeWarning, UserWarning):
    """Behaviour differs from what a program may expect: no GPU was found, a cache is not writable, ..."""


def _is_ours(module: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in _OURS)


def _is_import(file: str) -> bool:
    """Returns whether a file belongs to the import system, whose frames `warnings` does not count either."""
    return "importlib" in file and "_bootstrap" in file


def user_stacklevel() -> int:
    """Returns the stacklevel, for the caller of this function, of the first frame outside our packages."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
        level += not _is_import(frame.f_code.co_filename)
    return level


def warn(text: str, category: type[Warning] = CucoreWarning) -> None:
    """Issues a warning, attributed to the line of the user's program."""
    warnings.warn(text, category, stacklevel=user_stacklevel())
