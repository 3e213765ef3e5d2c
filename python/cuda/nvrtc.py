# SPDX-License-Identifier: Apache-2.0
"""The older name of `cuda.bindings.nvrtc`: the same functions and classes."""

from __future__ import annotations

import warnings

from cuda.bindings import _lazy, nvrtc

warnings.warn("the module cuda.nvrtc has moved: import cuda.bindings.nvrtc instead", DeprecationWarning, stacklevel=2)
__version__ = "13.5.0"
sizeof = nvrtc.sizeof
_missing, __dir__ = _lazy.alias(__name__, nvrtc)

TYPE_CHECKING = False
if TYPE_CHECKING:

    def __getattr__(name: str) -> object: ...
