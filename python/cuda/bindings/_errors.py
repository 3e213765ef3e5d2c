# SPDX-License-Identifier: Apache-2.0
"""Exceptions for result codes, raised by the `raising` modules and by the Pythonic modules (bare return values)."""

from __future__ import annotations

import sys

from cuda.bindings import _bindings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


class FunctionNotFoundError(RuntimeError):
    """The installed library does not export a function, because it is older or newer than the interface."""


class NotSupportedError(RuntimeError):
    """The system does not support a function."""


class CUDABindingsError(RuntimeError):
    """A C function returned an error. `code` is a member of its result enum, `function` the name of the function."""

    def __init__(self, code: Any, function: str, text: str = "") -> None:
        super().__init__(f"{function}: {code.name} ({code.value})" + (f": {text}" if text else ""))
        self.code = code
        self.function = function
        self.text = text

    def __reduce__(self) -> Any:
        return (CUDABindingsError, (self.code, self.function, self.text))


def _text(module: str, code: Any) -> str:
    import importlib

    name = {
        "cuda.bindings.driver": "cuGetErrorString",
        "cuda.bindings.runtime": "cudaGetErrorString",
        "cuda.bindings.nvrtc": "nvrtcGetErrorString",
    }.get(module)
    if name is None:
        return ""
    text = getattr(importlib.import_module(module), name)(code)[1]
    return text.decode() if text else ""


_FACTORIES: dict[str, Any] = {}


def register(module: str, factory: Any) -> None:
    """Registers the function that creates the exception for a result code of a module."""
    _FACTORIES[module] = factory


def status_text(code: Any) -> str:
    return f"{code.name} ({code.value})"


class StatusError(Exception):
    """A function of a Pythonic module failed. `status` is a member of the module's result enum."""

    _enum = "Result"

    def __init__(self, status: Any) -> None:
        self.status = getattr(sys.modules[type(self).__module__], self._enum)(status)
        super().__init__(status_text(self.status))

    def __reduce__(self) -> Any:
        return (type(self), (int(self.status),))


def raise_status(module: str, code: Any, function: str) -> NoReturn:
    if module in _FACTORIES:
        raise _FACTORIES[module](code)
    raise CUDABindingsError(code, function, _text(module, code))


_bindings.set_raise_status(raise_status)
