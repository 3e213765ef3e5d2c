# SPDX-License-Identifier: Apache-2.0
"""Options of streams, events and memory resources. Plain classes: importing dataclasses would cost more than all of them."""

from __future__ import annotations

from ._core import quick_options

TYPE_CHECKING = False  # importing typing would cost more than this module
if TYPE_CHECKING:
    from typing import Any


class _Options:
    """Equality, hashing and printing by field, in the order of ``__slots__``."""

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
    """How an event is made: ``EventOptions(timing_enabled=True)``.

    Older spellings are understood too: ``enable_timing`` for ``timing_enabled``, ``busy_waited_sync`` for
    ``blocking_sync`` (the old name says the opposite of what it did).

    Fields:

    - ``timing_enabled``: events can be subtracted for the time between them
    - ``blocking_sync``: waiting sleeps instead of spinning
    - ``ipc_enabled``: other processes can open it

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
        """An older spelling of ``timing_enabled``."""
        return self.timing_enabled

    @property
    def busy_waited_sync(self) -> bool | None:
        """An older spelling of ``blocking_sync``, with the same value."""
        return self.blocking_sync


@quick_options
class StreamOptions(_Options):
    """How a stream is made: ``nonblocking`` streams ignore the legacy default stream; a lower ``priority`` runs first.

    >>> device.create_stream(options=StreamOptions(nonblocking=True)).is_nonblocking
    True
    """

    __module__ = "cuda.core"
    __slots__ = ("nonblocking", "priority")

    def __init__(self, nonblocking: bool = True, priority: int | None = None) -> None:
        self.nonblocking = nonblocking
        self.priority = priority


class ContextOptions(_Options):
    """What a context runs on.

    - ``resources``: the device resources (SMs, work queues) it is given

    >>> ContextOptions(resources=[device.resources.sm]).resources[0].sm_count > 0
    True
    """

    __module__ = "cuda.core"
    __slots__ = ("resources",)

    def __init__(self, resources: Any) -> None:
        self.resources = resources


@quick_options
class DeviceMemoryResourceOptions(_Options):
    """How a pool of device memory is made.

    - ``ipc_enabled``: other processes can open its buffers
    - ``max_size``: limit in bytes, 0 for none

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
    """How a pool of page-locked host memory is made.

    - ``ipc_enabled``: other processes can open its buffers
    - ``max_size``: limit in bytes, 0 for none
    - ``numa_id``: the NUMA node of the memory, None for any

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
    """Where managed memory prefers to live: a device number, a NUMA node or the host.

    - ``preferred_location``: the number of the device or node
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
    """How multiprocessors are divided: one count per group, or sequences of equal length.

    - ``count``: multiprocessors of each group
    - ``coscheduled_sm_count``: how many of a group run a cluster together
    - ``preferred_coscheduled_sm_count``: the same, where there is a choice
    - ``backfill``: fill groups up with multiprocessors that fit nowhere else

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
    """How work queues are shared.

    - ``sharing_scope``: ``"device_ctx"`` or ``"green_ctx_balanced"``
    - ``concurrency_limit``: how many pieces of work are expected in flight, at least 1

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
