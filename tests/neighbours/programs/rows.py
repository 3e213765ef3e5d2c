# SPDX-License-Identifier: Apache-2.0
"""Runs the functions of a program one after the other and prints a line for each: `ok NAME` or `no NAME: reason`."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable

_ROWS: list[tuple[str, Callable[[], None]]] = []


def row(name: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Declares a function that fails with an exception."""

    def add(function: Callable[[], None]) -> Callable[[], None]:
        _ROWS.append((name, function))
        return function

    return add


def main() -> None:
    wanted = sys.argv[1:]
    failed = False
    for name, function in _ROWS:
        if wanted and name not in wanted:
            continue
        try:
            function()
            print(f"ok {name}", flush=True)
        except BaseException as error:
            failed = True
            traceback.print_exc()
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            print(f"no {name}: {reason}", flush=True)
    sys.exit(failed)
