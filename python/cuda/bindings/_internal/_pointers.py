# SPDX-License-Identifier: Apache-2.0
"""Addresses of the functions of a library that is loaded at run time."""

from __future__ import annotations

from cuda.bindings import _bindings


def function_pointer(library: str, name: str) -> int:
    """The address of the function `__name`; 0 when the library lacks it, RuntimeError when there is no library."""
    symbol = name.removeprefix("__")
    if not name.startswith("__") or symbol not in _bindings.symbols(f"cuda.bindings.{library}"):
        raise ValueError(f"{name!r} is no function of {library}: names are like '__nvJitLinkVersion'")
    return _bindings.function_pointer(f"cuda.bindings.{library}", symbol)


def function_pointers(library: str) -> dict[str, int]:
    return {
        f"__{name}": function_pointer(library, f"__{name}") for name in _bindings.symbols(f"cuda.bindings.{library}")
    }
