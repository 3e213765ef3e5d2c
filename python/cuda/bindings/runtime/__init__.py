# SPDX-License-Identifier: Apache-2.0
"""The CUDA runtime API, our own implementation over the driver: no libcudart is loaded. Functions return
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
    """The version of the runtime API that this module implements."""
    try:
        return cudaRuntimeGetVersion()  # type: ignore[name-defined,no-any-return]
    except NameError:  # made when first touched
        return _missing("cudaRuntimeGetVersion")()  # type: ignore[no-any-return]


def make_cudaExtent(w: int, h: int, d: int) -> Any:
    """A cudaExtent with width, height and depth."""
    try:
        extent = cudaExtent()  # type: ignore[name-defined]
    except NameError:
        extent = _missing("cudaExtent")()
    extent.width, extent.height, extent.depth = w, h, d
    return extent


def make_cudaPos(x: int, y: int, z: int) -> Any:
    """A cudaPos."""
    try:
        pos = cudaPos()  # type: ignore[name-defined]
    except NameError:
        pos = _missing("cudaPos")()
    pos.x, pos.y, pos.z = x, y, z
    return pos


def make_cudaPitchedPtr(d: Any, p: int, xsz: int, ysz: int) -> Any:
    """A cudaPitchedPtr: address, pitch, and the logical width and height."""
    try:
        pointer = cudaPitchedPtr()  # type: ignore[name-defined]
    except NameError:
        pointer = _missing("cudaPitchedPtr")()
    pointer.ptr, pointer.pitch, pointer.xsize, pointer.ysize = d, p, xsz, ysz
    return pointer
