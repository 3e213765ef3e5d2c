# SPDX-License-Identifier: Apache-2.0
"""cuFile: GPUDirect Storage. Functions return bare values and raise `cuFileError`."""

from __future__ import annotations

from cuda.bindings import _dtypes, _errors, _lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_rendered, __dir__ = _lazy.lazy(
    __name__, "cuda.bindings.cufile", more=("cuFileError", "check_status", "op_status_error")
)


class cuFileError(_errors.StatusError):
    """A function failed. `status` is a member of `OpError`."""

    _enum = "OpError"

    def __init__(self, status: Any, cu_err: Any = None) -> None:
        super().__init__(status)
        self.cu_err = cu_err

    def __reduce__(self) -> Any:
        return (type(self), (int(self.status), self.cu_err))


def check_status(status: int) -> None:
    """Raises an exception if `status` is an error. Results of read and write are errors if they are negative."""
    if status < 0:
        raise cuFileError(-status)
    if status:
        raise cuFileError(status)


def op_status_error(status: int) -> str:
    """Returns the name of an operation's error."""
    return str(_rendered("OpError")(status).name)


def get_parameter_bool(param: int) -> bool:
    """Returns a Boolean parameter of the library."""
    return bool(_rendered("get_parameter_bool")(param))


def set_parameter_string(param: int, desc_str: Any) -> None:
    """Sets a string parameter of the library, given as bytes, str, or the address of a C string."""
    if isinstance(desc_str, int):
        import ctypes

        if not 0 < desc_str < 1 << 64:
            raise ValueError(f"set_parameter_string(): desc_str is no address: {desc_str}")
        desc_str = ctypes.string_at(desc_str)
    _rendered("set_parameter_string")(param, desc_str)


def _missing(name: str) -> Any:
    if name == "pyCUresult":
        from cuda.bindings import driver

        return driver.CUresult
    if name.endswith("_dtype"):
        return _dtypes.find(__name__, name)
    return _rendered(name)


_errors.register(__name__, cuFileError)
