# SPDX-License-Identifier: Apache-2.0
"""Private names of NVIDIA's cuda.bindings that released packages import (numba-cuda): which functions a library has, and
the classes of enums. Programs need none of this: a function that a library lacks raises when it is called."""
