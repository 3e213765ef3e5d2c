# SPDX-License-Identifier: Apache-2.0
"""Arrays, textures and surfaces."""

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
    """An ArrayFormatType, its name, or anything whose ``dtype`` or ``name`` is one (np.float32, np.dtype)."""
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
    """An array.

    - ``shape``: (width,), (width, height) or (width, height, depth), in elements
    - ``format``: the type of a channel, an ArrayFormatType, its name or a NumPy type
    - ``num_channels``: channels per element: 1, 2 or 4
    - ``is_surface_load_store``: surfaces can write it

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
    """An array with smaller sizes of itself.

    - ``shape``: of the largest: (width,), (width, height) or (width, height, depth), in elements
    - ``format``: the type of a channel, an ArrayFormatType, its name or a NumPy type
    - ``num_channels``: channels per element: 1, 2 or 4
    - ``num_levels``: how many sizes, each half as large as the one before
    - ``is_surface_load_store``: surfaces can write them

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
    """How a texture is read. Wrong values are errors when the options are made.

    - ``address_mode``: what lies outside the bounds, for all dimensions or a tuple of one to three modes
    - ``filter_mode``: what lies between elements: ``"point"`` takes the nearest one, ``"linear"`` interpolates
    - ``read_mode``: what integers are read as: ``"element_type"`` or ``"normalized_float"`` (0 to 1, -1 to 1)
    - ``normalized_coords``: coordinates go from 0 to 1 instead of counting elements
    - ``srgb``: values are converted from sRGB to linear
    - ``disable_trilinear_optimization``: filter fully between the sizes of a mipmapped array
    - ``seamless_cubemap``: filter across the edges of a cube map's faces
    - ``max_anisotropy``: samples for surfaces seen at an angle, at least 0
    - ``mipmap_filter_mode``: what lies between two sizes of a mipmapped array
    - ``mipmap_level_bias``: added to the level asked for
    - ``min_mipmap_level_clamp``: the lowest level that is read
    - ``max_mipmap_level_clamp``: the highest level that is read
    - ``border_color``: four numbers that are read outside the bounds with address mode ``"border"``

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
    """Something of the driver's on a device, until it is closed. What uses it (a graph, a texture of an array) keeps the
    driver's object longer."""

    __slots__ = ("__weakref__", "_device", "_native")
    _device: Any
    _native: _core._OpaqueArray | _core._MipmappedArray | _core._TextureObject | _core._SurfaceObject

    def __init__(self, *arg: Any, **kwargs: Any) -> None:
        raise RuntimeError(f"{type(self).__name__} objects cannot be instantiated directly: use Device.{self._maker}()")

    _maker = ""

    def _hold(self) -> Any:
        """Keeps the driver's object also when this one is closed."""
        return self._native.hold()

    @property
    def device(self) -> Any:
        """The device it is on."""
        return self._device

    @property
    def is_closed(self) -> bool:
        """True after close()."""
        return self._native.is_closed

    def close(self) -> None:
        """Destroy it; does nothing the second time."""
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
    """Raises, and says what to do, before set_current()."""
    device.context  # noqa: B018
    return device


class _Array(_Closable):
    """What arrays of all kinds have: elements in a layout of the device's own."""

    __slots__ = ("_channels", "_format", "_ldst", "_shape")
    _channels: int
    _format: ArrayFormatType
    _ldst: bool
    _shape: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """(width,), (width, height) or (width, height, depth)."""
        return self._shape

    @property
    def format(self) -> ArrayFormatType:
        """The type of a channel."""
        return self._format

    @property
    def num_channels(self) -> int:
        """Channels per element: 1, 2 or 4."""
        return self._channels

    @property
    def is_surface_load_store(self) -> bool:
        """True when surfaces can write it."""
        return self._ldst


class OpaqueArray(_Array):
    """An array in a layout of the device's own, read through textures and surfaces: ``Device.create_opaque_array``.

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
        """The driver's handle (a CUarray), an int; 0 when closed."""
        return self._native.handle

    @property
    def element_bytes(self) -> int:
        """Bytes of one element, all channels."""
        return self._native.element_bytes

    @property
    def size_bytes(self) -> int:
        """Bytes of all elements, rows packed."""
        return self._native.size_bytes

    def _copy_end(self) -> tuple[int, tuple[int, int, int]]:
        """The handle, and how much a copy of the whole is: bytes of a row, rows, planes."""
        width, height, depth = (*self._shape, 1, 1)[:3]
        return self._open(), (width * self.element_bytes, height, depth)

    def _copy(self, other: Any, to_array: bool, stream: Any) -> None:
        address, size, keep = _core.linear_memory(other, not to_array)
        self._native.copy(address, size, to_array, stream)
        retain = getattr(stream, "_retain", None)
        if retain is not None:  # a GraphBuilder: the copy is made when the graph runs
            retain(_core.hold((self, other if keep is None else memoryview(other))))
        elif keep is not None:  # host memory with no stream-ordered owner: wait, so that it can be let go
            stream.sync()

    def copy_from(self, src: Any, *, stream: Any) -> None:
        """Fill the array from a Buffer or a host object with the buffer protocol, rows packed. What is larger than the
        array is read as far as needed."""
        self._copy(src, True, stream)

    def copy_to(self, dst: Any, *, stream: Any) -> Any:
        """Copy the array to a Buffer or a writable host object at least as large, rows packed; returns it."""
        self._copy(dst, False, stream)
        return dst

    def __repr__(self) -> str:
        return f"<OpaqueArray shape={self._shape} format={self._format.value} num_channels={self._channels}>"


class MipmappedArray(_Array):
    """An array and smaller sizes of it: ``Device.create_mipmapped_array``.

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
        """The driver's handle (a CUmipmappedArray), an int; 0 when closed."""
        return self._native.handle

    @property
    def num_levels(self) -> int:
        """How many sizes there are."""
        return self._levels

    def __repr__(self) -> str:
        kind = f"format={self._format.value} num_channels={self._channels}"
        return f"<MipmappedArray shape={self._shape} {kind} num_levels={self._levels}>"

    def get_level(self, level: int) -> OpaqueArray:
        """One size of it, 0 the largest, as an array that lives in this one."""
        native = self._native.get_level(level)
        return OpaqueArray._wrap(self._device, native, self._format, self._channels, self._ldst)


class ResourceDescriptor:
    """What a texture or surface reads: an array, or memory of a Buffer.

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
        """An array."""
        if not isinstance(array, OpaqueArray):
            raise TypeError(f"array must be an OpaqueArray, not {type(array).__name__}")
        return cls._make(_ARRAY, array, array.format, array.num_channels)

    @classmethod
    def from_mipmapped_array(cls, mipmapped_array: MipmappedArray) -> ResourceDescriptor:
        """An array with all its sizes."""
        if not isinstance(mipmapped_array, MipmappedArray):
            raise TypeError(f"mipmapped_array must be a MipmappedArray, not {type(mipmapped_array).__name__}")
        return cls._make(_MIPMAP, mipmapped_array, mipmapped_array.format, mipmapped_array.num_channels)

    @classmethod
    def from_linear(
        cls, buffer: Any, *, format: Any, num_channels: int, size_bytes: int | None = None
    ) -> ResourceDescriptor:
        """A buffer as elements in a row."""
        self = cls._make(_LINEAR, buffer, _format(format), num_channels)
        self._size = size_bytes
        self._described()  # what does not fit is an error here
        self._size = int(buffer.size if size_bytes is None else size_bytes)
        return self

    @classmethod
    def from_pitch2d(
        cls, buffer: Any, *, format: Any, num_channels: int, width: int, height: int, pitch_bytes: int
    ) -> ResourceDescriptor:
        """A buffer as rows that are ``pitch_bytes`` apart."""
        self = cls._make(_PITCH2D, buffer, _format(format), num_channels)
        self._width, self._height, self._pitch = width, height, pitch_bytes
        self._described()  # what does not fit is an error here
        return self

    @property
    def kind(self) -> str:
        """``"opaque_array"``, ``"mipmapped_array"``, ``"linear"`` or ``"pitch2d"``."""
        return _KINDS[self._kind]

    @property
    def source(self) -> Any:
        """The array or the buffer."""
        return self._source

    @property
    def format(self) -> ArrayFormatType:
        """The type of a channel."""
        return self._format

    @property
    def num_channels(self) -> int:
        """Channels per element: 1, 2 or 4."""
        return self._channels

    @property
    def width(self) -> int | None:
        """Elements per row, of a pitch2d resource."""
        return self._width

    @property
    def height(self) -> int | None:
        """Rows, of a pitch2d resource."""
        return self._height

    @property
    def pitch_bytes(self) -> int | None:
        """Bytes from row to row, of a pitch2d resource."""
        return self._pitch

    @property
    def size_bytes(self) -> int | None:
        """Bytes, of a linear resource."""
        return self._size

    def _described(self) -> Any:
        """The description of C++, which keeps an array."""
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
    """What is passed to kernels by its handle, and keeps the resource it reads or writes."""

    __slots__ = ("_resource",)
    _resource: ResourceDescriptor

    @property
    def handle(self) -> int:
        """The driver's handle, an int."""
        return self._native.handle

    @property
    def _kernel_argument(self) -> int:
        return self._open()

    @property
    def resource(self) -> ResourceDescriptor:
        """What it reads."""
        return self._resource

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'closed' if self.is_closed else f'of {self._resource!r}'}>"


class TextureObject(_Argument):
    """A texture to pass to a kernel: ``Device.create_texture_object``. Keeps what it reads.

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
        """How it is read."""
        return self._options


class SurfaceObject(_Argument):
    """A surface to pass to a kernel: ``Device.create_surface_object``. Keeps what it reads and writes.

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
