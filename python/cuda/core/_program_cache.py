# SPDX-License-Identifier: Apache-2.0
"""Compiled code kept for the next time, in memory or on disk."""

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
    """A store of compiled code by key. Subclass it to keep code elsewhere: ``get`` and ``__setitem__`` are what
    :meth:`Program.compile` needs.

    >>> isinstance(InMemoryProgramCache(), ProgramCacheResource)
    True
    """

    __module__ = "cuda.core.utils"

    @abstractmethod
    def __getitem__(self, key: bytes | str) -> bytes:
        """The code of a key; KeyError when there is none."""

    @abstractmethod
    def __setitem__(self, key: bytes | str, value: bytes | bytearray | memoryview | ObjectCode) -> None:
        """Keep code under a key."""

    @abstractmethod
    def __delitem__(self, key: bytes | str) -> None:
        """Remove a key; KeyError if it is missing."""

    @abstractmethod
    def __len__(self) -> int:
        """How many entries there are."""

    @abstractmethod
    def clear(self) -> None:
        """Remove all entries."""

    def get(self, key: bytes | str, default: bytes | None = None) -> bytes | None:
        """The code of a key, or the default."""
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
        """Keep several entries, of a mapping or of pairs."""
        pairs = items.items() if hasattr(items, "items") else items
        for key, value in pairs:
            self[key] = value

    def close(self) -> None:  # noqa: B027  nothing to do is a fine default
        """Release the cached code. May be called again."""

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
        """The code kept under a key, or the default."""
        code = self._open().get(key)
        return default if code is None else code

    def clear(self) -> None:
        """Remove all entries."""
        self._open().clear()

    def close(self) -> None:
        """Release the cached code. May be called again."""
        self._native = None


def _limit(max_size_bytes: int | None) -> int | None:
    if max_size_bytes is not None and max_size_bytes <= 0:
        raise ValueError(
            f"max_size_bytes must be None or at least 1, not {max_size_bytes}: a cache of nothing keeps nothing"
        )
    return max_size_bytes


class InMemoryProgramCache(_NativeCache):
    """Keeps code in this process; with a limit, evicts the least recently used.

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
    """Keeps code in a folder, for all processes of this user; without a path in the user's cache folder.

    The folder is closed to others, files appear whole or not at all, and what is damaged counts as a miss.

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
    """A digest of all that decides the result: source, options, compiler, target and kind of device.

    Files that the compiler reads cannot be seen from here (``include_path``, a quoted ``#include`` or one through a macro, a
    ``name`` with a folder, beside which NVRTC looks for headers): pass ``extra_digest``, a digest of their contents; without
    it a ValueError names them. Options that are set for the sake of a file (``create_pch``, ``time``,
    ``fdevice_time_trace``) have no key: a hit would not write it.

    >>> key = make_program_cache_key(code="source", code_type="c++", options=ProgramOptions(arch="sm_90"), target_type="ptx")
    >>> key == make_program_cache_key(code="other", code_type="c++", options=ProgramOptions(arch="sm_90"), target_type="ptx")
    False
    """
    given = name_expressions if str(code_type).lower() == "c++" else ()  # others name their kernels themselves
    names = _core.text_values(given, "name_expressions")
    return _core._program_cache_key(code, str(code_type), options, target_type, names, extra_digest)
