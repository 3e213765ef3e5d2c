# SPDX-License-Identifier: Apache-2.0
"""The process's exporter (``src/core/exporter.hpp``), which serves other processes until interpreter finalization."""

from __future__ import annotations

import atexit

from . import _core

_mine: _core._Exporter | None = None


def exporter() -> _core._Exporter:
    """Returns the process's exporter. The first call starts it; a forked child has its own."""
    global _mine
    _mine = _core._Exporter.mine()
    return _mine


@atexit.register
def _end() -> None:
    """Ends the exporter before finalization, because it keeps Python objects alive for other processes."""
    global _mine
    _mine = None
    _core._Exporter.end()
