# SPDX-License-Identifier: Apache-2.0
"""Loading of dynamic libraries."""

from __future__ import annotations

from . import _environment, _pathfinder


class LoadedDL:
    """A library that stays loaded until the process exits. Do not close the handle: the whole process shares it."""

    __module__ = "cuda.pathfinder"
    __slots__ = ("__weakref__", "_handle_uint", "abs_path", "found_via", "was_already_loaded_from_elsewhere")

    abs_path: str | None
    was_already_loaded_from_elsewhere: bool
    _handle_uint: int
    found_via: str

    def __init__(
        self, abs_path: str | None, was_already_loaded_from_elsewhere: bool, _handle_uint: int, found_via: str
    ) -> None:
        self.abs_path = abs_path
        self.was_already_loaded_from_elsewhere = was_already_loaded_from_elsewhere
        self._handle_uint = _handle_uint
        self.found_via = found_via

    def _values(self) -> tuple[str | None, bool, int, str]:
        return (self.abs_path, self.was_already_loaded_from_elsewhere, self._handle_uint, self.found_via)

    def __eq__(self, other):  # type: ignore[no-untyped-def]
        if other.__class__ is not self.__class__:
            return NotImplemented
        return self._values() == other._values()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"LoadedDL(abs_path={self.abs_path!r}, "
            f"was_already_loaded_from_elsewhere={self.was_already_loaded_from_elsewhere!r}, "
            f"_handle_uint={self._handle_uint!r}, found_via={self.found_via!r})"
        )


_loaded: dict[str, LoadedDL] = {}


def load_nvidia_dynamic_lib(libname: str) -> LoadedDL:
    """Load an NVIDIA library by its short name (``"nvrtc"``, ``"cudart"``, ...), after its dependencies.

    The result is cached: all calls in a process return the same object. Search order: already loaded in the process;
    NVIDIA wheels in site-packages; ``CONDA_PREFIX``; the system's dynamic linker; the product's own variable
    (``CUDNN_PATH``, ...); ``CUDA_PATH`` or ``CUDA_HOME``; toolkits of the system. For driver libraries (``"cuda"``,
    ``"nvml"``) only the system's dynamic linker is used.

    Raises :class:`DynamicLibUnknownError`, :class:`DynamicLibNotAvailableError` or :class:`DynamicLibNotFoundError`,
    whose ``attempts`` list every place searched.
    """
    found = _loaded.get(libname)
    if found is None:
        _environment.refresh()
        found = _loaded.setdefault(libname, LoadedDL(*_pathfinder.load(libname)))
    return found
