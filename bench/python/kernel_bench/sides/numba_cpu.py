# SPDX-License-Identifier: Apache-2.0
"""Numba's parallel CPU code: the functions of kernel_bench/numba_kernels.py, with the names of the native ones."""

from __future__ import annotations

import ctypes
import inspect
from typing import Any

import numpy as np

from ..case import Case
from . import Arrays, NotHere, Run


class Numba:
    name = "Numba"

    def __init__(self) -> None:
        try:
            import numba
        except ImportError as error:
            raise NotHere(f"{error}: make bench-setup") from error
        from .. import numba_kernels

        self.version = f"Numba {numba.__version__}"
        compile_one = numba.njit(parallel=True)
        self.functions = {
            name: compile_one(function)
            for name, function in inspect.getmembers(numba_kernels, inspect.isfunction)
            if function.__module__ == numba_kernels.__name__ and not name.startswith("_")
        }

    def prepare(self, case: Case, arrays: Arrays) -> Run | None:
        name, *arguments = case.native
        if name not in self.functions:
            return None
        function = self.functions[name]
        ready: list[Any] = [arrays[a] if isinstance(a, str) else _scalar(a) for a in arguments]
        return lambda: function(*ready)

    def finish(self) -> None:
        pass

    def launches(self) -> None:
        return None


def _scalar(value: Any) -> Any:
    return np.float32(value.value) if isinstance(value, ctypes.c_float) else np.int32(value.value)
