# SPDX-License-Identifier: Apache-2.0
"""Exceptions of cuda.core."""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would cost more than this module
if TYPE_CHECKING:
    from typing import Any


class CUDAError(Exception):
    """A CUDA call failed. ``code`` is the result code as an int, ``name`` the name of its enumerator.

    ``call`` is the function that failed, ``object`` the object it was called for (``"kernel saxpy"``). Both are None if
    unknown.

    >>> try:
    ...     Device(99)
    ... except (CUDAError, ValueError) as error:
    ...     print(type(error).__name__)
    ValueError
    """

    __module__ = "cuda.core"

    code: int | None
    name: str | None
    call: str | None
    object: str | None

    def __init__(
        self,
        message: str = "",
        code: int | None = None,
        name: str | None = None,
        call: str | None = None,
        object: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.name = name
        self.call = call
        self.object = object

    def __reduce__(self) -> tuple[type, tuple[str | int | None, ...]]:
        return type(self), (str(self), self.code, self.name, self.call, self.object)


class OutOfMemoryError(CUDAError, MemoryError):
    """An allocation failed because the device is out of memory. The context remains usable."""


class NVRTCError(CUDAError):
    """An NVRTC call failed. The message contains the compilation log.

    >>> try:
    ...     Program("nonsense", "c++").compile("ptx")
    ... except NVRTCError as error:
    ...     print("error" in str(error))
    True
    """

    __module__ = "cuda.core"


def _library_error(name: str, module_name: str, base_name: str) -> type[CUDAError]:
    """Creates the exception class of a toolkit library, derived from CUDAError and from the one of cuda.bindings."""
    from importlib import import_module

    module = import_module(module_name)
    base = getattr(module, base_name)

    def __init__(
        self: Any,
        message: str = "",
        code: int | None = None,
        name: str | None = None,
        call: str | None = None,
        object: str | None = None,
    ) -> None:
        Exception.__init__(self, message)  # the next class in the MRO requires a status
        self.code, self.name, self.call, self.object = code, name, call, object
        self.status = module.Result(code)

    text = f"{base_name.removesuffix('Error')} failed; the text carries its log. It is also {module_name}.{base_name}."
    return type(name, (CUDAError, base), {"__init__": __init__, "__doc__": text, "__module__": __name__})


_LIBRARY_ERRORS = {
    "NVVMError": ("cuda.bindings.nvvm", "nvvmError"),
    "NvJitLinkError": ("cuda.bindings.nvjitlink", "nvJitLinkError"),
}


def __getattr__(name: str) -> Any:
    if name in _LIBRARY_ERRORS:
        globals()[name] = _library_error(name, *_LIBRARY_ERRORS[name])
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
