# SPDX-License-Identifier: Apache-2.0
"""The CUDA runtime API, implemented on top of the driver API: no libcudart is loaded. Functions return
`(cudaError_t, value, ...)`; `cuda.bindings.runtime.raising` has the same functions with exceptions and bare values."""

from __future__ import annotations

from cuda.bindings import _bindings, _lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_missing, __dir__ = _lazy.lazy(
    __name__,
    "cuda.bindings.runtime",
    more=("getLocalRuntimeVersion", "make_cudaExtent", "make_cudaPitchedPtr", "make_cudaPos"),
)
sizeof = _bindings.sizeof


def getLocalRuntimeVersion() -> tuple[Any, int]:
    """Returns the result code and the version of the runtime API that this module implements."""
    try:
        return cudaRuntimeGetVersion()  # type: ignore[name-defined,no-any-return]
    except NameError:  # created at first use
        return _missing("cudaRuntimeGetVersion")()  # type: ignore[no-any-return]


def make_cudaExtent(w: int, h: int, d: int) -> Any:
    """Returns a cudaExtent with width, height and depth."""
    try:
        extent = cudaExtent()  # type: ignore[name-defined]
    except NameError:
        extent = _missing("cudaExtent")()
    extent.width, extent.height, extent.depth = w, h, d
    return extent


def make_cudaPos(x: int, y: int, z: int) -> Any:
    """Returns a cudaPos with coordinates x, y and z."""
    try:
        pos = cudaPos()  # type: ignore[name-defined]
    except NameError:
        pos = _missing("cudaPos")()
    pos.x, pos.y, pos.z = x, y, z
    return pos


def make_cudaPitchedPtr(d: Any, p: int, xsz: int, ysz: int) -> Any:
    """Returns a cudaPitchedPtr: address, pitch, and the logical width and height."""
    try:
        pointer = cudaPitchedPtr()  # type: ignore[name-defined]
    except NameError:
        pointer = _missing("cudaPitchedPtr")()
    pointer.ptr, pointer.pitch, pointer.xsize, pointer.ysize = d, p, xsz, ysz
    return pointer
