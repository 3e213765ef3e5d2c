# SPDX-License-Identifier: Apache-2.0
"""The older name of `cuda.bindings.driver`: the same functions and classes."""

from __future__ import annotations

import warnings

from cuda.bindings import _lazy, driver

warnings.warn("the module cuda.cuda has moved: import cuda.bindings.driver instead", DeprecationWarning, stacklevel=2)
__version__ = "13.5.0"
sizeof = driver.sizeof
_missing, __dir__ = _lazy.alias(__name__, driver)

TYPE_CHECKING = False
if TYPE_CHECKING:

    def __getattr__(name: str) -> object: ...
