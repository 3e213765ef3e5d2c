# SPDX-License-Identifier: Apache-2.0
"""Exceptions, under the names of NVIDIA's internal layer."""

from __future__ import annotations

from cuda.bindings._errors import FunctionNotFoundError, NotSupportedError

__all__ = ["FunctionNotFoundError", "NotSupportedError"]
