"""Memory of OpenGL that CUDA uses in place."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from . import _core
from ._errors import CUDAError

if TYPE_CHECKING:
    from ._core import Buffer

_FLAGS = {"none": 0, "read_only": 1, "write_discard": 2, "surface_load_store": 4, "texture_gather": 8}


def _flags(flags: Any) -> int:
    names = () if flags is None else (flags,) if isinstance(flags, str) else tuple(flags)
    bits = 0
    for name in names:
        if name not in _FLAGS:
            raise ValueError(f"unknown flag {name!r}: use {', '.join(_FLAGS)}")
        bits |= _FLAGS[name]
    return bits


def _register(register: Callable[..., int], *arguments: Any) -> int:
    """Register an object of OpenGL, with an error that says what is needed."""
    try:
        return register(*arguments)
    except CUDAError as error:
        raise CUDAError(
            f"{error}: an OpenGL object can be registered while an OpenGL context of the same GPU is current in this "
            "thread (make the window's context current first); the CPU device shares no memory with OpenGL: copy "
            "through host memory there",
            error.code,
            error.name,
        ) from error


class GraphicsResource:
    """A buffer or image of OpenGL: map it for CUDA, unmap it for OpenGL. A context manager that does both.

    With ``vbo`` the number of a buffer object, its OpenGL context current in this thread::

        with GraphicsResource.from_gl_buffer(vbo, flags="write_discard", stream=stream) as buffer:
            launch(stream, config, kernel, buffer, n)
    """

    __module__ = "cuda.core"
    __slots__ = ("__weakref__", "_address", "_buffer", "_handle", "_stream")
    _address: int  # of the memory while it is mapped
    _buffer: weakref.ref[Buffer] | None  # the Buffer holds this object
    _handle: int
    _stream: Any

    def __init__(self) -> None:
        raise RuntimeError("a GraphicsResource comes from from_gl_buffer() or from_gl_image()")

    @classmethod
    def _make(cls, handle: int, stream: Any) -> GraphicsResource:
        self = cls.__new__(cls)
        self._handle = handle
        self._address = 0
        self._buffer = None
        self._stream = stream
        return self

    @classmethod
    def from_gl_buffer(cls, gl_buffer: int, *, flags: Any = None, stream: Any = None) -> GraphicsResource:
        """Register a buffer object; with a stream it is mapped by ``with``."""
        return cls._make(_register(_core.graphics_register_gl_buffer, gl_buffer, _flags(flags)), stream)

    @classmethod
    def from_gl_image(cls, image: int, target: int, *, flags: Any = None) -> GraphicsResource:
        """Register a texture or renderbuffer object."""
        return cls._make(_register(_core.graphics_register_gl_image, image, target, _flags(flags)), None)

    @property
    def handle(self) -> int:
        """The address of the mapped memory; needs map()."""
        if not self._address:
            raise RuntimeError("the resource is not mapped: call map() first")
        return self._address

    @property
    def resource_handle(self) -> Any:
        """The driver's handle, for cuda.bindings."""
        from cuda.bindings import driver

        return driver.CUgraphicsResource(self._handle)

    @property
    def is_mapped(self) -> bool:
        """True between map() and unmap()."""
        return self._address != 0

    @property
    def is_closed(self) -> bool:
        """True after close()."""
        return self._handle == 0

    def map(self, *, stream: Any) -> Buffer:
        """Hand the memory to CUDA until unmap(); returns it as a Buffer."""
        if self.is_closed:
            raise RuntimeError("the resource is closed")
        if self._address:
            raise RuntimeError("the resource is mapped already: call unmap() before map()")
        self._address, size = _core.graphics_map(self._handle, stream)
        self._stream = stream
        buffer = _core.Buffer.from_handle(self._address, size, owner=self)
        self._buffer = weakref.ref(buffer)
        return buffer

    def unmap(self, *, stream: Any = None) -> None:
        """Hand the memory back to OpenGL."""
        if not self._address:
            raise RuntimeError("the resource is not mapped: there is nothing to unmap")
        _core.graphics_unmap(self._handle, self._stream if stream is None else stream)
        buffer, self._address = self._buffer() if self._buffer is not None else None, 0
        if buffer is not None:
            buffer.close()

    def close(self, stream: Any = None) -> None:
        """Unmap and unregister; does nothing the second time."""
        if self._handle == 0:
            return
        if self._address:
            self.unmap(stream=stream)
        handle, self._handle = self._handle, 0
        _core.graphics_unregister(handle)

    def __enter__(self) -> object:
        if self._stream is None:
            raise RuntimeError("give a stream to from_gl_buffer() to use the resource in a with statement")
        return self.map(stream=self._stream)

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> Literal[False]:
        if self._address:
            self.unmap()
        return False

    def __del__(self) -> None:
        try:  # noqa: SIM105
            self.close()
        except Exception:
            pass
