"""NVVM, the compiler of LLVM IR. Functions return bare values; an error raises `nvvmError`."""

from __future__ import annotations

from cuda.bindings import _errors, _lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__getattr__, __dir__ = _lazy.lazy(__name__, "cuda.bindings.nvvm", more=("nvvmError", "check_status"))


class nvvmError(Exception):
    """A function failed; `status` is the member of `Result`."""

    def __init__(self, status: Any) -> None:
        self.status = __getattr__("Result")(status)
        super().__init__(_errors.status_text(self.status))

    def __reduce__(self) -> Any:
        return (type(self), (int(self.status),))


def check_status(status: int) -> None:
    """Raises for any status but success."""
    if status:
        raise nvvmError(status)


_errors.register(__name__, nvvmError)
