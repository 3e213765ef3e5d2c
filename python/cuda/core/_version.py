# SPDX-License-Identifier: Apache-2.0
"""The version of the cuda.core API that this package implements."""

__version__ = "1.2.2"
