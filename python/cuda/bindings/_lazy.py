# SPDX-License-Identifier: Apache-2.0
"""Modules whose names are made when first touched: importing one costs next to nothing."""

from __future__ import annotations

import sys

import cuda.bindings
from cuda.bindings import _bindings

if not hasattr(cuda.bindings, "_MODULES"):  # NVIDIA's package was installed over ours
    from cucore.mixed import fail

    fail("cuda.bindings")

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any


def lazy(
    module: str, api: str, *, raising: bool = False, more: tuple[str, ...] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`_missing` and `__dir__` for a module that shows the rendered API `api` and `more` names of its own.

    The module's class asks its `_missing` for names that are not in its dict. A `__getattr__` would do the same, but CPython
    then takes the long way for every attribute of the module, and the attribute costs as much as the call after it."""
    namespace = sys.modules[module].__dict__
    sys.modules[module].__class__ = _bindings.LazyModule

    def _missing(name: str) -> Any:
        if name == "__all__":
            value: Any = [*_bindings.names(api), *more]
        elif name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name, obj=sys.modules[module])
        else:
            try:
                value = _bindings.attribute(api, name, raising)
            except AttributeError:
                raise AttributeError(
                    f"module {module!r} has no attribute {name!r}", name=name, obj=sys.modules[module]
                ) from None
        namespace.setdefault(name, value)  # a function written in Python may call the rendered one of its name
        return value

    def __dir__() -> list[str]:
        return sorted({*namespace, *_bindings.names(api)})

    return _missing, __dir__


def alias(module: str, of: ModuleType) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`_missing` and `__dir__` for a module that is an old name of another."""
    namespace = sys.modules[module].__dict__
    sys.modules[module].__class__ = _bindings.LazyModule

    def _missing(name: str) -> Any:
        value = namespace[name] = getattr(of, name)
        return value

    return _missing, lambda: dir(of)
