"""The old name of `cuda.bindings.nvrtc`: the same functions and classes."""

from __future__ import annotations

import sys
import warnings

from cuda.bindings import nvrtc

warnings.warn("the module cuda.nvrtc has moved: import cuda.bindings.nvrtc instead", DeprecationWarning, stacklevel=2)
__version__ = "13.5.0"
sizeof = nvrtc.sizeof


def __getattr__(name: str) -> object:
    value = getattr(nvrtc, name)
    setattr(sys.modules[__name__], name, value)
    return value


def __dir__() -> list[str]:
    return dir(nvrtc)
