# SPDX-License-Identifier: Apache-2.0
"""Nodes of an executable graph. ``graph[node]`` updates a node for subsequent launches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import _core
from .._core import Graph
from ._definition import _definition_of, address_of, copy_end, host_function, memset_pattern
from ._nodes import (
    ChildGraphNode,
    EventRecordNode,
    EventWaitNode,
    GraphNode,
    HostCallbackNode,
    KernelNode,
    MemcpyNode,
    MemsetNode,
)

if TYPE_CHECKING:
    from typing_extensions import Self


class ExecutableGraphNode:
    """A node of an executable graph.

    >>> graph = GraphDefinition()
    >>> node = graph.memset(buffer, 0, 16)
    >>> ready = graph.instantiate()
    >>> isinstance(ready[node], ExecutableGraphNode)
    True
    """

    __slots__ = ("__weakref__", "_graph", "_node")
    _graph: Graph
    _node: Any

    def __init__(self, *arg: Any, **kwargs: Any) -> None:
        raise RuntimeError("ExecutableGraphNode objects cannot be instantiated directly: use graph[node]")

    @classmethod
    def _make(cls, graph: Graph, node: GraphNode) -> Self:
        self = cls.__new__(cls)
        self._graph = graph
        self._node = node
        return self

    def _uses(self, things: Any) -> None:
        """Sets the objects that the node keeps alive from the next launch on. Launches in flight keep the old ones."""
        self._graph._keep(self._node._handle, things)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._node!r}>"


class _Switchable(ExecutableGraphNode):
    __slots__ = ()

    @property
    def is_enabled(self) -> bool:
        """False if launches skip the node."""
        return self._graph._is_enabled(self._node._handle)

    def enable(self) -> None:
        """Enable the node for subsequent launches."""
        self._graph._set_enabled(self._node._handle, True)

    def disable(self) -> None:
        """Disable the node: subsequent launches skip it."""
        self._graph._set_enabled(self._node._handle, False)


class ExecutableKernelNode(_Switchable):
    """A kernel node of an executable graph.

    >>> graph = GraphDefinition()
    >>> node = graph.launch(LaunchConfig(grid=1, block=1), kernel, buffer, 1)
    >>> ready = graph.instantiate()
    >>> ready[node].update(config=LaunchConfig(grid=2, block=1), kernel=kernel, args=(buffer, 1))
    """

    __slots__ = ()

    def update(self, *, config: Any, kernel: Any, args: Any) -> None:
        """Set the launch configuration, kernel and arguments of subsequent launches."""
        args = tuple(args)
        self._graph._set_kernel(self._node._handle, config, kernel, args)
        self._uses((kernel, _core.hold(args)))


class ExecutableMemcpyNode(_Switchable):
    """A copy node of an executable graph.

    >>> graph = GraphDefinition()
    >>> node = graph.memcpy(buffer, device.allocate(64, stream=stream), 16)
    >>> ready = graph.instantiate()
    >>> ready[node].is_enabled
    True
    """

    __slots__ = ()

    def update(self, *, dst: Any, src: Any, size: int) -> None:
        """Set the destination, source and size in bytes for subsequent launches.

        Raises ValueError for a copy of more than one row, which drivers cannot change in an executable graph.
        """
        (to, into), (of, out_of) = copy_end(dst), copy_end(src)
        extent = _core.copy_extent(size, into, out_of)
        rows = max(shape[1] * shape[2] for shape in (_core.memcpy_node_get(self._node._handle)[2], extent))
        if rows != 1:
            raise ValueError(
                f"a copy of {rows} rows cannot be changed in a graph that is ready to launch: "
                "update the node of the definition and instantiate it again"
            )
        self._graph._set_memcpy(self._node._handle, to, of, extent)
        self._uses(_core.hold((dst, src)))


class ExecutableMemsetNode(_Switchable):
    """A memset node of an executable graph.

    >>> graph = GraphDefinition()
    >>> node = graph.memset(buffer, 0, 16)
    >>> ready = graph.instantiate()
    >>> ready[node].update(dst=buffer, value=1, width=16)
    """

    __slots__ = ()

    def update(self, *, dst: Any, value: Any, width: int, height: int = 1, pitch: int = 0) -> None:
        """Set the destination, value and extent of the fill for subsequent launches."""
        pattern, element = memset_pattern(value)
        self._graph._set_memset(self._node._handle, address_of(dst), pattern, element, width, height, pitch)
        self._uses(_core.hold(dst))


class ExecutableHostCallbackNode(ExecutableGraphNode):
    """A host callback node of an executable graph.

    >>> graph = GraphDefinition()
    >>> node = graph.callback(lambda: None)
    >>> ready = graph.instantiate()
    >>> ready[node].update(lambda: None)
    """

    __slots__ = ()

    def update(self, fn: Any, *, user_data: Any = None) -> None:
        """Set the function for subsequent launches."""
        function, address, data, keep = host_function(fn, user_data)
        self._graph._set_host(self._node._handle, function, address, data)
        self._uses(keep)


class ExecutableChildGraphNode(ExecutableGraphNode):
    """A child graph node of an executable graph.

    >>> inner = GraphDefinition()
    >>> filled = inner.memset(buffer, 0, 16)
    >>> graph = GraphDefinition()
    >>> node = graph.embed(inner)
    >>> ready = graph.instantiate()
    >>> ready[node].update(inner)
    """

    __slots__ = ()

    def update(self, child: Any) -> None:
        """Set the child graph for subsequent launches to a copy of ``child``, which must have the same topology."""
        # The copy also keeps the objects that the child's nodes use alive.
        self._graph._set_child(self._node._handle, _definition_of(child)._def)


class ExecutableEventRecordNode(ExecutableGraphNode):
    """An event record node of an executable graph.

    >>> graph = GraphDefinition()
    >>> node = graph.record(device.create_event())
    >>> ready = graph.instantiate()
    >>> ready[node].update(device.create_event())
    """

    __slots__ = ()

    def update(self, event: Any) -> None:
        """Set the event that subsequent launches record."""
        self._graph._set_event(self._node._handle, event)
        self._uses(_core.hold(event))


class ExecutableEventWaitNode(ExecutableGraphNode):
    """An event wait node of an executable graph.

    >>> graph = GraphDefinition()
    >>> node = graph.wait(device.create_event())
    >>> ready = graph.instantiate()
    >>> ready[node].update(device.create_event())
    """

    __slots__ = ()

    def update(self, event: Any) -> None:
        """Set the event that subsequent launches wait for."""
        self._graph._set_event(self._node._handle, event)
        self._uses(_core.hold(event))


_CLASSES: dict[type, type[ExecutableGraphNode]] = {
    KernelNode: ExecutableKernelNode,
    MemcpyNode: ExecutableMemcpyNode,
    MemsetNode: ExecutableMemsetNode,
    HostCallbackNode: ExecutableHostCallbackNode,
    ChildGraphNode: ExecutableChildGraphNode,
    EventRecordNode: ExecutableEventRecordNode,
    EventWaitNode: ExecutableEventWaitNode,
}


def _executable_node(graph: Graph, node: Any) -> ExecutableGraphNode:
    cls = _CLASSES.get(type(node))
    if cls is None:
        raise TypeError(
            f"a graph is indexed with a node of its definition that can be updated, not {type(node).__name__}: "
            f"{', '.join(sorted(known.__name__ for known in _CLASSES))}"
        )
    if not node.is_valid:
        raise ValueError("the node was destroyed: a graph is indexed with the nodes of its definition")
    return cls._make(graph, node)
