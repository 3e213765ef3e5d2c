# SPDX-License-Identifier: Apache-2.0
"""Graph nodes: a class per node type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSet
from math import prod
from typing import TYPE_CHECKING, Any, cast

from .. import _core
from .._errors import CUDAError
from .._readonly import ReadOnly
from ..typing import GraphMemoryType
from . import _node_classes
from ._definition import (
    MEMORY_TYPES,
    GraphDefinition,
    _Adder,
    _definition_of,
    _handle,
    address_of,
    as_packed,
    copy_end,
    held,
    host_function,
    memset_pattern,
)

if TYPE_CHECKING:
    from typing_extensions import Self

    from .._core import Event, Kernel, LaunchConfig


class AdjacencySetProxy(MutableSet):  # type: ignore[type-arg]
    """The predecessors or successors of a node. A live view: reads query the driver, changes take effect at once."""

    def __init__(self, node: GraphNode, is_fwd: bool) -> None:
        self._node = node
        self._is_fwd = bool(is_fwd)

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> set[Any]:
        return set(it)

    def _handles(self) -> list[int]:
        ask = _core.node_succ if self._is_fwd else _core.node_pred
        return ask(self._node._handle) if self._node.is_valid else []

    def _edge(self, other: GraphNode) -> tuple[list[int], list[int]]:
        a, b = [self._node._open()], [other._open()]
        return (a, b) if self._is_fwd else (b, a)

    def __contains__(self, value: object) -> bool:
        return isinstance(value, GraphNode) and value._handle in self._handles()

    def __iter__(self) -> Iterator[GraphNode]:
        home = self._node._graph
        return iter([home._node(handle) for handle in self._handles()])

    def __len__(self) -> int:
        return len(self._handles())

    def add(self, value: GraphNode) -> None:
        if not isinstance(value, GraphNode):
            raise TypeError(f"expected a GraphNode, not {type(value).__name__}")
        if value not in self:
            self._node._graph._def.add_edges(*self._edge(value))

    def discard(self, value: GraphNode) -> None:
        if value in self:
            self._node._graph._def.remove_edges(*self._edge(value))

    def clear(self) -> None:
        for node in list(self):
            self.discard(node)

    def update(self, *others: Any) -> None:
        for other in others:
            for node in [other] if isinstance(other, GraphNode) else other:
                self.add(node)

    def __repr__(self) -> str:
        return f"{{{', '.join(repr(node) for node in self)}}}"


class GraphNode(_Adder):
    """A node of a graph. Its methods add nodes that depend on it.

    >>> graph = GraphDefinition()
    >>> first = graph.memset(buffer, 0, 16)
    >>> second = first.memset(buffer, 1, 16)
    >>> list(second.pred) == [first]
    True
    """

    __slots__ = ("__weakref__", "_generation", "_graph", "_handle", "_last")
    _generation: int  # the graph's generation when the node was created; 0 after destroy()
    _graph: GraphDefinition
    _handle: int
    _last: Any  # the parameters at the time of destroy()

    def __init__(self, *arg: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            f"{type(self).__name__} objects cannot be instantiated directly: use the methods of a GraphDefinition"
        )

    @classmethod
    def _make(cls, graph: GraphDefinition, handle: int) -> Self:
        self = cls.__new__(cls)
        self._graph = graph
        self._handle = handle
        self._generation = graph._def.generation
        self._last = None
        return self

    def _home(self) -> GraphDefinition:
        if not self.is_valid:
            raise CUDAError("CUDA_ERROR_INVALID_VALUE: the node was destroyed", 1, "CUDA_ERROR_INVALID_VALUE")
        return self._graph

    def _open(self) -> int:
        """Returns the handle. Raises CUDAError if the node is destroyed."""
        self._home()
        return self._handle

    def _after(self) -> list[int]:
        return [self._handle]

    def _uses(self, things: Any, facts: Any = None) -> None:
        """Sets the objects that the node keeps alive, and its facts."""
        self._graph._def.use(self._handle, things)
        if facts is not None:
            self._graph._state.facts[self._handle] = facts

    def _facts(self) -> Any:
        return self._graph._state.facts.get(self._handle) if self.is_valid else None

    _ask: Any = staticmethod(lambda handle: None)  # returns the node's parameters from the driver

    def _read(self) -> Any:
        """Returns the parameters; for a destroyed node, the last ones."""
        return self._ask(self._handle) if self.is_valid else self._last

    def _remember(self) -> None:
        """Saves the parameters before the driver destroys the node."""
        self._last = self._read()

    def _text(self) -> str:
        """Returns the parameters as text for repr()."""
        return _core.node_text(self._handle)

    @property
    def graph(self) -> GraphDefinition:
        """The graph of the node."""
        return self._graph

    @property
    def handle(self) -> Any:
        """The driver's handle, for cuda.bindings; None after destroy()."""
        return _handle("CUgraphNode", self._handle) if self.is_valid else None

    @property
    def is_valid(self) -> bool:
        """False after destroy() of this node or of a node that contains it."""
        return self._generation == self._graph._def.generation

    @property
    def type(self) -> Any:
        """The node type (a ``CUgraphNodeType``); None after destroy()."""
        return _handle("CUgraphNodeType", _core.node_type(self._handle)) if self.is_valid else None

    @property
    def pred(self) -> AdjacencySetProxy:
        """The nodes that this node depends on. Change the set in place or assign to it."""
        return AdjacencySetProxy(self, False)

    @pred.setter
    def pred(self, nodes: Iterable[GraphNode]) -> None:
        self._set_neighbours(AdjacencySetProxy(self, False), set(nodes))

    @property
    def succ(self) -> AdjacencySetProxy:
        """The nodes that depend on this node. Change the set in place or assign to it."""
        return AdjacencySetProxy(self, True)

    @succ.setter
    def succ(self, nodes: Iterable[GraphNode]) -> None:
        self._set_neighbours(AdjacencySetProxy(self, True), set(nodes))

    @staticmethod
    def _set_neighbours(proxy: AdjacencySetProxy, wanted: set[GraphNode]) -> None:
        have = set(proxy)
        for node in have - wanted:
            proxy.discard(node)
        for node in wanted - have:
            proxy.add(node)

    def callback(self, fn: Any, *, user_data: Any = None) -> object:
        """Add a host callback node. ``fn`` is a Python callable or a C function of ctypes."""
        return self._callback(fn, user_data)

    def destroy(self) -> None:
        """Remove the node, its edges and the graphs inside it. Idempotent.

        Its parameters can still be read; references to the objects it used are released.
        """
        if not self.is_valid:
            return
        self._remember()
        self._graph._state.remember(self._handle)
        self._graph._def.remove(self._handle)
        self._generation = 0
        self._graph._state.forget(self._handle)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GraphNode):
            return NotImplemented
        return (self._handle, self._generation) == (other._handle, other._generation)

    def __hash__(self) -> int:
        return hash((GraphNode, self._handle))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} handle={self._handle:#x}{self._text() if self.is_valid else ' destroyed'}>"


class EmptyNode(GraphNode):
    """Performs no operation. Used to join dependencies.

    >>> graph = GraphDefinition()
    >>> graph.join(graph.memset(buffer, 0, 16), graph.memset(buffer, 0, 16))
    <EmptyNode...>
    """

    __slots__ = ()


def _param(place: int, doc: str) -> ReadOnly[Any]:
    """Creates a property for one number of a node's parameters, queried from the driver on access."""
    return ReadOnly(lambda node: node._read()[place], doc)


class KernelNode(GraphNode):
    """Launches a kernel.

    >>> graph = GraphDefinition()
    >>> graph.launch(LaunchConfig(grid=2, block=32), kernel, buffer, 4).grid
    (2, 1, 1)
    """

    __slots__ = ()
    _ask = staticmethod(_core.kernel_node_get)

    grid: ReadOnly[tuple[int, int, int]] = _param(0, "Grid dimensions in blocks (x, y, z).")
    block: ReadOnly[tuple[int, int, int]] = _param(1, "Block dimensions in threads (x, y, z).")
    shmem_size: ReadOnly[int] = _param(2, "Size of the dynamic shared memory per block, in bytes.")

    @property
    def kernel(self) -> Kernel:
        """The kernel."""
        facts = self._facts()
        if facts is not None:
            return cast("Kernel", facts[0])
        return _core.Kernel.from_handle(self._read()[3])

    @property
    def config(self) -> LaunchConfig:
        """The launch configuration."""
        facts = self._facts()
        if facts is not None:
            return cast("LaunchConfig", facts[1])
        grid, block, shmem, _ = self._read()
        return _core.LaunchConfig(grid=grid, block=block, shmem_size=shmem)

    def update(self, *, config: LaunchConfig | None = None, kernel: Kernel | None = None, args: Any = None) -> None:
        """Change the launch configuration, kernel or arguments. Executable graphs are not affected."""
        handle = self._open()
        kernel = self.kernel if kernel is None else kernel
        config = self.config if config is None else config
        if args is None:
            packed, used = self._args()
        else:
            args = tuple(args)
            packed, used = as_packed(args), _core.hold(args)
        _core.kernel_node_set(handle, config, kernel, packed if args is None else args, args is None)
        self._uses((kernel, used), (kernel, config, packed, used))

    def _args(self) -> tuple[tuple[Any, ...], Any]:
        """Returns the arguments and the owner of the memory they refer to."""
        facts = self._facts()
        if facts is None:
            raise ValueError("update(): give args: this node was captured, so its arguments are not known")
        return facts[2], facts[3]


class MemcpyNode(GraphNode):
    """Copies memory.

    >>> graph = GraphDefinition()
    >>> other = device.allocate(64, stream=stream)
    >>> graph.memcpy(other, buffer, 64).size
    64
    """

    __slots__ = ()
    _ask = staticmethod(_core.memcpy_node_get)

    @property
    def dst(self) -> int:
        """The destination address; the handle if it is an array."""
        address, array = self._read()[0]
        return int(array or address)

    @property
    def src(self) -> int:
        """The source address; the handle if it is an array."""
        address, array = self._read()[1]
        return int(array or address)

    @property
    def size(self) -> int:
        """The size of the copy in bytes."""
        return prod(self._read()[2])

    def update(
        self, *, dst: Any = None, src: Any = None, size: int | None = None, dst_owner: Any = None, src_owner: Any = None
    ) -> None:
        """Change the destination, source or size. Executable graphs are not affected.

        A copy of several rows, captured from an array or a strided view, keeps the number, size and pitch of its rows;
        only the addresses change.
        """
        handle = self._open()
        to, into = (None, None) if dst is None else copy_end(dst)
        of, out_of = (None, None) if src is None else copy_end(src)
        had_dst, had_src = self._facts() or (None, None)
        facts = (had_dst if dst is None else held(dst, dst_owner), had_src if src is None else held(src, src_owner))
        _core.memcpy_node_set(handle, to, of, size, into, out_of)
        self._uses(facts, facts)


class MemsetNode(GraphNode):
    """Fills memory with a value.

    >>> graph = GraphDefinition()
    >>> graph.memset(buffer, 7, 16).value
    7
    """

    __slots__ = ()

    _ask = staticmethod(_core.memset_node_get)
    dptr: ReadOnly[int] = _param(0, "Destination address.")
    value: ReadOnly[int] = _param(1, "Value of an element.")
    element_size: ReadOnly[int] = _param(2, "Size of an element in bytes: 1, 2 or 4.")
    width: ReadOnly[int] = _param(3, "Number of elements per row.")
    height: ReadOnly[int] = _param(4, "Number of rows.")
    pitch: ReadOnly[int] = _param(5, "Distance between rows in bytes.")

    def update(
        self,
        *,
        dst: Any = None,
        value: Any = None,
        width: int | None = None,
        height: int | None = None,
        pitch: int | None = None,
        dst_owner: Any = None,
    ) -> None:
        """Change the destination, value or extent. Executable graphs are not affected."""
        old = _core.memset_node_get(self._open())
        pattern, element = (old[1], old[2]) if value is None else memset_pattern(value)
        address = old[0] if dst is None else address_of(dst)
        uses = None if dst is None else held(dst, dst_owner)
        _core.memset_node_set(
            self._handle,
            address,
            pattern,
            element,
            old[3] if width is None else width,
            old[4] if height is None else height,
            old[5] if pitch is None else pitch,
        )
        if uses is not None:
            self._uses(uses)


class AllocNode(GraphNode):
    """Allocates memory, which stays allocated until a FreeNode runs or it is freed outside the graph.

    >>> graph = GraphDefinition()
    >>> node = graph.allocate(64)
    >>> node.bytesize
    64
    >>> freed = node.deallocate(node.dptr)
    """

    __slots__ = ()

    _ask = staticmethod(_core.alloc_node_get)
    dptr: ReadOnly[int] = _param(0, "Address of the memory, fixed when the node is added.")
    bytesize: ReadOnly[int] = _param(1, "Size in bytes.")
    device_id: ReadOnly[int] = _param(3, "Ordinal of the device.")

    @property
    def memory_type(self) -> GraphMemoryType:
        """The type of the memory: device, host or managed."""
        return MEMORY_TYPES[self._read()[2]]

    @property
    def peer_access(self) -> tuple[int, ...]:
        """The ordinals of the other devices with access to the memory."""
        return tuple(self._read()[4])


class FreeNode(GraphNode):
    """Frees the memory of an AllocNode.

    >>> graph = GraphDefinition()
    >>> node = graph.allocate(64)
    >>> node.deallocate(node.dptr).dptr == node.dptr
    True
    """

    __slots__ = ()
    _ask = staticmethod(_core.free_node_get)

    @property
    def dptr(self) -> int:
        """The address of the memory."""
        return self._read()  # type: ignore[no-any-return]


class ChildGraphNode(GraphNode):
    """Runs a child graph, which is a copy of another graph.

    >>> graph = GraphDefinition()
    >>> inner = GraphDefinition()
    >>> node = inner.memset(buffer, 0, 16)
    >>> len(graph.embed(inner).child_graph.nodes())
    1
    """

    __slots__ = ()

    @property
    def child_graph(self) -> GraphDefinition:
        """The copy that the node runs. It is not valid after destroy()."""
        return self._read()  # type: ignore[no-any-return]

    def _ask(self, handle: int) -> GraphDefinition:
        return self._graph._inside(handle, _core.child_node_graph(handle))

    def update(self, child: GraphDefinition) -> None:
        """Replace the child graph by a copy of ``child``, which must have the same topology.

        The nodes of the previous copy become invalid.
        """
        handle, state = self._open(), self._graph._state
        state.remember(handle)
        self._graph._def.set_child(handle, _definition_of(child)._def)
        state.part(handle, 0).clear()


class _EventNode(GraphNode):
    __slots__ = ()

    @property
    def event(self) -> Event:
        """The event that the node records or waits for."""
        return self._read()  # type: ignore[no-any-return]

    def _ask(self, handle: int) -> Event:
        return self._facts() or _core.event_node_get(handle)

    def update(self, event: Event) -> None:
        """Change the event. Executable graphs are not affected."""
        _core.event_node_set(self._open(), event)
        self._uses(_core.hold(event), event)


class EventRecordNode(_EventNode):
    """Records an event.

    >>> graph = GraphDefinition()
    >>> event = device.create_event()
    >>> graph.record(event).event == event
    True
    """

    __slots__ = ()


class EventWaitNode(_EventNode):
    """Waits for an event.

    >>> graph = GraphDefinition()
    >>> event = device.create_event()
    >>> graph.wait(event).event == event
    True
    """

    __slots__ = ()


class HostCallbackNode(GraphNode):
    """Calls a function on the host.

    >>> graph = GraphDefinition()
    >>> seen = []
    >>> graph.callback(lambda: seen.append(1)).callback is not None
    True
    """

    __slots__ = ()

    @property
    def callback(self) -> Any:
        """The Python callable; None for a C function and after destroy(), which releases it."""
        return _core.host_node_get(self._handle) if self.is_valid else None

    def _text(self) -> str:
        return f" callback={self.callback!r}"

    def update(self, fn: Any, *, user_data: Any = None) -> None:
        """Change the function. Executable graphs are not affected."""
        handle = self._open()
        function, address, data, keep = host_function(fn, user_data)
        _core.host_node_set(handle, function, address, data)
        self._uses(keep)


_node_classes.unknown.append(GraphNode)
_node_classes.by_type |= {
    _core.CU_GRAPH_NODE_TYPE_KERNEL: KernelNode,
    _core.CU_GRAPH_NODE_TYPE_MEMCPY: MemcpyNode,
    _core.CU_GRAPH_NODE_TYPE_MEMSET: MemsetNode,
    _core.CU_GRAPH_NODE_TYPE_HOST: HostCallbackNode,
    _core.CU_GRAPH_NODE_TYPE_GRAPH: ChildGraphNode,
    _core.CU_GRAPH_NODE_TYPE_EMPTY: EmptyNode,
    _core.CU_GRAPH_NODE_TYPE_WAIT_EVENT: EventWaitNode,
    _core.CU_GRAPH_NODE_TYPE_EVENT_RECORD: EventRecordNode,
    _core.CU_GRAPH_NODE_TYPE_MEM_ALLOC: AllocNode,
    _core.CU_GRAPH_NODE_TYPE_MEM_FREE: FreeNode,
}
