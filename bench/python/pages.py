# SPDX-License-Identifier: Apache-2.0
"""Host memory of the same kind for every side: the time of a copy of a megabyte depends on its pages."""

from __future__ import annotations

import ctypes
import mmap

LARGE_PAGE = 2 << 20
_regions: list[mmap.mmap] = []


def large_page() -> int:
    """The address of two megabytes on a huge page if available, touched once and never freed, as in raw.cpp."""
    region = mmap.mmap(-1, 2 * LARGE_PAGE)
    region.madvise(mmap.MADV_HUGEPAGE)
    _regions.append(region)
    start = ctypes.addressof(ctypes.c_char.from_buffer(region))
    address = (start + LARGE_PAGE - 1) // LARGE_PAGE * LARGE_PAGE
    ctypes.memset(address, 0, LARGE_PAGE)
    return address
