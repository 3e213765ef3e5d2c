# SPDX-License-Identifier: Apache-2.0
"""The CUDA driver API. Functions return `(CUresult, value, ...)`; `cuda.bindings.driver.raising` has the same functions
with exceptions and bare values."""

from __future__ import annotations

from cuda.bindings import _bindings, _lazy

_missing, __dir__ = _lazy.lazy(__name__, "cuda.bindings.driver")
sizeof = _bindings.sizeof
