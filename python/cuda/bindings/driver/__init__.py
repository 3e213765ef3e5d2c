# SPDX-License-Identifier: Apache-2.0
"""The CUDA driver API. Functions return `(CUresult, value, ...)`; `cuda.bindings.driver.raising` has the same functions
with exceptions and bare values."""

from __future__ import annotations

import os as _os
import sys as _sys

from cuda.bindings import _bindings, _lazy

if "numba" in _sys.modules and _os.environ.get("CUCORE_DEVICE") == "cpu":
    from cucore.stand_ins import name_driver as _name_driver

    _name_driver()  # numba-cuda imports this module, then loads libcuda.so.1 by its name

_missing, __dir__ = _lazy.lazy(__name__, "cuda.bindings.driver")
sizeof = _bindings.sizeof
