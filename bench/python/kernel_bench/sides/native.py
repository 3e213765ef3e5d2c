# SPDX-License-Identifier: Apache-2.0
"""C++ with OpenMP, compiled for this machine: the reference."""

from __future__ import annotations

import ctypes
from pathlib import Path

from ..case import Case
from . import Arrays, Run


class Native:
    name = "native"

    def __init__(self, library: Path) -> None:
        self.library = ctypes.CDLL(str(library))

    def prepare(self, case: Case, arrays: Arrays) -> Run:
        function, *arguments = case.native
        call = getattr(self.library, function)
        ready = [ctypes.c_void_p(arrays[a].ctypes.data) if isinstance(a, str) else a for a in arguments]
        return lambda: call(*ready)

    def finish(self) -> None:
        pass

    def launches(self) -> None:
        return None
