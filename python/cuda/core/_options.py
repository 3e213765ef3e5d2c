# SPDX-License-Identifier: Apache-2.0
"""Options of streams, events and memory resources. Not dataclasses: that import takes longer than this module's."""

from __future__ import annotations

from ._core import quick_options

TYPE_CHECKING = False  # importing typing would cost more than this module
if TYPE_CHECKING:
    from typing import Any


class _Options:
    """Implements comparison, hashing and repr by field, in the order of ``__slots__``."""

    __slots__: tuple[str, ...] = ()

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), self._values()))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({fields})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self._values())


def _rebuild(cls: type[_Options], values: tuple[Any, ...]) -> _Options:
    self = cls.__new__(cls)
    for name, value in zip(cls.__slots__, values, strict=True):
        setattr(self, name, value)
    return self


_UNSET: Any = object()


@quick_options
class EventOptions(_Options):
    """Options of an event: ``EventOptions(timing_enabled=True)``.

    Two older names are accepted: ``enable_timing`` for ``timing_enabled``, and ``busy_waited_sync`` for
    ``blocking_sync`` (with the same value, although the older name suggests the opposite).

    Fields:

    - ``timing_enabled``: the event records a time; the difference of two events is the elapsed time in milliseconds
    - ``blocking_sync``: synchronization blocks the thread instead of spinning
    - ``ipc_enabled``: other processes can open the event

    >>> EventOptions(timing_enabled=True).timing_enabled
    True
    >>> device.create_event(EventOptions(timing_enabled=True)).is_timing_enabled
    True
    """

    __module__ = "cuda.core"
    __slots__ = ("blocking_sync", "ipc_enabled", "timing_enabled")

    def __init__(
        self,
        timing_enabled: bool | None = False,
        blocking_sync: bool | None = False,
        ipc_enabled: bool | None = False,
        **older: Any,
    ) -> None:
        if older:
            if "enable_timing" in older:
                timing_enabled = older.pop("enable_timing")
            if "busy_waited_sync" in older:
                blocking_sync = older.pop("busy_waited_sync")
            if older:
                raise TypeError(f"EventOptions() got an unexpected keyword argument {next(iter(older))!r}")
        self.timing_enabled = timing_enabled
        self.blocking_sync = blocking_sync
        self.ipc_enabled = ipc_enabled

    @property
    def enable_timing(self) -> bool | None:
        """An older name of ``timing_enabled``."""
        return self.timing_enabled

    @property
    def busy_waited_sync(self) -> bool | None:
        """An older name of ``blocking_sync``, with the same value."""
        return self.blocking_sync


@quick_options
class StreamOptions(_Options):
    """Options of a stream.

    - ``nonblocking``: the stream does not synchronize with the legacy default stream
    - ``priority``: the scheduling priority; lower numbers are higher priorities

    >>> device.create_stream(options=StreamOptions(nonblocking=True)).is_nonblocking
    True
    """

    __module__ = "cuda.core"
    __slots__ = ("nonblocking", "priority")

    def __init__(self, nonblocking: bool = True, priority: int | None = None) -> None:
        self.nonblocking = nonblocking
        self.priority = priority


class ContextOptions(_Options):
    """Options of a context.

    - ``resources``: the device resources (multiprocessors, work queues) of the green context

    >>> ContextOptions(resources=[device.resources.sm]).resources[0].sm_count > 0
    True
    """

    __module__ = "cuda.core"
    __slots__ = ("resources",)

    def __init__(self, resources: Any) -> None:
        self.resources = resources


@quick_options
class DeviceMemoryResourceOptions(_Options):
    """Options of a pool of device memory.

    - ``ipc_enabled``: other processes can open the pool's buffers
    - ``max_size``: the maximum size in bytes; 0 for no limit

    >>> DeviceMemoryResource(device, options=DeviceMemoryResourceOptions(max_size=1 << 20)).device_id
    0
    """

    __module__ = "cuda.core"
    __slots__ = ("ipc_enabled", "max_size")

    def __init__(self, ipc_enabled: bool = False, max_size: int = 0) -> None:
        self.ipc_enabled = ipc_enabled
        self.max_size = max_size


@quick_options
class PinnedMemoryResourceOptions(_Options):
    """Options of a pool of pinned host memory.

    - ``ipc_enabled``: other processes can open the pool's buffers
    - ``max_size``: the maximum size in bytes; 0 for no limit
    - ``numa_id``: the NUMA node of the memory; None for any

    >>> PinnedMemoryResource(PinnedMemoryResourceOptions(max_size=1 << 20)).is_host_accessible
    True
    """

    __module__ = "cuda.core"
    __slots__ = ("ipc_enabled", "max_size", "numa_id")

    def __init__(self, ipc_enabled: bool = False, max_size: int = 0, numa_id: int | None = None) -> None:
        self.ipc_enabled = ipc_enabled
        self.max_size = max_size
        self.numa_id = numa_id


class ManagedMemoryResourceOptions(_Options):
    """Options of a pool of managed memory: its preferred location.

    - ``preferred_location``: the ordinal of the device or the ID of the NUMA node
    - ``preferred_location_type``: ``"device"``, ``"host"`` or ``"host_numa"``

    >>> ManagedMemoryResource(ManagedMemoryResourceOptions(preferred_location=0)).preferred_location
    ('device', 0)
    """

    __module__ = "cuda.core"
    __slots__ = ("preferred_location", "preferred_location_type")

    def __init__(self, preferred_location: int | None = None, preferred_location_type: str | None = None) -> None:
        self.preferred_location = preferred_location
        self.preferred_location_type = preferred_location_type


class SMResourceOptions(_Options):
    """Options of SMResource.split(): scalars for one group, or sequences of equal length with an element per group.

    - ``count``: the number of multiprocessors of each group
    - ``coscheduled_sm_count``: the number of multiprocessors of a group that are guaranteed to run a cluster together
    - ``preferred_coscheduled_sm_count``: the preferred number of these, used where possible
    - ``backfill``: fill groups with multiprocessors that do not satisfy the coscheduling constraint

    >>> SMResourceOptions(count=(8, 8)).count
    (8, 8)
    """

    __module__ = "cuda.core"
    __slots__ = ("backfill", "coscheduled_sm_count", "count", "preferred_coscheduled_sm_count")

    def __init__(
        self,
        count: Any = None,
        coscheduled_sm_count: Any = None,
        preferred_coscheduled_sm_count: Any = None,
        backfill: Any = None,
    ) -> None:
        self.count = count
        self.coscheduled_sm_count = coscheduled_sm_count
        self.preferred_coscheduled_sm_count = preferred_coscheduled_sm_count
        self.backfill = backfill


class WorkqueueResourceOptions(_Options):
    """Options of WorkqueueResource.configure().

    - ``sharing_scope``: ``"device_ctx"`` or ``"green_ctx_balanced"``
    - ``concurrency_limit``: the expected maximum number of concurrent stream-ordered workloads, at least 1

    >>> WorkqueueResourceOptions(sharing_scope="green_ctx_balanced").sharing_scope
    'green_ctx_balanced'
    """

    __module__ = "cuda.core"
    __slots__ = ("concurrency_limit", "sharing_scope")

    def __init__(self, sharing_scope: str | None = None, concurrency_limit: int | None = None) -> None:
        if sharing_scope is not None and str(sharing_scope) not in ("device_ctx", "green_ctx_balanced"):
            raise ValueError(f"sharing_scope must be 'device_ctx' or 'green_ctx_balanced', not {sharing_scope!r}")
        if concurrency_limit is not None and concurrency_limit < 1:
            raise ValueError(f"concurrency_limit must be at least 1, not {concurrency_limit}")
        self.sharing_scope = sharing_scope
        self.concurrency_limit = concurrency_limit
