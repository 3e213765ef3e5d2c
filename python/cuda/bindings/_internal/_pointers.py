# SPDX-License-Identifier: Apache-2.0
"""Addresses of the functions of a dynamically loaded library."""

from __future__ import annotations

from cuda.bindings import _bindings


def function_pointer(library: str, name: str) -> int:
    """Returns the address of a function; 0 if the library does not export it. `name` is the C name after `__`.

    Raises RuntimeError if the library is not installed."""
    symbol = name.removeprefix("__")
    if not name.startswith("__") or symbol not in _bindings.symbols(f"cuda.bindings.{library}"):
        raise ValueError(f"{name!r} is no function of {library}: names are like '__nvJitLinkVersion'")
    return _bindings.function_pointer(f"cuda.bindings.{library}", symbol)


def function_pointers(library: str) -> dict[str, int]:
    return {
        f"__{name}": function_pointer(library, f"__{name}") for name in _bindings.symbols(f"cuda.bindings.{library}")
    }
