"""Pythonic access to the CUDA runtime: devices, streams, memory, kernels and graphs.

Every name is looked up when it is first used, so that importing the package stays cheap.
"""

from __future__ import annotations

import importlib
from typing import Any

from ._version import __version__

# Where each public name lives. A name is imported from its module at first use and then kept.
_HOMES = {
    # compilation
    "Program": "_program",
    "ProgramOptions": "_program",
    "ObjectCode": "_module",
    "Kernel": "_module",
    "Linker": "_linker",
    "LinkerOptions": "_linker",
}

_SUBMODULES = frozenset({"checkpoint", "experimental", "graph", "system", "texture", "typing", "utils"})

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is not None:
        value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
        globals()[name] = value
        return value
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_SUBMODULES})
