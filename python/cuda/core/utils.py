# SPDX-License-Identifier: Apache-2.0
"""Views of arrays of any library, batched copies, and caches of compiled programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._copy import (
    CopyOptions,
    MemcpyOverlapMode,
    MemcpySrcAccessOrder,
    copy_batch,
    discard_batch,
    discard_prefetch_batch,
    prefetch_batch,
)
from ._strided import StridedMemoryView, args_viewable_as_strided_memory

if TYPE_CHECKING:
    from ._program_cache import (
        FileStreamProgramCache,
        InMemoryProgramCache,
        ProgramCacheResource,
        make_program_cache_key,
    )

for _name in (CopyOptions, MemcpyOverlapMode, MemcpySrcAccessOrder, StridedMemoryView):
    _name.__module__ = __name__
del _name

_CACHES = ("FileStreamProgramCache", "InMemoryProgramCache", "ProgramCacheResource", "make_program_cache_key")

__all__ = [
    "CopyOptions",
    "FileStreamProgramCache",
    "InMemoryProgramCache",
    "MemcpyOverlapMode",
    "MemcpySrcAccessOrder",
    "ProgramCacheResource",
    "StridedMemoryView",
    "args_viewable_as_strided_memory",
    "copy_batch",
    "discard_batch",
    "discard_prefetch_batch",
    "make_program_cache_key",
    "prefetch_batch",
]


def __getattr__(name: str) -> Any:
    if name in _CACHES:
        from . import _program_cache

        value = getattr(_program_cache, name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
