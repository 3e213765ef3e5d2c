# SPDX-License-Identifier: Apache-2.0
"""NVVM, the compiler of LLVM IR. Functions return bare values; an error raises `nvvmError`."""

from __future__ import annotations

from cuda.bindings import _errors, _lazy

_missing, __dir__ = _lazy.lazy(__name__, "cuda.bindings.nvvm", more=("nvvmError", "check_status"))


class nvvmError(_errors.StatusError):
    """A function failed; `status` is the member of `Result`."""


def check_status(status: int) -> None:
    """Raises for any status but success."""
    if status:
        raise nvvmError(status)


_errors.register(__name__, nvvmError)
