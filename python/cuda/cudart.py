# SPDX-License-Identifier: Apache-2.0
"""The older name of `cuda.bindings.runtime`: the same functions and classes."""

from __future__ import annotations

import warnings

from cuda.bindings import _lazy, runtime

warnings.warn(
    "the module cuda.cudart has moved: import cuda.bindings.runtime instead", DeprecationWarning, stacklevel=2
)
__version__ = "13.5.0"
sizeof = runtime.sizeof
_missing, __dir__ = _lazy.alias(__name__, runtime)

TYPE_CHECKING = False
if TYPE_CHECKING:

    def __getattr__(name: str) -> object: ...
