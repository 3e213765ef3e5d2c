# SPDX-License-Identifier: Apache-2.0
"""Private names of NVIDIA's cuda.bindings that released packages import (numba-cuda): addresses of a library's
functions, and the classes of enums. Programs do not need them: a call of a function that the library does not export
raises an exception."""
