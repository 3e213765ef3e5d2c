# SPDX-License-Identifier: Apache-2.0
"""CUDA arrays, texture objects and surface objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import _core
from .typing import AddressModeType, ArrayFormatType, FilterModeType, ReadModeType

__all__ = [
    "MipmappedArray",
    "MipmappedArrayOptions",
    "OpaqueArray",
    "OpaqueArrayOptions",
    "ResourceDescriptor",
    "SurfaceObject",
    "TextureObject",
    "TextureObjectOptions",
]

_ARRAY, _MIPMAP, _LINEAR, _PITCH2D = 0, 1, 2, 3
_KINDS = ("opaque_array", "mipmapped_array", "linear", "pitch2d")


def _format(value: Any) -> ArrayFormatType:
    """Converts an ArrayFormatType, its name, or an object whose ``dtype`` or ``name`` is one (np.float32, np.dtype)."""
    try:
        return ArrayFormatType(value)
    except ValueError:
        name = str(getattr(value, "name", None) or getattr(value, "__name__", None))
        try:
            return ArrayFormatType(name)
        except ValueError:
            known = ", ".join(f.value for f in ArrayFormatType)
            raise ValueError(f"unknown format {value!r}: use one of {known}") from None


@dataclass
class OpaqueArrayOptions:
    """Options of an OpaqueArray.

    - ``shape``: (width,), (width, height) or (width, height, depth), in elements
    - ``format``: the format of a channel: an ArrayFormatType, its name or a NumPy dtype
    - ``num_channels``: the number of channels per element: 1, 2 or 4
    - ``is_surface_load_store``: surface objects can write to the array

    >>> from cuda.core.texture import *
    >>> OpaqueArrayOptions((8, 4), "float32", 1).shape
    (8, 4)
    """

    shape: tuple[int, ...]
    format: object
    num_channels: int
    is_surface_load_store: bool = False


@dataclass
class MipmappedArrayOptions:
    """Options of a MipmappedArray.

    - ``shape``: the extents of level 0: (width,), (width, height) or (width, height, depth), in elements
    - ``format``: the format of a channel: an ArrayFormatType, its name or a NumPy dtype
    - ``num_channels``: the number of channels per element: 1, 2 or 4
    - ``num_levels``: the number of mipmap levels; each has half the extents of the previous one
    - ``is_surface_load_store``: surface objects can write to the levels

    >>> from cuda.core.texture import *
    >>> MipmappedArrayOptions((8, 8), "uint8", 4, 3).num_levels
    3
    """

    shape: tuple[int, ...]
    format: object
    num_channels: int
    num_levels: int
    is_surface_load_store: bool = False


@dataclass
class TextureObjectOptions:
    """Options of a TextureObject. The constructor raises for invalid values.

    - ``address_mode``: the address mode of out-of-range coordinates: one for all dimensions, or a tuple of one to three
    - ``filter_mode``: ``"point"`` returns the nearest element, ``"linear"`` interpolates
    - ``read_mode``: the type that integers are read as: ``"element_type"`` or ``"normalized_float"`` (0 to 1, -1 to 1)
    - ``normalized_coords``: coordinates are in the range 0 to 1 instead of in elements
    - ``srgb``: values are converted from sRGB to linear
    - ``disable_trilinear_optimization``: disable the trilinear filtering optimizations
    - ``seamless_cubemap``: filter across the faces of a cubemap
    - ``max_anisotropy``: the maximum anisotropy ratio, at least 0
    - ``mipmap_filter_mode``: the filter mode between mipmap levels
    - ``mipmap_level_bias``: the offset added to the requested mipmap level
    - ``min_mipmap_level_clamp``: the lowest mipmap level that is read
    - ``max_mipmap_level_clamp``: the highest mipmap level that is read
    - ``border_color``: the four channels of the value that address mode ``"border"`` returns out of range

    >>> from cuda.core.texture import *
    >>> TextureObjectOptions(filter_mode="linear").address_mode
    <AddressModeType.CLAMP...>
    """

    address_mode: AddressModeType | str | tuple[AddressModeType | str, ...] = AddressModeType.CLAMP
    filter_mode: FilterModeType | str = FilterModeType.POINT
    read_mode: ReadModeType | str = ReadModeType.ELEMENT_TYPE
    normalized_coords: bool = False
    srgb: bool = False
    disable_trilinear_optimization: bool = False
    seamless_cubemap: bool = False
    max_anisotropy: int = 0
    mipmap_filter_mode: FilterModeType | str = FilterModeType.POINT
    mipmap_level_bias: float = 0.0
    min_mipmap_level_clamp: float = 0.0
    max_mipmap_level_clamp: float = 0.0
    border_color: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        _core.texture_options(self)


class _Closable:
    """Base class of owners of driver objects. A user of the object (a graph, a texture of an array) keeps the driver
    object alive after close()."""

    __slots__ = ("__weakref__", "_device", "_native")
    _device: Any
    _native: _core._OpaqueArray | _core._MipmappedArray | _core._TextureObject | _core._SurfaceObject

    def __init__(self, *arg: Any, **kwargs: Any) -> None:
        raise RuntimeError(f"{type(self).__name__} objects cannot be instantiated directly: use Device.{self._maker}()")

    _maker = ""

    def _hold(self) -> Any:
        """Returns an owner that keeps the driver object alive after close()."""
        return self._native.hold()

    @property
    def device(self) -> Any:
        """The device of the object."""
        return self._device

    @property
    def is_closed(self) -> bool:
        """True after close()."""
        return self._native.is_closed

    def close(self) -> None:
        """Destroy the object. Idempotent."""
        self._native.close()

    def _open(self) -> int:
        if self._native.is_closed:
            raise RuntimeError(f"the {type(self).__name__} is closed")
        return self._native.handle

    def __enter__(self) -> Any:
        return self

    def __exit__(self, exc_type: Any, exc: Any, tb: Any) -> None:
        self.close()


def _bound(device: Any) -> Any:
    """Returns the device. Raises an error with instructions before the first set_current()."""
    device.context  # noqa: B018
    return device


class _Array(_Closable):
    """Base class of arrays. Elements have an opaque layout, optimized for texture fetches."""

    __slots__ = ("_channels", "_format", "_ldst", "_shape")
    _channels: int
    _format: ArrayFormatType
    _ldst: bool
    _shape: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents in elements: (width,), (width, height) or (width, height, depth)."""
        return self._shape

    @property
    def format(self) -> ArrayFormatType:
        """The format of a channel."""
        return self._format

    @property
    def num_channels(self) -> int:
        """The number of channels per element: 1, 2 or 4."""
        return self._channels

    @property
    def is_surface_load_store(self) -> bool:
        """True if surface objects can write to the array."""
        return self._ldst


class OpaqueArray(_Array):
    """A CUDA array: memory with an opaque layout, accessed through texture and surface objects.

    ``Device.create_opaque_array`` creates it.

    >>> from cuda.core.texture import OpaqueArrayOptions
    >>> with device.create_opaque_array(OpaqueArrayOptions((4, 2), "float32", 1)) as array:
    ...     array.copy_from(bytes(32), stream=stream)
    ...     array
    <OpaqueArray shape=(4, 2) format=float32 num_channels=1>
    """

    __slots__ = ()
    _maker = "create_opaque_array"
    _native: _core._OpaqueArray

    @classmethod
    def _wrap(cls, device: Any, native: Any, fmt: Any, channels: int, ldst: bool) -> OpaqueArray:
        self = cls.__new__(cls)
        self._device, self._native = device, native
        self._shape, self._format, self._channels, self._ldst = tuple(native.shape), fmt, channels, ldst
        return self

    @classmethod
    def _create(cls, device: Any, options: Any) -> OpaqueArray:
        options = _core.options_of(options, OpaqueArrayOptions)
        fmt, ldst = _format(options.format), bool(options.is_surface_load_store)
        _bound(device)
        native = _core._OpaqueArray(options.shape, fmt, options.num_channels, ldst)
        return cls._wrap(device, native, fmt, int(options.num_channels), ldst)

    @property
    def handle(self) -> int:
        """The driver's handle (a ``CUarray``) as an int; 0 after close()."""
        return self._native.handle

    @property
    def element_bytes(self) -> int:
        """The size of an element in bytes, including all channels."""
        return self._native.element_bytes

    @property
    def size_bytes(self) -> int:
        """The size of all elements in bytes, with packed rows."""
        return self._native.size_bytes

    def _copy_end(self) -> tuple[int, tuple[int, int, int]]:
        """Returns the handle and the extent of a full copy: (row size in bytes, number of rows, number of planes)."""
        width, height, depth = (*self._shape, 1, 1)[:3]
        return self._open(), (width * self.element_bytes, height, depth)

    def _copy(self, other: Any, to_array: bool, stream: Any) -> None:
        address, size, keep = _core.linear_memory(other, not to_array)
        self._native.copy(address, size, to_array, stream)
        retain = getattr(stream, "_retain", None)
        if retain is not None:  # a GraphBuilder: the copy runs with the graph
            retain(_core.hold((self, other if keep is None else memoryview(other))))
        elif keep is not None:  # host memory without a stream-ordered owner: synchronize before it is released
            stream.sync()

    def copy_from(self, src: Any, *, stream: Any) -> None:
        """Copy a Buffer or a host object with the buffer protocol to the array. Rows are packed.

        ``src`` may be larger than the array; only the leading bytes are read.
        """
        self._copy(src, True, stream)

    def copy_to(self, dst: Any, *, stream: Any) -> Any:
        """Copy the array to a Buffer or a writable host object, at least as large. Rows are packed. Return ``dst``."""
        self._copy(dst, False, stream)
        return dst

    def __repr__(self) -> str:
        return f"<OpaqueArray shape={self._shape} format={self._format.value} num_channels={self._channels}>"


class MipmappedArray(_Array):
    """A CUDA mipmapped array. ``Device.create_mipmapped_array`` creates it.

    >>> from cuda.core.texture import *
    >>> with device.create_mipmapped_array(MipmappedArrayOptions((8, 8), "uint8", 4, 3)) as mipmaps:
    ...     mipmaps.get_level(1).shape
    (4, 4)
    """

    __slots__ = ("_levels",)
    _levels: int
    _maker = "create_mipmapped_array"
    _native: _core._MipmappedArray

    @classmethod
    def _create(cls, device: Any, options: Any) -> MipmappedArray:
        options = _core.options_of(options, MipmappedArrayOptions)
        self = cls.__new__(cls)
        self._device, self._format = _bound(device), _format(options.format)
        self._levels, self._ldst = int(options.num_levels), bool(options.is_surface_load_store)
        self._native = _core._MipmappedArray(
            options.shape, self._format, options.num_channels, self._levels, self._ldst
        )
        self._shape, self._channels = tuple(self._native.shape), int(options.num_channels)
        return self

    @property
    def handle(self) -> int:
        """The driver's handle (a ``CUmipmappedArray``) as an int; 0 after close()."""
        return self._native.handle

    @property
    def num_levels(self) -> int:
        """The number of mipmap levels."""
        return self._levels

    def __repr__(self) -> str:
        kind = f"format={self._format.value} num_channels={self._channels}"
        return f"<MipmappedArray shape={self._shape} {kind} num_levels={self._levels}>"

    def get_level(self, level: int) -> OpaqueArray:
        """Return a mipmap level as an array that shares this array's memory. Level 0 is the largest."""
        native = self._native.get_level(level)
        return OpaqueArray._wrap(self._device, native, self._format, self._channels, self._ldst)


class ResourceDescriptor:
    """The resource of a texture or surface object: an array, or the memory of a Buffer.

    >>> from cuda.core.texture import *
    >>> ResourceDescriptor.from_linear(buffer, format="float32", num_channels=1)
    <ResourceDescriptor...>
    """

    __slots__ = ("__weakref__", "_channels", "_format", "_height", "_kind", "_pitch", "_size", "_source", "_width")
    _channels: int
    _format: ArrayFormatType
    _height: int | None
    _kind: int
    _pitch: int | None
    _size: int | None
    _source: Any
    _width: int | None

    def __init__(self) -> None:
        raise RuntimeError(
            "ResourceDescriptor objects cannot be instantiated directly: use one of its from_... methods"
        )

    @classmethod
    def _make(cls, kind: int, source: Any, fmt: ArrayFormatType, channels: int) -> ResourceDescriptor:
        self = cls.__new__(cls)
        self._kind, self._source, self._format, self._channels = kind, source, fmt, channels
        self._width = self._height = self._pitch = self._size = None
        return self

    @classmethod
    def from_opaque_array(cls, array: OpaqueArray) -> ResourceDescriptor:
        """Describe an OpaqueArray."""
        if not isinstance(array, OpaqueArray):
            raise TypeError(f"array must be an OpaqueArray, not {type(array).__name__}")
        return cls._make(_ARRAY, array, array.format, array.num_channels)

    @classmethod
    def from_mipmapped_array(cls, mipmapped_array: MipmappedArray) -> ResourceDescriptor:
        """Describe a MipmappedArray with all its levels."""
        if not isinstance(mipmapped_array, MipmappedArray):
            raise TypeError(f"mipmapped_array must be a MipmappedArray, not {type(mipmapped_array).__name__}")
        return cls._make(_MIPMAP, mipmapped_array, mipmapped_array.format, mipmapped_array.num_channels)

    @classmethod
    def from_linear(
        cls, buffer: Any, *, format: Any, num_channels: int, size_bytes: int | None = None
    ) -> ResourceDescriptor:
        """Describe a buffer as linear memory: a one-dimensional sequence of elements."""
        self = cls._make(_LINEAR, buffer, _format(format), num_channels)
        self._size = size_bytes
        self._described()  # raises for invalid arguments
        self._size = int(buffer.size if size_bytes is None else size_bytes)
        return self

    @classmethod
    def from_pitch2d(
        cls, buffer: Any, *, format: Any, num_channels: int, width: int, height: int, pitch_bytes: int
    ) -> ResourceDescriptor:
        """Describe a buffer as pitched 2D memory: ``pitch_bytes`` is the distance between rows in bytes."""
        self = cls._make(_PITCH2D, buffer, _format(format), num_channels)
        self._width, self._height, self._pitch = width, height, pitch_bytes
        self._described()  # raises for invalid arguments
        return self

    @property
    def kind(self) -> str:
        """The kind of resource: ``"opaque_array"``, ``"mipmapped_array"``, ``"linear"`` or ``"pitch2d"``."""
        return _KINDS[self._kind]

    @property
    def source(self) -> Any:
        """The array or buffer."""
        return self._source

    @property
    def format(self) -> ArrayFormatType:
        """The format of a channel."""
        return self._format

    @property
    def num_channels(self) -> int:
        """The number of channels per element: 1, 2 or 4."""
        return self._channels

    @property
    def width(self) -> int | None:
        """The number of elements per row of a pitch2d resource; otherwise None."""
        return self._width

    @property
    def height(self) -> int | None:
        """The number of rows of a pitch2d resource; otherwise None."""
        return self._height

    @property
    def pitch_bytes(self) -> int | None:
        """The distance between rows of a pitch2d resource in bytes; otherwise None."""
        return self._pitch

    @property
    def size_bytes(self) -> int | None:
        """The size of a linear resource in bytes; otherwise None."""
        return self._size

    def _described(self) -> Any:
        """Returns the C++ descriptor, which owns a reference to an array."""
        source, made = self._source, _core._ResourceDescriptor
        if self._kind == _ARRAY:
            return made.from_opaque_array(source._native)
        if self._kind == _MIPMAP:
            return made.from_mipmapped_array(source._native)
        if self._kind == _LINEAR:
            return made.from_linear(source, self._size, self._format, self._channels)
        return made.from_pitch2d(source, self._format, self._channels, self._width, self._height, self._pitch)

    def __repr__(self) -> str:
        return f"<ResourceDescriptor {self.kind} format={self._format.value} num_channels={self._channels}>"


class _Argument(_Closable):
    """Base class of texture and surface objects: kernel arguments that keep their resource alive."""

    __slots__ = ("_resource",)
    _resource: ResourceDescriptor

    @property
    def handle(self) -> int:
        """The driver's handle as an int."""
        return self._native.handle

    @property
    def _kernel_argument(self) -> int:
        return self._open()

    @property
    def resource(self) -> ResourceDescriptor:
        """The descriptor of the resource."""
        return self._resource

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'closed' if self.is_closed else f'of {self._resource!r}'}>"


class TextureObject(_Argument):
    """A texture object, passed to kernels by value. Keeps its resource alive.

    ``Device.create_texture_object`` creates it.

    >>> from cuda.core.texture import *
    >>> array = device.create_opaque_array(OpaqueArrayOptions((8, 4), "float32", 1, is_surface_load_store=True))
    >>> resource = ResourceDescriptor.from_opaque_array(array)
    >>> with device.create_texture_object(resource=resource, options=TextureObjectOptions()) as texture:
    ...     texture.resource is resource
    True
    """

    __slots__ = ("_options",)
    _options: TextureObjectOptions
    _maker = "create_texture_object"
    _native: _core._TextureObject

    @classmethod
    def _create(cls, device: Any, resource: Any, options: Any) -> TextureObject:
        if not isinstance(resource, ResourceDescriptor):
            raise TypeError(f"resource must be a ResourceDescriptor, not {type(resource).__name__}")
        o = _core.options_or_default(options, TextureObjectOptions)
        self = cls.__new__(cls)
        self._device, self._resource, self._options = _bound(device), resource, o
        keep = None if resource._kind in (_ARRAY, _MIPMAP) else _core.hold(resource.source)
        self._native = _core._TextureObject(resource._described(), keep, _core.texture_options(o))
        return self

    @property
    def options(self) -> TextureObjectOptions:
        """The options of the texture object."""
        return self._options


class SurfaceObject(_Argument):
    """A surface object, passed to kernels by value. Keeps its resource alive.

    ``Device.create_surface_object`` creates it.

    >>> from cuda.core.texture import *
    >>> array = device.create_opaque_array(OpaqueArrayOptions((8, 4), "float32", 1, is_surface_load_store=True))
    >>> resource = ResourceDescriptor.from_opaque_array(array)
    >>> with device.create_surface_object(resource=resource) as surface:
    ...     surface.resource is resource
    True
    """

    __slots__ = ()
    _maker = "create_surface_object"
    _native: _core._SurfaceObject

    @classmethod
    def _create(cls, device: Any, resource: Any) -> SurfaceObject:
        if not isinstance(resource, ResourceDescriptor):
            raise TypeError(f"resource must be a ResourceDescriptor, not {type(resource).__name__}")
        self = cls.__new__(cls)
        self._device, self._resource = _bound(device), resource
        self._native = _core._SurfaceObject(resource._described())
        return self
