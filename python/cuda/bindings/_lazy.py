# SPDX-License-Identifier: Apache-2.0
"""Lazy modules: a name is created at first use, so the import of a module is cheap."""

from __future__ import annotations

import sys

import cuda.bindings
from cuda.bindings import _bindings

if not hasattr(cuda.bindings, "_MODULES"):  # NVIDIA's package has overwritten this one
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
    """Returns `_missing` and `__dir__` for a module with the names of the rendered API `api` and `more` own names.

    The class of the module calls `_missing` for names that are not in the module's dict. A module `__getattr__` is not
    used: with it CPython takes the slow path for every attribute load of the module, and a load costs as much as the
    call after it."""
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
        namespace.setdefault(name, value)  # keeps a Python function of this name, which may call the rendered one
        return value

    def __dir__() -> list[str]:
        return sorted({*namespace, *_bindings.names(api)})

    return _missing, __dir__


def alias(module: str, of: ModuleType) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns `_missing` and `__dir__` for a module that is an older name of another."""
    namespace = sys.modules[module].__dict__
    sys.modules[module].__class__ = _bindings.LazyModule

    def _missing(name: str) -> Any:
        value = namespace[name] = getattr(of, name)
        return value

    return _missing, lambda: dir(of)
