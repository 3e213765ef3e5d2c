# SPDX-License-Identifier: Apache-2.0
"""nvJitLink: the linker of device code. Functions return bare values and raise `nvJitLinkError`."""

from __future__ import annotations

from cuda.bindings import _errors, _lazy

_missing, __dir__ = _lazy.lazy(__name__, "cuda.bindings.nvjitlink", more=("nvJitLinkError", "check_status"))


class nvJitLinkError(_errors.StatusError):
    """A function failed. `status` is a member of `Result`."""


def check_status(status: int) -> None:
    """Raises an exception if `status` is not success."""
    if status:
        raise nvJitLinkError(status)


_errors.register(__name__, nvJitLinkError)
