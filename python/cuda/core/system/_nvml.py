# SPDX-License-Identifier: Apache-2.0
"""NVML, initialised once."""

from __future__ import annotations

import threading
from typing import Any

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
