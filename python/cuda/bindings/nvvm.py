# SPDX-License-Identifier: Apache-2.0
"""libNVVM: the compiler of NVVM IR. Functions return bare values and raise `nvvmError`."""

from __future__ import annotations

from cuda.bindings import _errors, _lazy

_missing, __dir__ = _lazy.lazy(__name__, "cuda.bindings.nvvm", more=("nvvmError", "check_status"))


class nvvmError(_errors.StatusError):
    """A function failed. `status` is a member of `Result`."""


def check_status(status: int) -> None:
    """Raises an exception if `status` is not success."""
    if status:
        raise nvvmError(status)


_errors.register(__name__, nvvmError)
