# SPDX-License-Identifier: Apache-2.0
"""Tensor maps: descriptors for tile copies by the Tensor Memory Accelerator (compute capability 9.0 and later)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from . import _core


class TensorMapDataType(IntEnum):
    UINT8 = _core.CU_TENSOR_MAP_DATA_TYPE_UINT8
    UINT16 = _core.CU_TENSOR_MAP_DATA_TYPE_UINT16
    UINT32 = _core.CU_TENSOR_MAP_DATA_TYPE_UINT32
    INT32 = _core.CU_TENSOR_MAP_DATA_TYPE_INT32
    UINT64 = _core.CU_TENSOR_MAP_DATA_TYPE_UINT64
    INT64 = _core.CU_TENSOR_MAP_DATA_TYPE_INT64
    FLOAT16 = _core.CU_TENSOR_MAP_DATA_TYPE_FLOAT16
    FLOAT32 = _core.CU_TENSOR_MAP_DATA_TYPE_FLOAT32
    FLOAT64 = _core.CU_TENSOR_MAP_DATA_TYPE_FLOAT64
    BFLOAT16 = _core.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
    FLOAT32_FTZ = _core.CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ
    TFLOAT32 = _core.CU_TENSOR_MAP_DATA_TYPE_TFLOAT32
    TFLOAT32_FTZ = _core.CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ


class TensorMapInterleave(IntEnum):
    NONE = _core.CU_TENSOR_MAP_INTERLEAVE_NONE
    INTERLEAVE_16B = _core.CU_TENSOR_MAP_INTERLEAVE_16B
    INTERLEAVE_32B = _core.CU_TENSOR_MAP_INTERLEAVE_32B


class TensorMapSwizzle(IntEnum):
    NONE = _core.CU_TENSOR_MAP_SWIZZLE_NONE
    SWIZZLE_32B = _core.CU_TENSOR_MAP_SWIZZLE_32B
    SWIZZLE_64B = _core.CU_TENSOR_MAP_SWIZZLE_64B
    SWIZZLE_128B = _core.CU_TENSOR_MAP_SWIZZLE_128B


class TensorMapL2Promotion(IntEnum):
    NONE = _core.CU_TENSOR_MAP_L2_PROMOTION_NONE
    L2_64B = _core.CU_TENSOR_MAP_L2_PROMOTION_L2_64B
    L2_128B = _core.CU_TENSOR_MAP_L2_PROMOTION_L2_128B
    L2_256B = _core.CU_TENSOR_MAP_L2_PROMOTION_L2_256B


class TensorMapOOBFill(IntEnum):
    NONE = _core.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE
    NAN_REQUEST_ZERO_FMA = _core.CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA


class TensorMapIm2ColWideMode(IntEnum):
    W = _core.CU_TENSOR_MAP_IM2COL_WIDE_MODE_W
    W128 = _core.CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128


@dataclass
class TensorMapDescriptorOptions:
    """Options of a tiled tensor map. The constructor raises for arguments of wrong types.

    - ``box_dim``: the extents of a tile in elements, outermost first, as in the view's shape
    - ``element_strides``: the element stride of each dimension, 1 to 8; None for 1
    - ``data_type``: a TensorMapDataType, its name or a NumPy dtype; None for the dtype of the view
    - ``interleave``: the interleaved layout of channels, a TensorMapInterleave
    - ``swizzle``: the swizzle pattern of a tile in shared memory, a TensorMapSwizzle
    - ``l2_promotion``: the size of L2 fetches, a TensorMapL2Promotion
    - ``oob_fill``: the value of out-of-bounds elements, a TensorMapOOBFill

    >>> TensorMapDescriptorOptions(box_dim=(8, 8)).box_dim
    (8, 8)
    """

    box_dim: tuple[int, ...]
    element_strides: tuple[int, ...] | None = None
    data_type: object = None
    interleave: TensorMapInterleave = TensorMapInterleave.NONE
    swizzle: TensorMapSwizzle = TensorMapSwizzle.NONE
    l2_promotion: TensorMapL2Promotion = TensorMapL2Promotion.NONE
    oob_fill: TensorMapOOBFill = TensorMapOOBFill.NONE

    def __post_init__(self) -> None:
        self.box_dim, self.element_strides = _core.tensor_map_options(self)


class TensorMapDescriptor:
    """A tensor map, the argument for a kernel's ``__grid_constant__ CUtensorMap`` parameter.

    ``StridedMemoryView.as_tensor_map()`` creates it.

    >>> import numpy as np
    >>> view = StridedMemoryView.from_buffer(buffer, shape=(16, 16), dtype=np.dtype(np.float32))
    >>> view.as_tensor_map(box_dim=(8, 8))
    <TensorMapDescriptor...>
    """

    __slots__ = ("__weakref__", "_map", "_rank", "_swizzle", "_view")
    _map: Any
    _rank: Any
    _swizzle: Any
    _view: Any

    def __init__(self) -> None:
        raise RuntimeError(
            "TensorMapDescriptor objects cannot be instantiated directly: use StridedMemoryView.as_tensor_map()"
        )

    @classmethod
    def _from_view(cls, view: Any, options: TensorMapDescriptorOptions) -> TensorMapDescriptor:
        self = cls.__new__(cls)
        self._view, self._rank, self._swizzle = view, len(view.shape), options.swizzle
        self._map = _core._TensorMap(view, options)
        return self

    @property
    def device(self) -> Any:
        """The device of the tensor."""
        return _core.Device(self._view.device_id)

    @property
    def _kernel_argument_address(self) -> tuple[int, int]:
        return self._map.address, 128

    def _hold(self) -> Any:
        """Returns the owner of the memory that the map currently refers to."""
        return self._view

    def replace_address(self, tensor: Any) -> None:
        """Replace the tensor by another one of the same type. Raises ValueError if shape, strides or device differ."""
        view_class = type(self._view)
        view = tensor if isinstance(tensor, view_class) else view_class.from_any_interface(tensor, -1)
        if view.shape != self._view.shape or view._dense_strides() != self._view._dense_strides():
            raise ValueError(
                "replace_address(): the tensor must have the same shape and strides: "
                f"{view.shape} and {view._dense_strides()}, not {self._view.shape} and {self._view._dense_strides()}"
            )
        if view.device_id != self._view.device_id:
            raise ValueError(
                f"replace_address(): the tensor is on another device: {view.device_id}, not {self._view.device_id}"
            )
        self._map.replace_address(view.ptr)
        self._view = view

    def __repr__(self) -> str:
        kind = TensorMapDataType(self._map.data_type).name
        return f"<TensorMapDescriptor tiled rank={self._rank} data_type={kind} swizzle={self._swizzle.name}>"


TensorMapDescriptor.__module__ = TensorMapDescriptorOptions.__module__ = "cuda.core"
