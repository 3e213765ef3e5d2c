# SPDX-License-Identifier: Apache-2.0
"""nvFatbin: creation of fat binaries. Functions return bare values and raise `nvFatbinError`."""

from __future__ import annotations

from cuda.bindings import _errors, _lazy

_missing, __dir__ = _lazy.lazy(__name__, "cuda.bindings.nvfatbin", more=("nvFatbinError", "check_status"))


class nvFatbinError(_errors.StatusError):
    """A function failed. `status` is a member of `Result`."""


def check_status(status: int) -> None:
    """Raises an exception if `status` is not success."""
    if status:
        raise nvFatbinError(status)


def get_error_string(result: int) -> str:
    """Returns the description of a result code; empty for success."""
    return _missing("get_error_string")(result) or ""


_errors.register(__name__, nvFatbinError)
