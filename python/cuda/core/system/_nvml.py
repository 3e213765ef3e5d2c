# SPDX-License-Identifier: Apache-2.0
"""NVML, initialised once."""

from __future__ import annotations

import threading
from typing import Any

from .. import _core

_lock = threading.Lock()
_nvml: Any = None


def initialized() -> Any:
    """cuda.bindings.nvml after nvmlInit; raises what NVML answers, or that the library is not there."""
    global _nvml
    if _nvml is None:
        with _lock:
            if _nvml is None:
                from cuda.bindings import nvml

                nvml.init_v2()
                _nvml = nvml
    return _nvml


def native() -> Any:
    """The functions and classes of the C++ library's ``cucore::system``, which use the same NVML."""
    initialized()  # the search for the library learns where Python's packages are
    return _core
