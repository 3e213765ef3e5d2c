"""The old name of `cuda.bindings.driver`: the same functions and classes."""

from __future__ import annotations

import sys
import warnings

from cuda.bindings import driver

warnings.warn("the module cuda.cuda has moved: import cuda.bindings.driver instead", DeprecationWarning, stacklevel=2)
__version__ = "13.5.0"
sizeof = driver.sizeof


def __getattr__(name: str) -> object:
    value = getattr(driver, name)
    setattr(sys.modules[__name__], name, value)
    return value


def __dir__() -> list[str]:
    return dir(driver)
