# SPDX-License-Identifier: Apache-2.0
"""Importable in place of NVIDIA's Cython module. C++ programs use the headers of cucore instead.

The names that exist in Python are those of `cuda.bindings.nvrtc`.
"""

from __future__ import annotations

from cuda.bindings import nvrtc as _python


def __getattr__(name: str) -> object:
    return getattr(_python, name)
