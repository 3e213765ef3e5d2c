# SPDX-License-Identifier: Apache-2.0
"""Caches of compiled programs, in memory and on disk."""

from __future__ import annotations

from abc import ABC, abstractmethod

import cuda.pathfinder  # noqa: F401  tells the C++ side where Python packages live

from . import _core

TYPE_CHECKING = False  # importing typing would cost more than this module
if TYPE_CHECKING:
    import collections.abc
    import os
    from collections.abc import Sequence
    from typing import Any

    from ._module import ObjectCode
    from ._program import ProgramOptions


class ProgramCacheResource(ABC):
    """Base class of caches of compiled code. :meth:`Program.compile` calls ``get`` and ``__setitem__``.

    >>> isinstance(InMemoryProgramCache(), ProgramCacheResource)
    True
    """

    __module__ = "cuda.core.utils"

    @abstractmethod
    def __getitem__(self, key: bytes | str) -> bytes:
        """Return the code of a key. Raises KeyError if there is none."""

    @abstractmethod
    def __setitem__(self, key: bytes | str, value: bytes | bytearray | memoryview | ObjectCode) -> None:
        """Store code under a key."""

    @abstractmethod
    def __delitem__(self, key: bytes | str) -> None:
        """Remove an entry. Raises KeyError if there is none."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of entries."""

    @abstractmethod
    def clear(self) -> None:
        """Remove all entries."""

    def get(self, key: bytes | str, default: bytes | None = None) -> bytes | None:
        """Return the code of a key, or the default."""
        try:
            return self[key]
        except KeyError:
            return default

    def update(
        self,
        items: collections.abc.Mapping[bytes | str, bytes | bytearray | memoryview | ObjectCode]
        | collections.abc.Iterable[tuple[bytes | str, bytes | bytearray | memoryview | ObjectCode]],
        /,
    ) -> None:
        """Store the entries of a mapping or of an iterable of pairs."""
        pairs = items.items() if hasattr(items, "items") else items
        for key, value in pairs:
            self[key] = value

    def close(self) -> None:  # noqa: B027  a no-op by default
        """Release the cached code. Idempotent."""

    def __enter__(self) -> ProgramCacheResource:
        return self

    def __exit__(self, exc_type, exc_value, traceback) -> None:  # type: ignore[no-untyped-def]
        self.close()


class _NativeCache(ProgramCacheResource):
    _native: Any

    def _open(self) -> Any:
        if self._native is None:
            raise RuntimeError(f"this {type(self).__name__} is closed")
        return self._native

    def __getitem__(self, key: bytes | str) -> bytes:
        code = self._open().get(key)
        if code is None:
            raise KeyError(key)
        return code  # type: ignore[no-any-return]

    def __setitem__(self, key: bytes | str, value: bytes | bytearray | memoryview | ObjectCode) -> None:
        if isinstance(value, str):
            raise TypeError("compiled code is bytes or an ObjectCode, not a str")
        self._open().put(key, value)

    def __delitem__(self, key: bytes | str) -> None:
        if not self._open().erase(key):
            raise KeyError(key)

    def __len__(self) -> int:
        return len(self._open())

    def get(self, key: bytes | str, default: bytes | None = None) -> bytes | None:
        """Return the code of a key, or the default."""
        code = self._open().get(key)
        return default if code is None else code

    def clear(self) -> None:
        """Remove all entries."""
        self._open().clear()

    def close(self) -> None:
        """Release the cached code. Idempotent."""
        self._native = None


def _limit(max_size_bytes: int | None) -> int | None:
    if max_size_bytes is not None and max_size_bytes <= 0:
        raise ValueError(
            f"max_size_bytes must be None or at least 1, not {max_size_bytes}: a cache of nothing keeps nothing"
        )
    return max_size_bytes


class InMemoryProgramCache(_NativeCache):
    """Caches code in the memory of the process. With a size limit it evicts the least recently used entries.

    >>> cache = InMemoryProgramCache(max_size_bytes=1 << 20)
    >>> code = Program('extern "C" __global__ void f() {}', "c++").compile("ptx", cache=cache)
    >>> len(cache)
    1
    """

    __module__ = "cuda.core.utils"

    def __init__(self, *, max_size_bytes: int | None = None) -> None:
        self._native = _core._InMemoryProgramCache(_limit(max_size_bytes))

    def __repr__(self) -> str:
        return "<InMemoryProgramCache closed>" if self._native is None else f"<InMemoryProgramCache of {len(self)}>"


class FileStreamProgramCache(_NativeCache):
    """Caches code in a directory, for all processes of the user. The default is in the user's cache directory.

    Other users have no access to the directory, files are written atomically, and a damaged file is a miss.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cache = FileStreamProgramCache(folder)
    ...     cache[b"key"] = b"code"
    ...     cache[b"key"]
    b'code'
    """

    __module__ = "cuda.core.utils"

    def __init__(self, path: str | os.PathLike[str] | None = None, *, max_size_bytes: int | None = None) -> None:
        self._native = _core._FileStreamProgramCache(path, _limit(max_size_bytes))

    def __repr__(self) -> str:
        return (
            "<FileStreamProgramCache closed>"
            if self._native is None
            else f"<FileStreamProgramCache {str(self._native.folder)!r}>"
        )


def make_program_cache_key(
    *,
    code: str | bytes,
    code_type: str,
    options: ProgramOptions,
    target_type: str,
    name_expressions: Sequence[str | bytes] = (),
    extra_digest: bytes | None = None,
) -> bytes:
    """Return a cache key: a digest of source, options, compiler, target and kind of device.

    The digest does not cover files that the compiler reads: through ``include_path``, a quoted ``#include`` or one with
    a macro, or a ``name`` with a directory, which NVRTC searches for headers. For these pass ``extra_digest``, a digest
    of their contents; without it a ValueError names them. Options that write a file (``create_pch``, ``time``,
    ``fdevice_time_trace``) have no key, because a cache hit would not write the file.

    >>> key = make_program_cache_key(code="source", code_type="c++", options=ProgramOptions(arch="sm_90"), target_type="ptx")
    >>> key == make_program_cache_key(code="other", code_type="c++", options=ProgramOptions(arch="sm_90"), target_type="ptx")
    False
    """
    given = name_expressions if str(code_type).lower() == "c++" else ()  # only C++ has name expressions
    names = _core.text_values(given, "name_expressions")
    return _core._program_cache_key(code, str(code_type), options, target_type, names, extra_digest)
