# SPDX-License-Identifier: Apache-2.0
"""Exceptions of the layer below the modules."""

from __future__ import annotations

from cuda.bindings._errors import FunctionNotFoundError, NotSupportedError

__all__ = ["FunctionNotFoundError", "NotSupportedError"]
