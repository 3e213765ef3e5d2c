# SPDX-License-Identifier: Apache-2.0
"""Device resources of green contexts: multiprocessors and work queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _core
from ._options import ContextOptions, SMResourceOptions, WorkqueueResourceOptions
from ._strenum import StrEnum

if TYPE_CHECKING:
    from typing_extensions import Self


class WorkqueueSharingScopeType(StrEnum):
    """The sharing scope of work queues."""

    __module__ = "cuda.core.typing"
    DEVICE_CTX = "device_ctx"
    GREEN_CTX_BALANCED = "green_ctx_balanced"


_SCOPES = [WorkqueueSharingScopeType.DEVICE_CTX, WorkqueueSharingScopeType.GREEN_CTX_BALANCED]


class _Resource:
    """A device resource (``CUdevResource``)."""

    __slots__ = ("__weakref__", "_is_dry_run", "_raw")
    _raw: _core._SMResource | _core._WorkqueueResource
    _is_dry_run: bool  # result of split(dry_run=True): cannot be used for a context

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
        """The address of the ``CUdevResource``."""
        return self._raw.address


class SMResource(_Resource):
    """A set of a device's multiprocessors.

    >>> sm = device.resources.sm
    >>> 1 <= sm.min_partition_size <= sm.sm_count
    True
    """

    __module__ = "cuda.core"
    __slots__ = ()
    _raw: _core._SMResource

    @property
    def sm_count(self) -> int:
        """The number of multiprocessors."""
        return self._raw.sm_count

    @property
    def min_partition_size(self) -> int:
        """The minimum number of multiprocessors of a partition."""
        return self._raw.min_partition_size

    @property
    def coscheduled_alignment(self) -> int:
        """The multiple to which counts of multiprocessors are rounded up."""
        return self._raw.coscheduled_alignment

    @property
    def flags(self) -> int:
        """The driver's flags of the resource."""
        return self._raw.flags

    def split(self, options: SMResourceOptions, *, dry_run: bool = False) -> tuple[list[SMResource], SMResource]:
        """Split into groups; return them and the remainder. The results of a dry run have counts but cannot be used."""
        parts, rest = self._raw.split(_core.options_of(options, SMResourceOptions))
        return [SMResource._make(part, dry_run) for part in parts], SMResource._make(rest, dry_run)

    def __repr__(self) -> str:
        return f"<SMResource sm_count={self.sm_count}>"


class WorkqueueResource(_Resource):
    """The work queue configuration of a device resource: concurrency limit and sharing scope."""

    __module__ = "cuda.core"
    __slots__ = ()
    _raw: _core._WorkqueueResource

    @property
    def device(self) -> Any:
        """The device of the work queues."""
        return _core.Device(self._raw.device)

    @property
    def concurrency_limit(self) -> int:
        """The expected maximum number of concurrent stream-ordered workloads."""
        return self._raw.concurrency_limit

    @property
    def sharing_scope(self) -> WorkqueueSharingScopeType:
        """The sharing scope of the work queues."""
        return _SCOPES[self._raw.sharing_scope]

    def configure(self, options: WorkqueueResourceOptions) -> None:
        """Set the sharing scope and concurrency limit of contexts that are created from this resource."""
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
    """The resources of a device, a context or a stream.

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
    """Implements Device.create_context()."""
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
