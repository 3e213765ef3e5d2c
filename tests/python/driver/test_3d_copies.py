# SPDX-License-Identifier: Apache-2.0
"""2D and 3D copies between host memory, device memory and arrays, in every combination, compared with NumPy."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from cuda.bindings import driver as d
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

KINDS = ("host", "pinned", "device", "managed", "array", "unified")
# Element size in bytes: array format and number of channels.
ELEMENTS = {1: ("UNSIGNED_INT8", 1), 2: ("HALF", 1), 4: ("FLOAT", 1), 8: ("UNSIGNED_INT16", 4), 16: ("FLOAT", 4)}


@dataclass
class Side:
    """Source or destination of a copy: a volume of bytes (slices, rows, padded row bytes), and the origin of the box in it."""

    kind: str
    volume: np.ndarray
    element: int
    width: int  # elements of a row; the rest of the row is padding
    at: tuple[int, int, int]  # slice, row, element

    def box(self, extent: tuple[int, int, int]) -> np.ndarray:
        z, y, x = self.at
        depth, height, width = extent
        return self.volume[z : z + depth, y : y + height, x * self.element : (x + width) * self.element]


class Place:
    """The memory of one side on the device under test."""

    def __init__(self, side: Side, check: Callable[[Any], Any]) -> None:
        self.side, self.check = side, check
        self.data = side.volume.copy()
        nbytes = self.data.nbytes
        if side.kind in ("device", "unified"):
            self.address = int(check(d.cuMemAlloc(nbytes)))
            check(d.cuMemcpyHtoD(self.address, self.data, nbytes))
        elif side.kind == "managed":
            self.address = int(check(d.cuMemAllocManaged(nbytes, d.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL)))
            ctypes.memmove(self.address, self.data.ctypes.data, nbytes)
        elif side.kind == "pinned":
            self.address = int(check(d.cuMemHostAlloc(nbytes, 0)))
            ctypes.memmove(self.address, self.data.ctypes.data, nbytes)
        elif side.kind == "host":
            self.address = self.data.ctypes.data
        else:
            desc = d.CUDA_ARRAY3D_DESCRIPTOR()
            format, desc.NumChannels = ELEMENTS[side.element]
            desc.Format = getattr(d.CUarray_format, f"CU_AD_FORMAT_{format}")
            desc.Depth, desc.Height, desc.Width = self.data.shape[0], self.data.shape[1], side.width
            self.array = check(d.cuArray3DCreate(desc))
            copy = d.CUDA_MEMCPY3D()
            copy.srcMemoryType, copy.dstMemoryType = (
                d.CUmemorytype.CU_MEMORYTYPE_HOST,
                d.CUmemorytype.CU_MEMORYTYPE_ARRAY,
            )
            copy.srcHost, copy.srcPitch, copy.srcHeight = self.data.ctypes.data, self.data.shape[2], self.data.shape[1]
            copy.dstArray = self.array
            copy.WidthInBytes, copy.Height, copy.Depth = (
                side.width * side.element,
                self.data.shape[1],
                self.data.shape[0],
            )
            check(d.cuMemcpy3D(copy))

    def put(self, copy: Any, end: str) -> None:
        """Sets this as source or destination (`end`: src, dst) of a copy descriptor."""
        side = self.side
        type_ = {"host": "HOST", "pinned": "HOST", "managed": "UNIFIED"}.get(side.kind, side.kind.upper())
        setattr(copy, f"{end}MemoryType", getattr(d.CUmemorytype, f"CU_MEMORYTYPE_{type_}"))
        z, y, x = side.at
        setattr(copy, f"{end}XInBytes", x * side.element)
        setattr(copy, f"{end}Y", y)
        setattr(copy, f"{end}Z", z)
        if side.kind == "array":
            setattr(copy, f"{end}Array", self.array)
            return
        setattr(copy, f"{end}Pitch", side.volume.shape[2])
        setattr(copy, f"{end}Height", side.volume.shape[1])
        setattr(copy, f"{end}{'Host' if type_ == 'HOST' else 'Device'}", self.address)

    def read(self) -> np.ndarray:
        side, check = self.side, self.check
        if side.kind in ("device", "unified"):
            check(d.cuMemcpyDtoH(self.data, self.address, self.data.nbytes))
        elif side.kind in ("managed", "pinned"):
            ctypes.memmove(self.data.ctypes.data, self.address, self.data.nbytes)
        elif side.kind == "array":
            copy = d.CUDA_MEMCPY3D()
            copy.srcMemoryType, copy.dstMemoryType = (
                d.CUmemorytype.CU_MEMORYTYPE_ARRAY,
                d.CUmemorytype.CU_MEMORYTYPE_HOST,
            )
            copy.srcArray = self.array
            copy.dstHost, copy.dstPitch, copy.dstHeight = self.data.ctypes.data, self.data.shape[2], self.data.shape[1]
            copy.WidthInBytes, copy.Height, copy.Depth = (
                side.width * side.element,
                self.data.shape[1],
                self.data.shape[0],
            )
            check(d.cuMemcpy3D(copy))
        return self.data

    def free(self) -> None:
        kind, check = self.side.kind, self.check
        if kind in ("device", "managed", "unified"):
            check(d.cuMemFree(self.address))
        elif kind == "pinned":
            check(d.cuMemFreeHost(self.address))
        elif kind == "array":
            check(d.cuArrayDestroy(self.array))


@st.composite
def sides(draw: Any, kind: str, element: int, extent: tuple[int, int, int], seed: int) -> Side:
    at = tuple(draw(st.integers(0, 3)) for _ in range(3))
    around = tuple(a + e + draw(st.integers(0, 3)) for a, e in zip(at, extent, strict=True))
    padding = 0 if kind == "array" else draw(st.integers(0, 5)) * element
    volume = (
        np.random.RandomState(seed)
        .randint(0, 256, (around[0], around[1], around[2] * element + padding))
        .astype(np.uint8)
    )
    return Side(kind, volume, element, around[2], at)


@pytest.mark.parametrize("source", KINDS)
@pytest.mark.parametrize("target", KINDS)
def test_3d_copy_equals_numpy(context: Any, check: Any, stream: Any, source: str, target: str) -> None:
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), database=None, derandomize=True)
    @given(data=st.data(), element=st.sampled_from(sorted(ELEMENTS)), later=st.booleans())
    def copies(data: Any, element: int, later: bool) -> None:
        extent = tuple(data.draw(st.integers(1, 5)) for _ in range(3))
        ends = [data.draw(sides(kind, element, extent, seed)) for kind, seed in ((source, 1), (target, 2))]
        places = [Place(side, check) for side in ends]
        check(d.cuCtxSynchronize())  # the stream does not wait for earlier copies
        copy = d.CUDA_MEMCPY3D()
        places[0].put(copy, "src")
        places[1].put(copy, "dst")
        copy.Depth, copy.Height = extent[0], extent[1]
        copy.WidthInBytes = extent[2] * element
        if later:
            check(d.cuMemcpy3DAsync(copy, stream))
            check(d.cuStreamSynchronize(stream))
        else:
            check(d.cuMemcpy3D(copy))
        wanted = ends[1].volume.copy()
        Side("", wanted, element, ends[1].width, ends[1].at).box(extent)[...] = ends[0].box(extent)
        np.testing.assert_array_equal(places[1].read(), wanted)
        np.testing.assert_array_equal(places[0].read(), ends[0].volume)
        for place in places:
            place.free()

    copies()


@pytest.mark.parametrize("source", KINDS)
@pytest.mark.parametrize("target", KINDS)
def test_2d_copy_equals_numpy(context: Any, check: Any, stream: Any, source: str, target: str) -> None:
    @settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), database=None, derandomize=True)
    @given(
        data=st.data(), element=st.sampled_from(sorted(ELEMENTS)), how=st.sampled_from(["now", "later", "unaligned"])
    )
    def copies(data: Any, element: int, how: str) -> None:
        extent = (1, data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6)))
        ends = []
        for kind, seed in ((source, 1), (target, 2)):
            side = data.draw(sides(kind, element, extent, seed))
            ends.append(Side(kind, side.volume[:1].copy(), element, side.width, (0, *side.at[1:])))
        places = [Place(side, check) for side in ends]
        check(d.cuCtxSynchronize())
        copy = d.CUDA_MEMCPY2D()
        for place, end in zip(places, ("src", "dst"), strict=True):
            whole = d.CUDA_MEMCPY3D()
            place.put(whole, end)
            for field in ("MemoryType", "XInBytes", "Y", "Host", "Device", "Array", "Pitch"):
                setattr(copy, f"{end}{field}", getattr(whole, f"{end}{field}"))
        copy.WidthInBytes, copy.Height = extent[2] * element, extent[1]
        if how == "later":
            check(d.cuMemcpy2DAsync(copy, stream))
            check(d.cuStreamSynchronize(stream))
        else:
            check((d.cuMemcpy2D if how == "now" else d.cuMemcpy2DUnaligned)(copy))
        wanted = ends[1].volume.copy()
        Side("", wanted, element, ends[1].width, ends[1].at).box(extent)[...] = ends[0].box(extent)
        np.testing.assert_array_equal(places[1].read(), wanted)
        for place in places:
            place.free()

    copies()


def test_copy_out_of_bounds_returns_an_error(context: Any, check: Any) -> None:
    """One element, row or slice more than the array has, and rows wider than the pitch."""
    side = Side("array", np.zeros((2, 3, 16), np.uint8), 4, 4, (0, 0, 0))
    array = Place(side, check)
    host = np.zeros(4096, np.uint8)

    def copy(width: int, height: int, depth: int, pitch: int = 64, x: int = 0) -> int:
        box = d.CUDA_MEMCPY3D()
        array.put(box, "src")
        box.srcXInBytes = x
        box.dstMemoryType, box.dstHost, box.dstPitch, box.dstHeight = (
            d.CUmemorytype.CU_MEMORYTYPE_HOST,
            host.ctypes.data,
            pitch,
            8,
        )
        box.WidthInBytes, box.Height, box.Depth = width, height, depth
        return int(d.cuMemcpy3D(box)[0])

    assert copy(16, 3, 2) == 0
    assert [copy(20, 3, 2), copy(16, 4, 2), copy(16, 3, 3), copy(16, 3, 2, pitch=8), copy(16, 3, 2, x=4)] == [1] * 5
    array.free()
