# SPDX-License-Identifier: Apache-2.0
"""Batched copies, prefetches and discards of buffers."""

from __future__ import annotations

from collections.abc import Sequence

from . import _core
from ._strenum import StrEnum

TYPE_CHECKING = False  # importing typing would cost more than this module
if TYPE_CHECKING:
    from typing import Any


class MemcpySrcAccessOrder(StrEnum):
    """The order in which a copy may read its source.

    >>> MemcpySrcAccessOrder("any") is MemcpySrcAccessOrder.ANY
    True
    """

    STREAM = "stream"
    DURING_API_CALL = "during_api_call"
    ANY = "any"


class MemcpyOverlapMode(StrEnum):
    """Whether a copy prefers to overlap with kernels.

    >>> MemcpyOverlapMode("default") is MemcpyOverlapMode.DEFAULT
    True
    """

    DEFAULT = "default"
    PREFER_OVERLAP_WITH_COMPUTE = "prefer_overlap_with_compute"


class CopyOptions:
    """Attributes of a copy: access order of the source, location hints, and overlap with kernels.

    - ``src_access_order``: when the source may be read: ``"stream"`` (in stream order), ``"during_api_call"`` (before the
      call returns) or ``"any"``
    - ``src_location_hint``: the location of a managed source, a Device or a Host; None for no hint
    - ``dst_location_hint``: the location of a managed destination, a Device or a Host; None for no hint
    - ``overlap_mode``: ``"default"``, or ``"prefer_overlap_with_compute"`` to leave the multiprocessors to kernels

    >>> other = device.allocate(buffer.size, stream=stream)
    >>> other.copy_from(buffer, stream=stream, options=CopyOptions(src_access_order="any"))
    """

    __slots__ = ("dst_location_hint", "overlap_mode", "src_access_order", "src_location_hint")

    def __init__(
        self,
        src_access_order: MemcpySrcAccessOrder | str = "stream",
        src_location_hint: Any = None,
        dst_location_hint: Any = None,
        overlap_mode: MemcpyOverlapMode | str = "default",
    ) -> None:
        self.src_access_order = _core.choice(MemcpySrcAccessOrder, src_access_order, "src_access_order")
        self.src_location_hint = src_location_hint
        self.dst_location_hint = dst_location_hint
        self.overlap_mode = _core.choice(MemcpyOverlapMode, overlap_mode, "overlap_mode")
        self._described()  # raises if a hint is not a location

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if isinstance(other, CopyOptions) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"CopyOptions({', '.join(f'{n}={getattr(self, n)!r}' for n in self.__slots__)})"

    def _described(self) -> Any:
        """Returns the C++ representation of the options."""
        overlaps = self.overlap_mode is MemcpyOverlapMode.PREFER_OVERLAP_WITH_COMPUTE
        order = _ORDER[self.src_access_order]
        return _core._CopyOptions.of(order, self.src_location_hint, self.dst_location_hint, overlaps)


_ORDER = {MemcpySrcAccessOrder.STREAM: 1, MemcpySrcAccessOrder.DURING_API_CALL: 2, MemcpySrcAccessOrder.ANY: 3}


def copy_batch(stream: Any, srcs: Sequence[Any], dsts: Sequence[Any], *, options: Any = None) -> None:
    """Copy each source to the destination with the same index, in one call.

    Managed buffers without location hints are copied one by one: for a discarded page, the batched copy of a GPU's
    driver was observed to read the contents from before the discard instead of what the host has written since.

    Raises TypeError for a capturing stream and for the legacy default stream: neither supports batched copies.

    >>> others = [device.allocate(buffer.size, stream=stream) for _ in range(2)]
    >>> copy_batch(stream, [buffer, buffer], others)
    """
    _core.copy_batch(stream, srcs, dsts, options)


def prefetch_batch(stream: Any, buffers: Sequence[Any], locations: Any) -> None:
    """Prefetch managed buffers to a location (one for all buffers, or one per buffer), in stream order.

    >>> managed = [ManagedMemoryResource().allocate(4096, stream=stream) for _ in range(2)]
    >>> prefetch_batch(stream, managed, [device, Host()])
    """
    _core.prefetch_batch(stream, buffers, locations)


def discard_batch(stream: Any, buffers: Sequence[Any]) -> None:
    """Discard the contents of managed buffers, in stream order.

    Prefetch a buffer before you write to it again, or use ``discard_prefetch_batch``: a GPU's driver may also discard
    what the host writes to a discarded page.

    >>> managed = [ManagedMemoryResource().allocate(4096, stream=stream) for _ in range(2)]
    >>> discard_batch(stream, managed)
    """
    _core.discard_batch(stream, buffers)


def discard_prefetch_batch(stream: Any, buffers: Sequence[Any], locations: Any) -> None:
    """Discard the contents of managed buffers and prefetch the buffers to a location, in stream order.

    >>> managed = [ManagedMemoryResource().allocate(4096, stream=stream) for _ in range(2)]
    >>> discard_prefetch_batch(stream, managed, device)
    """
    _core.discard_prefetch_batch(stream, buffers, locations)
