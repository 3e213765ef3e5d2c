# SPDX-License-Identifier: Apache-2.0
"""This process's exporter (``src/core/exporter.hpp``), which answers other processes until the interpreter ends."""

from __future__ import annotations

import atexit

from . import _core

_mine: _core._Exporter | None = None


def exporter() -> _core._Exporter:
    """This process's exporter, started by the first call; a forked child has its own."""
    global _mine
    _mine = _core._Exporter.mine()
    return _mine


@atexit.register
def _end() -> None:
    """Before the interpreter ends: what other processes hold is objects of Python."""
    global _mine
    _mine = None
    _core._Exporter.end()
