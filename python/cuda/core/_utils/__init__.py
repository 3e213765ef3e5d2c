# SPDX-License-Identifier: Apache-2.0
"""Private names of NVIDIA's cuda.core that released packages import (numba-cuda, cuda.compute): the same objects as the
public ones. New code takes `CUDAError` and `NVRTCError` from `cuda.core`."""
