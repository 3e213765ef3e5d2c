# SPDX-License-Identifier: Apache-2.0
"""What Dask wants to know about objects of ``cuda.core``. Dask loads this module through the entry point ``dask.sizeof``.

Objects travel between workers by pickle protocol 5, whose out-of-band buffers are Dask's frames: a serializer of Dask's own
would do the same, but every process would have to register it before the first message arrives. Sizes decide what a worker
spills and where a task runs; dask-cuda also asks what lies in device memory.
"""

from __future__ import annotations

import sys
from typing import Any


def register_sizeof(sizeof: Any) -> None:
    """Adds the sizes of buffers, views and compiled code when Dask first meets one of them."""

    @sizeof.register_lazy("cuda")  # type: ignore[untyped-decorator, unused-ignore]
    def register() -> None:
        from cuda.core import Buffer, Kernel, ObjectCode
        from cuda.core.utils import StridedMemoryView

        sizeof.register(Buffer)(_size_of_buffer)
        sizeof.register(StridedMemoryView)(_size_of_view)
        sizeof.register(ObjectCode)(lambda code: sys.getsizeof(code) + len(code.code))
        sizeof.register(Kernel)(sys.getsizeof)  # shares its code, which is counted where it is kept
        if "dask_cuda" in sys.modules:
            register_device_objects()


def _size_of_buffer(buffer: Any) -> int:
    """Memory of another process is counted there."""
    return sys.getsizeof(buffer) + (0 if buffer.is_mapped else int(buffer.size))


def _size_of_view(view: Any) -> int:
    """A view keeps the whole buffer that it sees; of other arrays it counts its elements."""
    source = view.exporting_obj
    seen = int(getattr(source, "nbytes", 0) or getattr(source, "size", 0))
    return sys.getsizeof(view) + max(seen, int(view.size * view._itemsize()))


def register_device_objects() -> None:
    """Lets the workers of dask-cuda spill buffers and views in device memory to the host."""
    from importlib import import_module

    from cuda.core import Buffer
    from cuda.core.utils import StridedMemoryView

    is_device_object: Any = import_module("dask_cuda.is_device_object").is_device_object

    def is_on_device(thing: Any) -> bool:
        return bool(thing.is_device_accessible and not getattr(thing, "is_host_accessible", False))

    for kind in (Buffer, StridedMemoryView):
        is_device_object.register(kind)(is_on_device)
