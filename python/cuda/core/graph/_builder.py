# SPDX-License-Identifier: Apache-2.0
"""Stream capture into a graph."""

from __future__ import annotations

from typing import Any

from .. import _core
from .._core import Graph, Stream
from ._definition import GraphCondition, GraphDefinition, _definition_of, host_function
from ._options import GraphCompleteOptions, GraphDebugPrintOptions

_MODES = {"global": 0, "thread_local": 1, "relaxed": 2}


def _handle_of(condition: Any) -> int:
    if not isinstance(condition, GraphCondition):
        raise TypeError(f"condition must be a GraphCondition, not {type(condition).__name__}")
    return condition.handle


class GraphBuilder:
    """Captures work into a graph. Pass it in place of a stream between ``begin_building`` and ``end_building``.

    >>> builder = device.create_graph_builder().begin_building()
    >>> launch(builder, LaunchConfig(grid=1, block=1), kernel, buffer, 1)
    >>> graph = builder.end_building().complete()
    >>> graph.launch(stream)
    """

    __slots__ = ("__weakref__", "_definition", "_held", "_native", "_stream")
    _definition: GraphDefinition | None  # created on first access
    _held: list[Any]  # objects the graph keeps alive; one list, shared with the graphs created from it
    _native: Any  # the C++ builder, which checks the order of calls
    _stream: Any  # a Stream; None after close()

    def __init__(self) -> None:
        raise RuntimeError(
            "GraphBuilder objects cannot be instantiated directly: use create_graph_builder() of a Device or a Stream"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            "a GraphBuilder cannot be pickled: it captures on a stream of this process; build the graph where it runs"
        )

    @classmethod
    def _make(cls, native: Any, stream: Any, held: list[Any], definition: GraphDefinition | None) -> GraphBuilder:
        self = cls.__new__(cls)
        self._native = native
        self._stream = stream
        self._held = held
        self._definition = definition
        return self

    def _part(self, native: Any, definition: GraphDefinition | None = None) -> GraphBuilder:
        """Returns another builder of the same graph."""
        return GraphBuilder._make(native, native.stream(), self._held, definition)

    # ---- used by other modules

    @property
    def _cucore_stream(self) -> Stream:
        stream: Stream = self._native.stream()
        return stream

    def _retain(self, things: Any) -> None:
        """Keeps the objects that a captured call uses alive as long as the graph."""
        if self._native.is_building:
            self._held.append(things)

    def _unfinished(self) -> GraphDefinition:
        """Returns the graph, finished or not: one object for all its builders."""
        if self._definition is None:
            self._definition = GraphDefinition._wrap(self._native.definition())
        return self._definition

    def _built(self) -> GraphDefinition:
        self._native.check_built()
        return self._unfinished()

    @property
    def stream(self) -> Any:
        """The capturing stream."""
        return None if self._native.is_closed else self._stream

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return (protocol version, stream handle): the stream protocol."""
        return self._cucore_stream.__cuda_stream__()

    @property
    def is_building(self) -> bool:
        """True between begin_building() and end_building()."""
        return bool(self._native.is_building)

    @property
    def is_closed(self) -> bool:
        """True after close()."""
        return bool(self._native.is_closed)

    @property
    def is_join_required(self) -> bool:
        """True for a builder that split() created, until it is joined."""
        return bool(self._native.is_join_required)

    @property
    def graph_definition(self) -> GraphDefinition:
        """The definition of the graph, available after end_building().

        The body of a conditional node has one before begin_building() too, to which nodes can be added.
        """
        if self._definition is not None and self._native.phase == "new" and not self._native.is_primary:
            return self._definition
        return self._built()

    # ---- building

    def begin_building(self, mode: str = "relaxed") -> GraphBuilder:
        """Begin the capture: calls that take this builder as their stream add nodes. Return this builder."""
        number = _MODES.get(str(mode))
        if number is None:
            raise ValueError(f"mode must be one of {', '.join(_MODES)}, not {mode!r}")
        held = self._native.begin_building(number, self._held)
        if held is not self._held:  # a new graph
            self._held, self._definition = held, None
        return self

    def end_building(self) -> GraphBuilder:
        """End the capture. Return this builder; ``complete()`` then instantiates the graph."""
        self._native.end_building()
        return self

    def complete(self, options: GraphCompleteOptions | None = None) -> Graph:
        """Instantiate the graph. The executable graph keeps the objects that its nodes use alive."""
        return self._native.complete(options)  # type: ignore[no-any-return]

    def callback(self, fn: Any, *, user_data: Any = None) -> None:
        """Add a host callback: a Python callable, or a C function of ctypes."""
        function, address, data, keep = host_function(fn, user_data)
        node = self._native.callback(function, address, data)
        self._native.definition().keep_beside(node, keep)

    def embed(self, child: Any) -> None:
        """Add a copy of another graph as a child graph.

        Raises ValueError for a graph that allocates or frees memory or has conditional nodes, which no driver can copy.
        """
        self._native.embed(_definition_of(child)._def)

    add_child = embed

    # ---- branches

    def split(self, count: int) -> tuple[GraphBuilder, ...]:
        """Fork the capture into ``count`` branches that may run concurrently. The first one is this builder."""
        natives = self._native.split(count)
        return (self, *(self._part(native, self._unfinished()) for native in natives))

    @staticmethod
    def join(*graph_builders: GraphBuilder) -> GraphBuilder:
        """Join branches into one that depends on all of them. The builders that split() created are closed."""
        return graph_builders[_core._GraphBuilder.join([builder._native for builder in graph_builders])]

    # ---- conditions

    def create_condition(self, default_value: int | None = None) -> GraphCondition:
        """Create a condition for conditional nodes. Each launch resets it to the default value, if one is given."""
        return GraphCondition._make(self._native.create_condition(default_value))

    create_conditional_handle = create_condition

    def _bodies(self, *natives: Any) -> tuple[GraphBuilder, ...]:
        """Returns builders for the bodies of the conditional node that was captured last."""
        node, whole = self._native.captured()[0], self._unfinished()
        parts = [whole._state.part(node, place) for place in range(len(natives))]
        definitions = [GraphDefinition._wrap(n.definition(), part) for n, part in zip(natives, parts, strict=True)]
        return tuple(map(self._part, natives, definitions))

    def if_then(self, condition: GraphCondition) -> GraphBuilder:
        """Add a conditional node. Return the builder of its body, which runs if the condition is nonzero."""
        return self._bodies(self._native.if_then(_handle_of(condition)))[0]

    if_cond = if_then

    def if_else(self, condition: GraphCondition) -> tuple[GraphBuilder, GraphBuilder]:
        """Add a conditional node. Return the builders of its bodies: for a nonzero condition, and for zero."""
        then, otherwise = self._bodies(*self._native.if_else(_handle_of(condition)))
        return then, otherwise

    def while_loop(self, condition: GraphCondition) -> GraphBuilder:
        """Add a conditional node. Return the builder of its body, which repeats while the condition is nonzero."""
        return self._bodies(self._native.while_loop(_handle_of(condition)))[0]

    def switch(self, condition: GraphCondition, count: int) -> tuple[GraphBuilder, ...]:
        """Add a conditional node. Return the builders of ``count`` bodies; the value of the condition selects one."""
        return self._bodies(*self._native.switch_case(_handle_of(condition), count))

    # ---- printing and closing

    def debug_dot_print(self, path: str, options: GraphDebugPrintOptions | None = None) -> None:
        """Write the graph in the DOT language."""
        self._built().debug_dot_print(path, options)

    def debug_print(self, path: str | None = None, options: GraphDebugPrintOptions | None = None) -> None:
        """Write the graph in the DOT language to a file or to standard output, or as an image to a ``*.svg`` file."""
        self._built().debug_print(path, options)

    def _repr_svg_(self) -> str | None:
        return self._built()._repr_svg_() if self._native.phase == "ended" else None

    def close(self) -> None:
        """End a capture in progress and release the graph. Idempotent."""
        self._native.close()
        self._definition, self._stream, self._held = None, None, []

    def __repr__(self) -> str:
        return f"<GraphBuilder {self._native.phase}>"
