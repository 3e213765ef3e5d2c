# SPDX-License-Identifier: Apache-2.0
"""Private names of NVIDIA's cuda.core that released packages import (numba-cuda, cuda.compute). They are the same
objects as the public ones. New code should import `CUDAError` and `NVRTCError` from `cuda.core`."""
