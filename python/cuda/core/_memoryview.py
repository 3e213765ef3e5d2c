# SPDX-License-Identifier: Apache-2.0
"""A private name of NVIDIA's cuda.core that released packages import: `cuda.core.utils` has the public one."""

from ._strided import StridedMemoryView, args_viewable_as_strided_memory

__all__ = ["StridedMemoryView", "args_viewable_as_strided_memory"]
