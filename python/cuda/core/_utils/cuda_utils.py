# SPDX-License-Identifier: Apache-2.0
"""Names that released packages import: exceptions of cuda.core, modules of cuda.bindings, and `handle_return`."""

from __future__ import annotations

from typing import Any, NoReturn

from cuda.bindings import driver, nvrtc, runtime

from .._core import Device
from .._device import ComputeCapability
from .._errors import CUDAError, NVRTCError, OutOfMemoryError

__all__ = [
    "CUDAError",
    "ComputeCapability",
    "Device",
    "NVRTCError",
    "driver",
    "handle_return",
    "nvrtc",
    "runtime",
]


def _explanation(code: Any) -> str:
    """Returns the library's description of a result code."""
    functions: dict[Any, Any] = {
        driver.CUresult: driver.cuGetErrorString,
        runtime.cudaError_t: runtime.cudaGetErrorString,
        nvrtc.nvrtcResult: nvrtc.nvrtcGetErrorString,
    }
    text = functions[type(code)](code)[1]
    return text.decode() if text else ""


def _program_log(program: Any) -> str:
    error, size = nvrtc.nvrtcGetProgramLogSize(program)
    if error or size <= 1:
        return ""
    log = bytearray(size)
    nvrtc.nvrtcGetProgramLog(program, log)
    return "\n" + log.split(b"\0")[0].decode(errors="replace")


def _fail(code: Any, handle: Any) -> NoReturn:
    text = f"{code.name}: {_explanation(code)}"
    if isinstance(code, nvrtc.nvrtcResult):
        raise NVRTCError(text + (_program_log(handle) if handle is not None else ""), int(code), code.name)
    memory = (driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY, runtime.cudaError_t.cudaErrorMemoryAllocation)
    raise (OutOfMemoryError if code in memory else CUDAError)(text, int(code), code.name)


def handle_return(result: tuple[Any, ...], handle: Any = None) -> Any:
    """Returns the values of a `(result code, value, ...)` tuple of cuda.bindings: None, a value, or a tuple of values.

    Raises `CUDAError`, or `NVRTCError` for a result code of NVRTC. If `handle` is an NVRTC program, the message
    contains its log.

    >>> handle_return(driver.cuDeviceGetCount()) > 0
    True
    """
    code = result[0]
    if not isinstance(code, (driver.CUresult, runtime.cudaError_t, nvrtc.nvrtcResult)):
        raise RuntimeError(f"{code!r} is no result code of cuda.bindings: {type(code).__name__}")
    if code:
        _fail(code, handle)
    if len(result) == 1:
        return None
    return result[1] if len(result) == 2 else result[1:]
