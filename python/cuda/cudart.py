"""The old name of `cuda.bindings.runtime`: the same functions and classes."""

from __future__ import annotations

import sys
import warnings

from cuda.bindings import runtime

warnings.warn(
    "the module cuda.cudart has moved: import cuda.bindings.runtime instead", DeprecationWarning, stacklevel=2
)
__version__ = "13.5.0"
sizeof = runtime.sizeof


def __getattr__(name: str) -> object:
    value = getattr(runtime, name)
    setattr(sys.modules[__name__], name, value)
    return value


def __dir__() -> list[str]:
    return dir(runtime)
