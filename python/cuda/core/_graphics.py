# SPDX-License-Identifier: Apache-2.0
"""OpenGL interoperability: CUDA access to OpenGL buffers and images."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Literal

from . import _core

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


class GraphicsResource:
    """A registered OpenGL buffer or image. CUDA may access it while it is mapped, OpenGL while it is unmapped.

    As a context manager it maps the resource and unmaps it at the end. In the example, ``vbo`` is the name of a buffer
    object whose OpenGL context is current on the calling thread::

        with GraphicsResource.from_gl_buffer(vbo, flags="write_discard", stream=stream) as buffer:
            launch(stream, config, kernel, buffer, n)
    """

    __module__ = "cuda.core"
    __slots__ = ("__weakref__", "_buffer", "_native", "_stream")
    _buffer: weakref.ref[Buffer] | None  # weak: the Buffer owns a reference to this object
    _native: _core._GraphicsResource
    _stream: Any

    def __init__(self) -> None:
        raise RuntimeError(
            "GraphicsResource objects cannot be instantiated directly: use from_gl_buffer() or from_gl_image()"
        )

    @classmethod
    def _make(cls, native: _core._GraphicsResource, stream: Any) -> GraphicsResource:
        self = cls.__new__(cls)
        self._native = native
        self._buffer = None
        self._stream = stream
        return self

    @classmethod
    def from_gl_buffer(cls, gl_buffer: int, *, flags: Any = None, stream: Any = None) -> GraphicsResource:
        """Register a buffer object. ``with`` maps it on ``stream``, if one is given."""
        return cls._make(_core._GraphicsResource.from_gl_buffer(gl_buffer, _flags(flags)), stream)

    @classmethod
    def from_gl_image(cls, image: int, target: int, *, flags: Any = None) -> GraphicsResource:
        """Register a texture or renderbuffer object."""
        return cls._make(_core._GraphicsResource.from_gl_image(image, target, _flags(flags)), None)

    @property
    def handle(self) -> int:
        """The device address of the mapped memory. The resource must be mapped."""
        return self._native.address

    @property
    def resource_handle(self) -> Any:
        """The driver's handle (a ``CUgraphicsResource``), for cuda.bindings."""
        from cuda.bindings import driver

        return driver.CUgraphicsResource(self._native.handle)

    @property
    def is_mapped(self) -> bool:
        """True between map() and unmap()."""
        return self._native.is_mapped

    @property
    def is_closed(self) -> bool:
        """True after close()."""
        return self._native.is_closed

    def map(self, *, stream: Any) -> Buffer:
        """Map the resource for access by CUDA and return the memory as a Buffer, valid until unmap()."""
        address, size = self._native.map(stream)
        self._stream = stream
        buffer = _core.Buffer.from_handle(address, size, owner=self)
        self._buffer = weakref.ref(buffer)
        return buffer

    def unmap(self, *, stream: Any = None) -> None:
        """Unmap the resource, so that OpenGL can access it again."""
        self._native.unmap(self._stream if stream is None else stream)
        self._close_buffer()

    def close(self, stream: Any = None) -> None:
        """Unmap and unregister the resource. Idempotent."""
        self._native.close(self._stream if stream is None else stream)
        self._close_buffer()

    def _close_buffer(self) -> None:
        buffer, self._buffer = self._buffer() if self._buffer is not None else None, None
        if buffer is not None:
            buffer.close()

    def __enter__(self) -> object:
        if self._stream is None:
            raise RuntimeError("give a stream to from_gl_buffer() to use the resource in a with statement")
        return self.map(stream=self._stream)

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> Literal[False]:
        if self.is_mapped:
            self.unmap()
        return False

    def __del__(self) -> None:
        try:  # noqa: SIM105
            self.close()
        except Exception:
            pass
