# SPDX-License-Identifier: Apache-2.0
"""Views of arrays of any library."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from math import prod
from typing import Any

from . import _core

# Type codes of DLPack. _RECORD is its opaque handle type, also used with no dtype for elements of known size only.
_INT, _UINT, _FLOAT, _RECORD, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 3, 4, 5, 6
_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13
_CODE_KINDS = {_INT: "i", _UINT: "u", _FLOAT: "f", _COMPLEX: "c"}


def _numpy_dtype(dl_type: tuple[int, int, int]) -> Any:
    import numpy

    code, bits, lanes = dl_type
    if lanes != 1:
        raise BufferError(f"elements of {lanes} lanes have no NumPy type")
    if code == _BFLOAT:
        try:
            import ml_dtypes  # type: ignore[import-not-found, unused-ignore]
        except ImportError:
            raise NotImplementedError("bfloat16 needs the package ml_dtypes to have a NumPy type") from None
        return numpy.dtype(ml_dtypes.bfloat16)
    if code == _BOOL:
        return numpy.dtype(numpy.bool_)
    return numpy.dtype(f"{_CODE_KINDS[code]}{bits // 8}")


def _dl_type_of(dtype: Any) -> tuple[int, int, int]:
    """Converts a NumPy dtype, or an object convertible to one, to DLPack's (code, bits, lanes)."""
    if not hasattr(dtype, "str"):
        import numpy

        dtype = numpy.dtype(dtype)
    if getattr(dtype, "name", "") == "bfloat16":
        return _BFLOAT, 16, 1
    return _core.element_type(dtype.str.replace("=", "<"))


class _StridedLayout:
    """The layout of a view, as kernel compilers (numba-cuda) expect it."""

    __slots__ = ("itemsize", "shape", "strides")

    def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...] | None, itemsize: int) -> None:
        self.shape = shape
        self.strides = _core.dense_strides(shape) if strides is None else strides
        self.itemsize = itemsize

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def strides_in_bytes(self) -> tuple[int, ...]:
        return tuple(stride * self.itemsize for stride in self.strides)

    @property
    def is_contiguous_c(self) -> bool:
        return _core.is_contiguous(self.shape, self.strides)

    @property
    def is_contiguous_f(self) -> bool:
        return _core.is_contiguous(self.shape[::-1], self.strides[::-1])

    @property
    def is_contiguous_any(self) -> bool:
        return self.is_contiguous_c or self.is_contiguous_f


_FIELDS = (
    "_dl_device", "_dl_type", "_dtype", "_owner", "device_id", "exporting_obj", "is_device_accessible", "ptr", "readonly",
    "shape", "strides",
)  # fmt: skip


class StridedMemoryView(_core._View):
    """A view of an array of any library: its address and layout.

    Attributes: ``ptr``, ``shape``, ``strides`` (in elements; None if the exporter gave none: C-contiguous), ``dtype``,
    ``device_id``, ``is_device_accessible``, ``readonly`` and ``exporting_obj``, which the view keeps alive.

    >>> import numpy as np
    >>> view = StridedMemoryView.from_any_interface(np.zeros((2, 3), np.float32), stream_ptr=-1)
    >>> view.shape, view.is_device_accessible
    ((2, 3), False)
    """

    __slots__ = ()

    def __init__(self, obj: object = None, stream_ptr: int | None = None) -> None:
        warnings.warn(
            "StridedMemoryView() is deprecated: use one of its from_... methods, such as from_any_interface()",
            DeprecationWarning,
            stacklevel=2,
        )
        self._assign(
            StridedMemoryView._make(0, (0,), None, (_RECORD, 8, 1), (_CPU, 0), False, None, None)
            if obj is None
            else StridedMemoryView.from_any_interface(obj, stream_ptr)
        )

    def _assign(self, other: StridedMemoryView) -> None:
        for name in _FIELDS:
            setattr(self, name, getattr(other, name))

    @classmethod
    def _make(
        cls, ptr: int, shape: Any, strides: Any, dl_type: Any, dl_device: Any, readonly: bool, obj: Any, owner: Any
    ) -> StridedMemoryView:
        self = cls.__new__(cls)
        self.ptr = ptr
        self.shape = tuple(shape)
        self.strides = None if strides is None else tuple(strides)
        self._dl_type = dl_type
        self._dl_device = dl_device
        kind, number = dl_device
        self.device_id = number if kind in (_CUDA, _CUDA_MANAGED) else -1
        self.is_device_accessible = kind != _CPU
        self.readonly = readonly
        self.exporting_obj = obj
        self._owner = owner
        self._dtype = None
        return self

    @property
    def _layout(self) -> _StridedLayout:
        return _StridedLayout(self.shape, self.strides, self._dl_type[1] * self._dl_type[2] // 8)

    # ---- import; from_any_interface() is implemented in C++, for speed

    @classmethod
    def from_dlpack(cls, obj: object, stream_ptr: int | None = None) -> StridedMemoryView:
        """Create a view of an object with ``__dlpack__``.

        The exporter orders its pending work before work on the stream ``stream_ptr``; -1 for no ordering.
        """
        return _core.view_of_dlpack(cls, obj, stream_ptr)

    @classmethod
    def from_cuda_array_interface(cls, obj: object, stream_ptr: int | None = None) -> StridedMemoryView:
        """Create a view of an object with ``__cuda_array_interface__``.

        The stream ``stream_ptr`` waits for the stream that the object names.
        """
        return _core.view_of_cuda_array_interface(cls, obj, stream_ptr)

    @classmethod
    def from_array_interface(cls, obj: object) -> StridedMemoryView:
        """Create a view of a host array with ``__array_interface__``."""
        return _core.view_of_array_interface(cls, obj)

    @classmethod
    def from_buffer(
        cls,
        buffer: Any,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None = None,
        *,
        itemsize: int | None = None,
        dtype: Any = None,
        is_readonly: bool = False,
    ) -> StridedMemoryView:
        """Create a view of a Buffer, with a ``dtype`` or an ``itemsize`` in bytes.

        A view without a ``dtype`` cannot be exported through DLPack; ``view(dtype=...)`` gives it one.
        """
        if dtype is not None:
            dl_type = _dl_type_of(dtype)
            if itemsize is not None and itemsize * 8 != dl_type[1]:
                raise ValueError(f"itemsize is {itemsize}, but the dtype has {dl_type[1] // 8} bytes")
        elif itemsize is None:
            raise ValueError("from_buffer(): give dtype or itemsize")
        else:
            dl_type = (_RECORD, itemsize * 8, 1)
        shape = tuple(int(n) for n in shape)
        steps = _core.dense_strides(shape) if strides is None else tuple(int(n) for n in strides)
        _core.check_layout(shape, steps, dl_type[1], buffer.size)
        held = _core.hold_memory(buffer)  # keeps the memory alive, even after the buffer is closed
        view = cls._make(buffer.handle, shape, strides, dl_type, buffer.__dlpack_device__(), is_readonly, buffer, held)
        view._dtype = (
            dtype if dtype is not None and hasattr(dtype, "itemsize") and not isinstance(dtype, type) else None
        )
        return view

    # ---- attributes

    @property
    def dtype(self) -> Any:
        """The NumPy dtype of the elements; None if only their size is known."""
        if self._dtype is None and self._dl_type[0] != _RECORD:
            self._dtype = _numpy_dtype(self._dl_type)
        return self._dtype

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    def _itemsize(self) -> int:
        return self._dl_type[1] * self._dl_type[2] // 8

    def _dense_strides(self) -> tuple[int, ...]:
        return _core.dense_strides(self.shape) if self.strides is None else self.strides

    @property
    def _kernel_argument(self) -> int:
        return self.ptr

    def view(self, layout: Any = None, dtype: Any = None) -> StridedMemoryView:
        """Return a view of the same memory with another layout (an object with shape and strides) or another dtype.

        Without arguments, return this view.
        """
        if layout is None and dtype is None:
            return self
        dl_type = self._dl_type if dtype is None else _dl_type_of(dtype)
        if layout is None and dl_type[1] != self._dl_type[1]:
            raise ValueError(
                f"view(): a type of another size needs a layout: {dl_type[1]} bits instead of {self._dl_type[1]}"
            )
        shape = self.shape if layout is None else tuple(layout.shape)
        strides = self.strides if layout is None else layout.strides
        other = StridedMemoryView._make(
            self.ptr, shape, strides, dl_type, self._dl_device, self.readonly, self.exporting_obj, self._owner
        )
        kept = self._dtype if dtype is None else dtype
        other._dtype = kept if hasattr(kept, "str") else None  # if None, created from the DLPack type on first access
        return other

    # ---- pickling

    def __reduce__(self) -> tuple[Any, ...]:
        source = self.exporting_obj
        if source is None:
            raise TypeError("a view whose memory belongs to no object cannot be pickled: pickle a Buffer or an array")
        return _rebuild_view, (source, self.shape, self.strides, self.dtype, self._itemsize(), self.readonly)

    # ---- export

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._dl_device

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """Export the view as a DLPack capsule. The caller is responsible for the order between streams."""
        if self._dl_type[0] == _RECORD:
            raise BufferError(
                f"DLPack has no elements of type {self.dtype}: view them as bytes, as one field or with a dtype, "
                "view(dtype=...)"
            )
        strides = None if self.strides is None else list(self.strides)
        return _core.export_dlpack(
            self.ptr, list(self.shape), strides, *self._dl_type, *self._dl_device, self.readonly, max_version,
            dl_device, copy, stream, self,
        )  # fmt: skip

    def as_tensor_map(
        self,
        box_dim: Any = None,
        *,
        options: Any = None,
        element_strides: tuple[int, ...] | None = None,
        data_type: object = None,
        interleave: object = None,
        swizzle: object = None,
        l2_promotion: object = None,
        oob_fill: object = None,
    ) -> object:
        """Return a tensor map, by which kernels copy tiles of this tensor."""
        from ._tensor_map import TensorMapDescriptor, TensorMapDescriptorOptions

        given = {
            "element_strides": element_strides,
            "data_type": data_type,
            "interleave": interleave,
            "swizzle": swizzle,
            "l2_promotion": l2_promotion,
            "oob_fill": oob_fill,
        }
        given = {name: value for name, value in given.items() if value is not None}
        if isinstance(box_dim, (TensorMapDescriptorOptions, dict)):
            options, box_dim = box_dim, None
        if options is not None:
            if box_dim is not None or given:
                raise TypeError("as_tensor_map(): give options or single values, not both")
            if isinstance(options, dict):
                options = TensorMapDescriptorOptions(**options)
        elif box_dim is None:
            raise TypeError("as_tensor_map(): box_dim is needed: how much of each dimension one copy takes")
        else:
            options = TensorMapDescriptorOptions(box_dim=box_dim, **given)  # type: ignore[arg-type]
        if not self.is_device_accessible:
            raise ValueError(
                "as_tensor_map(): the view is of host memory, which a kernel cannot reach: copy it to the device"
            )
        return TensorMapDescriptor._from_view(self, options)

    # ---- copies

    def copy_from(
        self, other: StridedMemoryView, stream: Any, allocator: object = None, blocking: bool | None = None
    ) -> None:
        """Copy from a view of the same shape and dtype, in order on ``stream``.

        Synchronizes the stream if ``blocking`` is true; by default, if either view is in pageable host memory.
        """
        if self.readonly:
            raise ValueError("copy_from(): this view is read-only")
        if other.shape != self.shape or other._dl_type != self._dl_type:
            raise ValueError(
                f"copy_from(): shapes and types must be equal: {other.shape} of {other.dtype} to {self.shape} of {self.dtype}"
            )
        if stream is None:
            raise ValueError("copy_from(): a stream is needed: pass stream=")
        bits = self._dl_type[1] * self._dl_type[2]
        strides, theirs = self._dense_strides(), other._dense_strides()
        _core.copy_strided(self.ptr, strides, other.ptr, theirs, self.shape, bits, stream)
        if blocking or (blocking is None and _CPU in (self._dl_device[0], other._dl_device[0])):
            stream.sync()

    def copy_to(
        self, other: StridedMemoryView, stream: Any = None, allocator: object = None, blocking: bool | None = None
    ) -> None:
        """Copy to a view of the same shape and dtype. See :meth:`copy_from`."""
        other.copy_from(self, stream, allocator, blocking)

    def __repr__(self) -> str:
        return (
            f"StridedMemoryView(ptr={self.ptr:#x}, shape={self.shape}, strides={self.strides}, "
            f"device_id={self.device_id}, is_device_accessible={self.is_device_accessible}, readonly={self.readonly})"
        )


_core._keep_views_of(StridedMemoryView)


class _StridedMemoryViewProxy:
    """An argument of a decorated function, before the consuming stream is known."""

    __slots__ = ("obj",)

    def __init__(self, obj: object) -> None:
        self.obj = obj

    def view(self, stream_ptr: Any = None) -> StridedMemoryView:
        """Return a StridedMemoryView of the argument, ordered for use on the stream."""
        return StridedMemoryView.from_any_interface(self.obj, stream_ptr)


def args_viewable_as_strided_memory(arg_indices: tuple[int, ...]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that gives the positional arguments with these indices a method ``view(stream_ptr)``.

    >>> import numpy as np
    >>> @args_viewable_as_strided_memory((0,))
    ... def total_size(array):
    ...     view = array.view(-1)
    ...     return view.shape
    >>> total_size(np.zeros(4))
    (4,)
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            found = list(args)
            for index in arg_indices:
                found[index] = _StridedMemoryViewProxy(found[index])
            return function(*found, **kwargs)

        return call

    return decorate


def _rebuild_view(
    source: Any, shape: Any, strides: Any, dtype: Any, itemsize: int, readonly: bool
) -> StridedMemoryView:
    """Unpickles a view of the exporting object that is pickled with it."""
    if isinstance(source, _core.Buffer):
        size = itemsize if dtype is None else None
        return StridedMemoryView.from_buffer(source, shape, strides, itemsize=size, dtype=dtype, is_readonly=readonly)
    view = StridedMemoryView.from_any_interface(source, stream_ptr=-1)
    if view.shape != tuple(shape) or view.strides != strides or view.dtype != dtype:
        view = view.view(_StridedLayout(tuple(shape), strides, itemsize), dtype)
    view.readonly = view.readonly or readonly
    return view
