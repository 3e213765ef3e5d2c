"""Views of other libraries' arrays, batches of copies, and caches of compiled programs."""

from __future__ import annotations

from typing import Any

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

for _name in (CopyOptions, MemcpyOverlapMode, MemcpySrcAccessOrder, StridedMemoryView):
    _name.__module__ = __name__
del _name

_CACHES = ("FileStreamProgramCache", "InMemoryProgramCache", "ProgramCacheResource", "make_program_cache_key")

__all__ = [
    "CopyOptions",
    "FileStreamProgramCache",  # noqa: F822
    "InMemoryProgramCache",  # noqa: F822
    "MemcpyOverlapMode",
    "MemcpySrcAccessOrder",
    "ProgramCacheResource",  # noqa: F822
    "StridedMemoryView",
    "args_viewable_as_strided_memory",
    "copy_batch",
    "discard_batch",
    "discard_prefetch_batch",
    "make_program_cache_key",  # noqa: F822
    "prefetch_batch",
]


def __getattr__(name: str) -> Any:
    if name in _CACHES:
        from . import _program_cache

        value = getattr(_program_cache, name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
