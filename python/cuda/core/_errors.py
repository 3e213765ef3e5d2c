"""What failed calls raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class CUDAError(Exception):
    """A call into CUDA failed. ``code`` is the result as an int, ``name`` its symbol.

    >>> try:
    ...     Device(99)
    ... except (CUDAError, ValueError) as error:
    ...     print(type(error).__name__)
    ValueError
    """

    __module__ = "cuda.core"

    code: int | None
    name: str | None

    def __init__(self, message: str = "", code: int | None = None, name: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.name = name

    def __reduce__(self) -> tuple[type, tuple[str, int | None, str | None]]:
        return type(self), (str(self), self.code, self.name)


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


def attach(first: BaseException, later: BaseException) -> None:
    """Note an error of cleaning up on the one that made it necessary, which is the one to raise."""
    notes = [*getattr(first, "__notes__", ()), f"while cleaning up: {type(later).__name__}: {later}"]
    first.__notes__ = notes  # what add_note() does from Python 3.11 on


class undoing:
    """``with undoing(call, *arguments):`` makes the call when the block raises; what fails then is attached."""

    def __init__(self, call: Callable[..., object], *arguments: Any) -> None:
        self._call, self._arguments = call, arguments

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            try:
                self._call(*self._arguments)
            except Exception as later:
                attach(error, later)


def all_of(calls: list[tuple[Any, ...]]) -> None:
    """Make every call, also when one fails; raise the first error, with the others attached."""
    first: Exception | None = None
    for call, *arguments in calls:
        try:
            call(*arguments)
        except Exception as error:
            if first is None:
                first = error
            else:
                attach(first, error)
    if first is not None:
        raise first
