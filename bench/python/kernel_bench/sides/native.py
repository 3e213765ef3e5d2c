"""Plain C++ with OpenMP, compiled for this machine: what everything is compared with."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

from ..case import Case, placed
from . import Fetch, Run


class Native:
    name = "native"

    def __init__(self, library: Path) -> None:
        self.library = ctypes.CDLL(str(library))

    def prepare(self, case: Case) -> tuple[Run, Fetch]:
        arrays = {name: placed(array) for name, array in case.arrays.items()}
        function, *arguments = case.native
        call = getattr(self.library, function)
        ready = [ctypes.c_void_p(arrays[a].ctypes.data) if isinstance(a, str) else a for a in arguments]

        def run(kept: Any = arrays) -> None:
            for _ in range(case.repeat):
                call(*ready)

        return run, lambda name: arrays[name]

    def finish(self) -> None:
        pass

    def launches(self) -> None:
        return None
