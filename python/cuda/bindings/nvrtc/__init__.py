# SPDX-License-Identifier: Apache-2.0
"""NVRTC, the runtime compiler. Functions return `(nvrtcResult, value, ...)`; `cuda.bindings.nvrtc.raising` has the same
functions with exceptions and bare values."""

from __future__ import annotations

from cuda.bindings import _bindings, _lazy

_missing, __dir__ = _lazy.lazy(__name__, "cuda.bindings.nvrtc")
sizeof = _bindings.sizeof
