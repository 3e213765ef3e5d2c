# SPDX-License-Identifier: Apache-2.0
"""Where the functions of nvvm are: addresses by name."""

from __future__ import annotations

from cuda.bindings._internal._pointers import function_pointer, function_pointers

__all__ = ["_inspect_function_pointer", "_inspect_function_pointers"]


def _inspect_function_pointer(name: str) -> int:
    """The address of a function, 0 when the library lacks it. The name has two underscores before the C name.

    RuntimeError when the library is not installed."""
    return function_pointer("nvvm", name)


def _inspect_function_pointers() -> dict[str, int]:
    """The addresses of all functions, by name."""
    return function_pointers("nvvm")
