# SPDX-License-Identifier: Apache-2.0
"""Integration of ``cuda.core`` with Dask, which loads this module through the entry point ``dask.sizeof``.

Objects are sent between workers with pickle protocol 5, whose out-of-band buffers become frames of Dask. A Dask
serializer would do the same, but every process would have to register it before the first message arrives. Workers use
sizes to decide what to spill and where to run a task; dask-cuda also queries which objects are in device memory.
"""

from __future__ import annotations

import sys
from typing import Any


def register_sizeof(sizeof: Any) -> None:
    """Registers the sizes of buffers, views and compiled code lazily, when Dask first sees an object of ``cuda``."""

    @sizeof.register_lazy("cuda")  # type: ignore[untyped-decorator, unused-ignore]
    def register() -> None:
        from cuda.core import Buffer, Kernel, ObjectCode
        from cuda.core.utils import StridedMemoryView

        sizeof.register(Buffer)(_size_of_buffer)
        sizeof.register(StridedMemoryView)(_size_of_view)
        sizeof.register(ObjectCode)(lambda code: sys.getsizeof(code) + len(code.code))
        sizeof.register(Kernel)(sys.getsizeof)  # the shared ObjectCode is counted separately
        if "dask_cuda" in sys.modules:
            register_device_objects()


def _size_of_buffer(buffer: Any) -> int:
    """Returns the size of a buffer. Imported memory is counted in the exporting process."""
    return sys.getsizeof(buffer) + (0 if buffer.is_mapped else int(buffer.size))


def _size_of_view(view: Any) -> int:
    """Returns the size of a view: that of the whole Buffer, which the view keeps alive; else that of its elements."""
    source = view.exporting_obj
    seen = int(getattr(source, "nbytes", 0) or getattr(source, "size", 0))
    return sys.getsizeof(view) + max(seen, int(view.size * view._itemsize()))


def register_device_objects() -> None:
    """Enables workers of dask-cuda to spill buffers and views in device memory to the host."""
    from importlib import import_module

    from cuda.core import Buffer
    from cuda.core.utils import StridedMemoryView

    is_device_object: Any = import_module("dask_cuda.is_device_object").is_device_object

    def is_on_device(thing: Any) -> bool:
        return bool(thing.is_device_accessible and not getattr(thing, "is_host_accessible", False))

    for kind in (Buffer, StridedMemoryView):
        is_device_object.register(kind)(is_on_device)
