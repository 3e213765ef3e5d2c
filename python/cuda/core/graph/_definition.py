# SPDX-License-Identifier: Apache-2.0
"""Graph definitions, and the methods that add nodes to them."""

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
    """The Python state of one driver graph, keyed by node handle.

    ``nodes``: the Python objects of nodes, weakly referenced. ``facts``: data of a node that the driver cannot return
    (the arguments of a launch, the bodies of a conditional node). ``inside``: the states of the graphs inside a node,
    by index. All are created on first access: a captured graph rarely needs them.
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
        """Returns the state of the graph with index ``place`` inside a node."""
        return self.inside.setdefault(node, {}).setdefault(place, _State())

    def parts(self, node: int) -> list[_State]:
        """Returns the states of all graphs inside a node, recursively."""
        mine = list(self.inside.get(node, {}).values())
        return mine + [deeper for part in mine for inner in part.inside for deeper in part.parts(inner)]

    def remember(self, node: int) -> None:
        """Saves the parameters of all nodes of the graphs inside a node, before the driver destroys these graphs."""
        for inner in [inner for part in self.parts(node) for inner in part.nodes.values()]:
            inner._remember()

    def forget(self, node: int) -> None:
        """Removes the state of a destroyed node."""
        self.nodes.pop(node, None)
        self.facts.pop(node, None)
        self.inside.pop(node, None)

    def clear(self) -> None:
        """Removes the state of all nodes."""
        self.nodes.clear()
        self.facts.clear()
        self.inside.clear()


def as_packed(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Converts kernel arguments to values that can be packed again, independent of the objects they came from."""
    return tuple(_as_packed(arg) for arg in args)


def _as_packed(arg: Any) -> Any:
    if isinstance(arg, _core.Buffer):
        return arg.handle
    block = getattr(arg, "_kernel_argument_address", None)
    if block is not None:  # a tensor map: mutable and passed by value
        import ctypes

        return (ctypes.c_char * block[1]).from_buffer_copy(ctypes.string_at(*block))
    return getattr(arg, "_kernel_argument", arg)


address_of = _core.graph_address
copy_end = _core.copy_end
held = _core.hold_operand
host_function = _core.host_function
memset_pattern = _core.memset_pattern
#: Indexed by the value of the C++ enum.
MEMORY_TYPES = (GraphMemoryType.DEVICE, GraphMemoryType.HOST, GraphMemoryType.MANAGED)


class GraphCondition:
    """The condition of a conditional node. A kernel that takes it as an argument sets its value.

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
        """The driver's handle (a ``CUgraphConditionalHandle``) as an int."""
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
    """Methods that add nodes. On a definition, the new node has no dependencies; on a node, it depends on that node."""

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
        """Add a node that allocates memory. Its ``dptr`` is valid immediately."""
        home = self._home()
        number = int(_core.Device(device))
        kind = _core.choice(GraphMemoryType, memory_type, "memory_type")
        peers = [int(_core.Device(peer)) for peer in peer_access or ()]
        handle = home._def.add_alloc(self._after(), size, MEMORY_TYPES.index(kind), number, peers)
        return cast("AllocNode", home._node(handle))

    def deallocate(self, dptr: int) -> FreeNode:
        """Add a node that frees the memory of an AllocNode."""
        home = self._home()
        return cast("FreeNode", home._node(home._def.add_free(self._after(), address_of(dptr))))

    def launch(self, config: LaunchConfig, kernel: Kernel, *args: Any) -> KernelNode:
        """Add a node that launches a kernel. The arguments are those of ``cuda.core.launch``."""
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
        """Add a node that copies ``size`` bytes. Addresses may be given with an owner to keep alive.

        An OpaqueArray is copied as a whole. Its rows are packed in linear memory.
        """
        home = self._home()
        (to, into), (of, out_of) = copy_end(dst), copy_end(src)
        uses = held(dst, dst_owner), held(src, src_owner)
        handle = home._def.add_memcpy(self._after(), to, of, size, into, out_of)
        return cast("MemcpyNode", home._node(handle, keep=uses, facts=uses))

    def memset(
        self, dst: Buffer | int, value: Any, width: int, height: int = 1, pitch: int = 0, *, dst_owner: Any = None
    ) -> MemsetNode:
        """Add a node that fills memory with a value: ``height`` rows of ``width`` elements, ``pitch`` bytes apart."""
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
        """Add a child graph node with a copy of another graph."""
        home = self._home()
        # The copy also keeps the objects that the child's nodes use alive.
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
        """Add an empty node that depends on all these nodes."""
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
        """Add a conditional node whose body (``then``) runs if the condition is nonzero."""
        return cast("IfNode", self._conditional(condition, _core.CU_GRAPH_COND_TYPE_IF, 1))

    def if_else(self, condition: GraphCondition) -> IfElseNode:
        """Add a conditional node with two bodies, ``then`` and ``else_``."""
        return cast("IfElseNode", self._conditional(condition, _core.CU_GRAPH_COND_TYPE_IF, 2))

    def while_loop(self, condition: GraphCondition) -> WhileNode:
        """Add a conditional node whose ``body`` repeats while the condition is nonzero."""
        return cast("WhileNode", self._conditional(condition, _core.CU_GRAPH_COND_TYPE_WHILE, 1))

    def switch(self, condition: GraphCondition, count: int) -> SwitchNode:
        """Add a conditional node with ``count`` branches. The value of the condition selects one, or none."""
        return cast("SwitchNode", self._conditional(condition, _core.CU_GRAPH_COND_TYPE_SWITCH, count))


class GraphDefinition(_Adder):
    """A modifiable graph. Its methods add nodes without dependencies; those of a node add nodes that depend on it.

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
        """Returns the definition of a graph inside a node."""
        return GraphDefinition._wrap(self._def.inside(node, handle), self._state.part(node, place))

    def _node(self, handle: int, keep: Any = None, facts: Any = None) -> Any:
        """Returns the Python object of a node. A new node keeps ``keep`` alive and has the given ``facts``."""
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
        self._def.share()  # graphs that others create from the handle keep the used objects alive
        return _handle("CUgraph", self._def.handle)

    @property
    def is_valid(self) -> bool:
        """False after its capture has failed or the node that contains it is destroyed."""
        return self._def.handle != 0

    def callback(self, fn: Any, *, user_data: Any = None) -> HostCallbackNode:
        """Add a host callback node. ``fn`` is a Python callable or a C function of ctypes."""
        return self._callback(fn, user_data)

    def empty(self) -> EmptyNode:
        """Add an empty node."""
        return cast("EmptyNode", self._node(self._def.add_empty([])))

    def create_condition(self, default_value: int | None = None) -> GraphCondition:
        """Create a condition for conditional nodes. Each launch resets it to the default value, if one is given."""
        value = self._def.create_condition(default_value or 0, default_value is not None)
        return GraphCondition._make(value)

    def nodes(self) -> set[GraphNode]:
        """Return all nodes."""
        return {self._node(handle) for handle in self._def.nodes()}

    def edges(self) -> set[tuple[GraphNode, GraphNode]]:
        """Return all edges as pairs of nodes; the second node depends on the first."""
        return {(self._node(a), self._node(b)) for a, b in self._def.edges()}

    def instantiate(self, options: GraphCompleteOptions | None = None) -> Graph:
        """Instantiate the graph. The executable graph keeps the objects that its nodes use alive."""
        return self._def.instantiate(options)

    complete = instantiate

    def debug_dot_print(self, path: str, options: GraphDebugPrintOptions | None = None) -> None:
        """Write the graph in the DOT language."""
        self._def.debug_dot_print(os.fsdecode(path), _flags_of(options))

    def debug_print(self, path: str | None = None, options: GraphDebugPrintOptions | None = None) -> None:
        """Write the graph in the DOT language to a file or to standard output, or as an image to a ``*.svg`` file."""
        if path is None:
            print(self._def.dot(_flags_of(options)), end="")
        elif os.fsdecode(path).endswith(".svg"):
            from pathlib import Path

            Path(os.fsdecode(path)).write_text(self._repr_svg_(), encoding="utf-8")
        else:
            self.debug_dot_print(path, options)

    def _repr_svg_(self) -> str:
        """Return an SVG image for notebooks."""
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
    """Returns a GraphDefinition as it is, and the definition of a finished GraphBuilder."""
    if isinstance(source, GraphDefinition):
        return source
    built = getattr(source, "_built", None)  # a GraphBuilder's
    if built is not None:
        return built()  # type: ignore[no-any-return]
    raise TypeError(f"expected a GraphDefinition or a GraphBuilder, not {type(source).__name__}")
