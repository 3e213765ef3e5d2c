# SPDX-License-Identifier: Apache-2.0
"""Parts of a device that contexts can be given: multiprocessors and work queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _core
from ._options import ContextOptions, SMResourceOptions, WorkqueueResourceOptions
from ._strenum import StrEnum

if TYPE_CHECKING:
    from typing_extensions import Self


class WorkqueueSharingScopeType(StrEnum):
    """Who shares work queues."""

    __module__ = "cuda.core.typing"
    DEVICE_CTX = "device_ctx"
    GREEN_CTX_BALANCED = "green_ctx_balanced"


_SCOPES = [WorkqueueSharingScopeType.DEVICE_CTX, WorkqueueSharingScopeType.GREEN_CTX_BALANCED]


class _Resource:
    """A part of a device, by the driver's description."""

    __slots__ = ("__weakref__", "_is_dry_run", "_raw")
    _raw: _core._SMResource | _core._WorkqueueResource
    _is_dry_run: bool  # says what a split would give, and cannot be used

    def __init__(self, *arg: Any, **kwargs: Any) -> None:
        raise RuntimeError(f"{type(self).__name__} objects cannot be instantiated directly: use Device.resources")

    @classmethod
    def _make(cls, raw: Any, is_dry_run: bool = False) -> Self:
        self = cls.__new__(cls)
        self._raw = raw
        self._is_dry_run = is_dry_run
        return self

    @property
    def handle(self) -> int:
        """The address of the driver's description."""
        return self._raw.address


class SMResource(_Resource):
    """Some of a device's multiprocessors.

    >>> sm = device.resources.sm
    >>> 1 <= sm.min_partition_size <= sm.sm_count
    True
    """

    __module__ = "cuda.core"
    __slots__ = ()
    _raw: _core._SMResource

    @property
    def sm_count(self) -> int:
        """How many."""
        return self._raw.sm_count

    @property
    def min_partition_size(self) -> int:
        """The fewest multiprocessors a part can have."""
        return self._raw.min_partition_size

    @property
    def coscheduled_alignment(self) -> int:
        """Counts are rounded up to a multiple of this."""
        return self._raw.coscheduled_alignment

    @property
    def flags(self) -> int:
        """The driver's flags of the group."""
        return self._raw.flags

    def split(self, options: SMResourceOptions, *, dry_run: bool = False) -> tuple[list[SMResource], SMResource]:
        """Divide into groups and what is left over. A dry run only says how many multiprocessors each would get."""
        parts, rest = self._raw.split(_core.options_of(options, SMResourceOptions))
        return [SMResource._make(part, dry_run) for part in parts], SMResource._make(rest, dry_run)

    def __repr__(self) -> str:
        return f"<SMResource sm_count={self.sm_count}>"


class WorkqueueResource(_Resource):
    """How many pieces of work can be in flight, and who shares the queues."""

    __module__ = "cuda.core"
    __slots__ = ()
    _raw: _core._WorkqueueResource

    @property
    def device(self) -> Any:
        """The device."""
        return _core.Device(self._raw.device)

    @property
    def concurrency_limit(self) -> int:
        """How many pieces of work may be in flight."""
        return self._raw.concurrency_limit

    @property
    def sharing_scope(self) -> WorkqueueSharingScopeType:
        """Who shares the queues."""
        return _SCOPES[self._raw.sharing_scope]

    def configure(self, options: WorkqueueResourceOptions) -> None:
        """Ask for another sharing or limit in the contexts made with this."""
        options = _core.options_of(options, WorkqueueResourceOptions)
        if options.sharing_scope is not None:
            self._raw.sharing_scope = _SCOPES.index(WorkqueueSharingScopeType(options.sharing_scope))
        if options.concurrency_limit is not None:
            self._raw.concurrency_limit = options.concurrency_limit

    def __repr__(self) -> str:
        return (
            f"<WorkqueueResource concurrency_limit={self.concurrency_limit} sharing_scope={self.sharing_scope.value}>"
        )


class DeviceResources:
    """What a device, a context or a stream has of a device.

    >>> device.resources.sm.sm_count == device.properties.multiprocessor_count
    True
    """

    __module__ = "cuda.core"
    __slots__ = ("__weakref__", "_of", "_raw")
    _of: object
    _raw: _core._DeviceResources

    def __init__(self, *arg: Any, **kwargs: Any) -> None:
        raise RuntimeError("DeviceResources objects cannot be instantiated directly: use Device.resources")

    @classmethod
    def _make(cls, of: object, raw: _core._DeviceResources) -> DeviceResources:
        self = cls.__new__(cls)
        self._of, self._raw = of, raw
        return self

    @classmethod
    def _of_device(cls, device: Any) -> DeviceResources:
        return cls._make(device, _core._DeviceResources.of_device(int(device)))

    @classmethod
    def _of_context(cls, context: Any) -> DeviceResources:
        return cls._make(context, _core._DeviceResources.of_context(context))

    @classmethod
    def _of_stream(cls, stream: Any) -> DeviceResources:
        return cls._make(stream, _core._DeviceResources.of_stream(stream))

    @property
    def sm(self) -> SMResource:
        """The multiprocessors."""
        return SMResource._make(self._raw.sm)

    @property
    def workqueue(self) -> WorkqueueResource:
        """The work queues."""
        return WorkqueueResource._make(self._raw.workqueue)

    def __repr__(self) -> str:
        return f"<DeviceResources of {self._of!r}>"


def create_context(device: Any, options: Any) -> Any:
    """What Device.create_context() does."""
    device.context  # noqa: B018  raises, and says what to do, before set_current()
    if options is None:
        raise ValueError("create_context() needs ContextOptions(resources=...) that say what the context runs on")
    resources = _core.options_of(options, ContextOptions).resources
    if resources is None:
        raise ValueError("ContextOptions.resources says what the context runs on: it cannot be None")
    if isinstance(resources, (SMResource, WorkqueueResource)):
        resources = [resources]
    resources = list(resources)
    for resource in resources:
        if not isinstance(resource, (SMResource, WorkqueueResource)):
            raise TypeError(f"resources must hold SMResource or WorkqueueResource, not {type(resource).__name__}")
        if resource._is_dry_run:
            raise ValueError("the resources of split(dry_run=True) are an estimate: split again without it")
    if not resources:
        raise ValueError("resources must not be empty")
    return _core.create_green_context(int(device), [resource._raw for resource in resources])
