# SPDX-License-Identifier: Apache-2.0
"""Addresses of the functions of libNVVM."""

from __future__ import annotations

from cuda.bindings._internal._pointers import function_pointer, function_pointers

__all__ = ["_inspect_function_pointer", "_inspect_function_pointers"]


def _inspect_function_pointer(name: str) -> int:
    """Returns the address of a function; 0 if the library does not export it. `name` is the C name after `__`.

    Raises RuntimeError if the library is not installed."""
    return function_pointer("nvvm", name)


def _inspect_function_pointers() -> dict[str, int]:
    """Returns the addresses of all functions, by name."""
    return function_pointers("nvvm")
