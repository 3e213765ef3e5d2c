# SPDX-License-Identifier: Apache-2.0
"""The version of NVIDIA's cuda.bindings whose interface this package implements."""

__version__ = "13.5.0"
