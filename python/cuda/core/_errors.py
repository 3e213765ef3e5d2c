# SPDX-License-Identifier: Apache-2.0
"""What failed calls raise."""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would cost more than this module
if TYPE_CHECKING:
    from typing import Any


class CUDAError(Exception):
    """A call into CUDA failed. ``code`` is the result as an int, ``name`` its symbol.

    ``call`` is the function that failed, ``object`` what it was called with (``"kernel saxpy"``); None where that is unknown.

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
    """The device has no room for an allocation; the context stays usable."""


class NVRTCError(CUDAError):
    """The runtime compiler failed; the text carries its log.

    >>> try:
    ...     Program("nonsense", "c++").compile("ptx")
    ... except NVRTCError as error:
    ...     print("error" in str(error))
    True
    """

    __module__ = "cuda.core"


def _library_error(name: str, module_name: str, base_name: str) -> type[CUDAError]:
    """A class for failures of a library of the toolkit: a CUDAError, and the exception that cuda.bindings has for it."""
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
        Exception.__init__(self, message)  # the next one in line wants a status
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
