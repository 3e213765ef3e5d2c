# SPDX-License-Identifier: Apache-2.0
"""Graphs that can still be changed, and how nodes are added to them."""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Any, cast

from .. import _core
from .._core import Graph
from ..typing import GraphMemoryType
from ._node_classes import conditional_class, node_class
from ._options import GraphCompleteOptions, GraphDebugPrintOptions

if TYPE_CHECKING:
    from .._core import Buffer, Device, Event, Kernel, LaunchConfig
    from ..texture import OpaqueArray
    from ._conditionals import IfElseNode, IfNode, SwitchNode, WhileNode
    from ._nodes import (
        AllocNode,
        ChildGraphNode,
        EmptyNode,
        EventRecordNode,
        EventWaitNode,
        FreeNode,
        GraphNode,
        HostCallbackNode,
        KernelNode,
        MemcpyNode,
        MemsetNode,
    )


class _State:
    """What belongs to one graph of the driver, by a node's handle.

    ``nodes``: the objects that stand for nodes, while they are referenced. ``facts``: what the driver does not say of
    a node (a launch's arguments, a conditional's bodies). ``inside``: the same for the graphs inside a node, by their
    place in it. All are made when first touched: a captured graph rarely needs them.
    """

    __slots__ = ("__weakref__", "facts", "inside", "nodes")
    nodes: weakref.WeakValueDictionary[int, GraphNode]
    facts: dict[int, Any]
    inside: dict[int, dict[int, _State]]

    def __getattr__(self, name: str) -> Any:
        if name not in ("nodes", "facts", "inside"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        value: Any = weakref.WeakValueDictionary() if name == "nodes" else {}
        setattr(self, name, value)
        return value

    def part(self, node: int, place: int) -> _State:
        """The state of a graph inside a node."""
        return self.inside.setdefault(node, {}).setdefault(place, _State())

    def parts(self, node: int) -> list[_State]:
        """The states of all graphs inside a node, and inside those."""
        mine = list(self.inside.get(node, {}).values())
        return mine + [deeper for part in mine for inner in part.inside for deeper in part.parts(inner)]

    def remember(self, node: int) -> None:
        """The driver is about to destroy the graph inside a node: objects of nodes there copy their parameters."""
        for inner in [inner for part in self.parts(node) for inner in part.nodes.values()]:
            inner._remember()

    def forget(self, node: int) -> None:
        """A node is gone."""
        self.nodes.pop(node, None)
        self.facts.pop(node, None)
        self.inside.pop(node, None)

    def clear(self) -> None:
        """All nodes are gone."""
        self.nodes.clear()
        self.facts.clear()
        self.inside.clear()


def as_packed(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments of a kernel as values that can be packed again, whatever happens to the objects they came from."""
    return tuple(_as_packed(arg) for arg in args)


def _as_packed(arg: Any) -> Any:
    if isinstance(arg, _core.Buffer):
        return arg.handle
    block = getattr(arg, "_kernel_argument_address", None)
    if block is not None:  # a tensor map, which is passed by value and can be changed
        import ctypes

        return (ctypes.c_char * block[1]).from_buffer_copy(ctypes.string_at(*block))
    return getattr(arg, "_kernel_argument", arg)


address_of = _core.graph_address
copy_end = _core.copy_end
held = _core.hold_operand
host_function = _core.host_function
memset_pattern = _core.memset_pattern
#: By the C++ number of the type.
MEMORY_TYPES = (GraphMemoryType.DEVICE, GraphMemoryType.HOST, GraphMemoryType.MANAGED)


class GraphCondition:
    """What a conditional node decides by; pass it to a kernel, which sets it.

    >>> graph = GraphDefinition()
    >>> graph.create_condition(default_value=1)
    <GraphCondition...>
    """

    __slots__ = ("__weakref__", "_handle")
    _handle: int

    def __init__(self, *arg: Any, **kwargs: Any) -> None:
        raise RuntimeError("GraphCondition objects cannot be instantiated directly: use create_condition()")

    @classmethod
    def _make(cls, handle: int) -> GraphCondition:
        self = cls.__new__(cls)
        self._handle = handle
        return self

    @property
    def handle(self) -> int:
        """The driver's handle, an int."""
        return self._handle

    @property
    def _kernel_argument(self) -> int:
        return self._handle

    def __int__(self) -> int:
        return self._handle

    def __eq__(self, other: object) -> bool:
        return self._handle == other._handle if isinstance(other, GraphCondition) else NotImplemented

    def __hash__(self) -> int:
        return hash((GraphCondition, self._handle))

    def __repr__(self) -> str:
        return f"<GraphCondition handle={self._handle:#x}>"


class _Adder:
    """Adds nodes: a definition adds them with no dependency, a node adds them after itself."""

    __slots__ = ()

    def _home(self) -> GraphDefinition:
        raise NotImplementedError

    def _after(self) -> list[int]:
        return []

    def allocate(
        self,
        size: int,
        *,
        device: Device | int | None = None,
        memory_type: GraphMemoryType = GraphMemoryType.DEVICE,
        peer_access: list[Device | int] | None = None,
    ) -> AllocNode:
        """Add a node that allocates memory; its ``dptr`` is known at once."""
        home = self._home()
        number = int(_core.Device(device))
        kind = _core.choice(GraphMemoryType, memory_type, "memory_type")
        peers = [int(_core.Device(peer)) for peer in peer_access or ()]
        handle = home._def.add_alloc(self._after(), size, MEMORY_TYPES.index(kind), number, peers)
        return cast("AllocNode", home._node(handle))

    def deallocate(self, dptr: int) -> FreeNode:
        """Add a node that frees what an AllocNode allocated."""
        home = self._home()
        return cast("FreeNode", home._node(home._def.add_free(self._after(), address_of(dptr))))

    def launch(self, config: LaunchConfig, kernel: Kernel, *args: Any) -> KernelNode:
        """Add a node that runs a kernel; arguments as for ``cuda.core.launch``."""
        home = self._home()
        handle = home._def.add_kernel(self._after(), config, kernel, args)
        packed, used = as_packed(args), _core.hold(args)
        return cast("KernelNode", home._node(handle, keep=(kernel, used), facts=(kernel, config, packed, used)))

    def memcpy(
        self,
        dst: Buffer | OpaqueArray | int,
        src: Buffer | OpaqueArray | int,
        size: int,
        *,
        dst_owner: Any = None,
        src_owner: Any = None,
    ) -> MemcpyNode:
        """Add a node that copies ``size`` bytes; addresses can name owners to keep alive.

        An OpaqueArray is copied as a whole, its rows packed in linear memory.
        """
        home = self._home()
        (to, into), (of, out_of) = copy_end(dst), copy_end(src)
        uses = held(dst, dst_owner), held(src, src_owner)
        handle = home._def.add_memcpy(self._after(), to, of, size, into, out_of)
        return cast("MemcpyNode", home._node(handle, keep=uses, facts=uses))

    def memset(
        self, dst: Buffer | int, value: Any, width: int, height: int = 1, pitch: int = 0, *, dst_owner: Any = None
    ) -> MemsetNode:
        """Add a node that repeats a pattern: rows of ``width`` elements, ``pitch`` bytes apart."""
        home = self._home()
        pattern, element = memset_pattern(value)
        address, uses = address_of(dst), held(dst, dst_owner)
        handle = home._def.add_memset(self._after(), address, pattern, element, width, height, pitch)
        return cast("MemsetNode", home._node(handle, keep=uses))

    def _callback(self, fn: Any, user_data: Any) -> HostCallbackNode:
        home = self._home()
        function, address, data, keep = host_function(fn, user_data)
        return cast(
            "HostCallbackNode", home._node(home._def.add_host(self._after(), function, address, data), keep=keep)
        )

    def embed(self, child: GraphDefinition) -> ChildGraphNode:
        """Add a node that runs a copy of another graph."""
        home = self._home()
        # What the child's nodes use comes with the copy.
        return cast("ChildGraphNode", home._node(home._def.add_child(self._after(), _definition_of(child)._def)))

    def record(self, event: Event) -> EventRecordNode:
        """Add a node that records an event."""
        home = self._home()
        return cast(
            "EventRecordNode",
            home._node(home._def.add_event_record(self._after(), event), keep=_core.hold(event), facts=event),
        )

    def wait(self, event: Event) -> EventWaitNode:
        """Add a node that waits for an event."""
        home = self._home()
        return cast(
            "EventWaitNode",
            home._node(home._def.add_event_wait(self._after(), event), keep=_core.hold(event), facts=event),
        )

    def join(self, *nodes: GraphNode) -> EmptyNode:
        """Add a node that does nothing after all these."""
        home = self._home()
        return cast("EmptyNode", home._node(home._def.add_empty(self._after() + [node._open() for node in nodes])))

    def _conditional(self, condition: GraphCondition, kind: int, count: int) -> Any:
        if not isinstance(condition, GraphCondition):
            raise TypeError(f"condition must be a GraphCondition, not {type(condition).__name__}")
        home = self._home()
        handle, bodies = home._def.add_conditional(self._after(), condition.handle, kind, count)
        parts = tuple(home._inside(handle, body, place) for place, body in enumerate(bodies))
        home._state.facts[handle] = (conditional_class(kind, count), condition, parts)
        return home._node(handle)

    def if_then(self, condition: GraphCondition) -> IfNode:
        """Add a node whose body (``then``) runs when the condition is not zero."""
        return cast("IfNode", self._conditional(condition, _core.CU_GRAPH_COND_TYPE_IF, 1))

    def if_else(self, condition: GraphCondition) -> IfElseNode:
        """Add a node with two bodies, ``then`` and ``else_``."""
        return cast("IfElseNode", self._conditional(condition, _core.CU_GRAPH_COND_TYPE_IF, 2))

    def while_loop(self, condition: GraphCondition) -> WhileNode:
        """Add a node whose ``body`` runs as long as the condition is not zero."""
        return cast("WhileNode", self._conditional(condition, _core.CU_GRAPH_COND_TYPE_WHILE, 1))

    def switch(self, condition: GraphCondition, count: int) -> SwitchNode:
        """Add a node that runs the branch the condition's value names, or none."""
        return cast("SwitchNode", self._conditional(condition, _core.CU_GRAPH_COND_TYPE_SWITCH, count))


class GraphDefinition(_Adder):
    """A graph that can still be changed. Methods add nodes that start at once; nodes add what comes after them.

    >>> definition = GraphDefinition()
    >>> first = definition.memset(buffer, 0, buffer.size)
    >>> second = first.launch(LaunchConfig(grid=1, block=1), kernel, buffer, 1)
    >>> second.pred == {first}
    True
    >>> graph = definition.instantiate()
    >>> graph.launch(stream)
    """

    __slots__ = ("__weakref__", "_def", "_state")

    def __init__(self) -> None:
        self._def = _core._GraphDef.create()
        self._state = _State()

    @classmethod
    def _wrap(cls, definition: Any, state: _State | None = None) -> GraphDefinition:
        self = cls.__new__(cls)
        self._def = definition
        self._state = state or _State()
        return self

    def _home(self) -> GraphDefinition:
        return self

    def _inside(self, node: int, handle: int, place: int = 0) -> GraphDefinition:
        """A graph inside a node."""
        return GraphDefinition._wrap(self._def.inside(node, handle), self._state.part(node, place))

    def _node(self, handle: int, keep: Any = None, facts: Any = None) -> Any:
        """The object for a node; for a new one, what it uses and what the driver will not say of it."""
        if keep is not None:
            self._def.use(handle, keep)
        if facts is not None:
            self._state.facts[handle] = facts
        node = self._state.nodes.get(handle)
        if node is None:
            cls = node_class(_core.node_type(handle), self._state.facts.get(handle))
            node = self._state.nodes.setdefault(handle, cls._make(self, handle))
        return node

    @property
    def handle(self) -> Any:
        """The driver's handle, for cuda.bindings."""
        self._def.share()  # what others make from it keeps what it uses
        return _handle("CUgraph", self._def.handle)

    @property
    def is_valid(self) -> bool:
        """False once the capture it belonged to has failed, or the node it was inside is destroyed."""
        return self._def.handle != 0

    def callback(self, fn: Any, *, user_data: Any = None) -> HostCallbackNode:
        """Add a node that calls a function on the host: a Python callable, or a C function of ctypes."""
        return self._callback(fn, user_data)

    def empty(self) -> EmptyNode:
        """Add a node that does nothing."""
        return cast("EmptyNode", self._node(self._def.add_empty([])))

    def create_condition(self, default_value: int | None = None) -> GraphCondition:
        """Make what a conditional node decides by; it starts every launch at the default, if one is given."""
        value = self._def.create_condition(default_value or 0, default_value is not None)
        return GraphCondition._make(value)

    def nodes(self) -> set[GraphNode]:
        """All nodes."""
        return {self._node(handle) for handle in self._def.nodes()}

    def edges(self) -> set[tuple[GraphNode, GraphNode]]:
        """All pairs of nodes where the second waits for the first."""
        return {(self._node(a), self._node(b)) for a, b in self._def.edges()}

    def instantiate(self, options: GraphCompleteOptions | None = None) -> Graph:
        """Make the graph ready to launch. It keeps what its nodes use."""
        return self._def.instantiate(options)

    complete = instantiate

    def debug_dot_print(self, path: str, options: GraphDebugPrintOptions | None = None) -> None:
        """Write the graph in the DOT language."""
        self._def.debug_dot_print(os.fsdecode(path), _flags_of(options))

    def debug_print(self, path: str | None = None, options: GraphDebugPrintOptions | None = None) -> None:
        """Write the graph in the DOT language to a file, or to standard output; as a picture to a file named ``*.svg``."""
        if path is None:
            print(self._def.dot(_flags_of(options)), end="")
        elif os.fsdecode(path).endswith(".svg"):
            from pathlib import Path

            Path(os.fsdecode(path)).write_text(self._repr_svg_(), encoding="utf-8")
        else:
            self.debug_dot_print(path, options)

    def _repr_svg_(self) -> str:
        """A picture for notebooks."""
        return self._def.svg()

    def __eq__(self, other: object) -> bool:
        return self._def.handle == other._def.handle if isinstance(other, GraphDefinition) else NotImplemented

    def __hash__(self) -> int:
        return hash((GraphDefinition, self._def.handle))

    def __repr__(self) -> str:
        return f"<GraphDefinition handle={self._def.handle:#x}>"


def _flags_of(options: GraphDebugPrintOptions | None) -> int:
    return _core.options_or_default(options, GraphDebugPrintOptions)._flags()


def _handle(kind: str, value: int) -> Any:
    from cuda.bindings import driver

    return getattr(driver, kind)(value)


def _definition_of(source: Any) -> GraphDefinition:
    """A GraphDefinition, or the one a GraphBuilder has built."""
    if isinstance(source, GraphDefinition):
        return source
    built = getattr(source, "_built", None)  # a GraphBuilder's
    if built is not None:
        return built()  # type: ignore[no-any-return]
    raise TypeError(f"expected a GraphDefinition or a GraphBuilder, not {type(source).__name__}")
