# SPDX-License-Identifier: Apache-2.0
"""The classes of enums, under the name that numba-cuda imports."""

from cuda.bindings._fast_enum import FastEnum, FastEnumMetaclass

__all__ = ["FastEnum", "FastEnumMetaclass"]
