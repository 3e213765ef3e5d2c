"""What failed calls raise."""

from __future__ import annotations


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
