# SPDX-License-Identifier: Apache-2.0
"""Input data for kernels, the same in every run."""

from __future__ import annotations

import numpy as np

random = np.random.default_rng(20)


def ints(count: int, low: int = -1000, high: int = 1000) -> np.ndarray:
    return random.integers(low, high, count, dtype=np.int32)
