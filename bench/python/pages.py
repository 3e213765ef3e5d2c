"""Host memory of one kind for every side: what a copy of a megabyte takes depends on the pages it goes to."""

from __future__ import annotations

import ctypes
import mmap

LARGE_PAGE = 2 << 20
_regions: list[mmap.mmap] = []


def large_page() -> int:
    """The address of two megabytes on a large page where the system gives one, touched once; never freed. As raw.cpp does."""
    region = mmap.mmap(-1, 2 * LARGE_PAGE)
    region.madvise(mmap.MADV_HUGEPAGE)
    _regions.append(region)
    start = ctypes.addressof(ctypes.c_char.from_buffer(region))
    address = (start + LARGE_PAGE - 1) // LARGE_PAGE * LARGE_PAGE
    ctypes.memset(address, 0, LARGE_PAGE)
    return address
