# SPDX-License-Identifier: Apache-2.0
"""Capturing work into a graph."""

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
    """Turns calls into nodes: between ``begin_building`` and ``end_building`` pass it where a stream is expected.

    >>> builder = device.create_graph_builder().begin_building()
    >>> launch(builder, LaunchConfig(grid=1, block=1), kernel, buffer, 1)
    >>> graph = builder.end_building().complete()
    >>> graph.launch(stream)
    """

    __slots__ = ("__weakref__", "_definition", "_held", "_native", "_stream")
    _definition: GraphDefinition | None  # made when it is first asked for
    _held: list[Any]  # what the graph keeps alive: one list, shared with the graphs made from it
    _native: Any  # the C++ library's builder, which knows what may come next
    _stream: Any  # a Stream; None once closed

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
        """A builder of the same graph."""
        return GraphBuilder._make(native, native.stream(), self._held, definition)

    # ---- what other calls need

    @property
    def _cucore_stream(self) -> Stream:
        stream: Stream = self._native.stream()
        return stream

    def _retain(self, things: Any) -> None:
        """Keep what a captured call used as long as the graph."""
        if self._native.is_building:
            self._held.append(things)

    def _unfinished(self) -> GraphDefinition:
        """The graph in every phase: one object for all builders of it."""
        if self._definition is None:
            self._definition = GraphDefinition._wrap(self._native.definition())
        return self._definition

    def _built(self) -> GraphDefinition:
        self._native.check_built()
        return self._unfinished()

    @property
    def stream(self) -> Any:
        """The stream that work is captured from."""
        return None if self._native.is_closed else self._stream

    def __cuda_stream__(self) -> tuple[int, int]:
        """The protocol by which libraries share streams."""
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
        """True for a builder that split() made, until it is joined."""
        return bool(self._native.is_join_required)

    @property
    def graph_definition(self) -> GraphDefinition:
        """The graph as nodes, once it is built.

        The body of a conditional node has one before begin_building() too, and can be filled node by node.
        """
        if self._definition is not None and self._native.phase == "new" and not self._native.is_primary:
            return self._definition
        return self._built()

    # ---- building

    def begin_building(self, mode: str = "relaxed") -> GraphBuilder:
        """Start: from now on calls with this builder become nodes."""
        number = _MODES.get(str(mode))
        if number is None:
            raise ValueError(f"mode must be one of {', '.join(_MODES)}, not {mode!r}")
        held = self._native.begin_building(number, self._held)
        if held is not self._held:  # a new graph
            self._held, self._definition = held, None
        return self

    def end_building(self) -> GraphBuilder:
        """Stop; then ``complete()`` gives a graph to launch."""
        self._native.end_building()
        return self

    def complete(self, options: GraphCompleteOptions | None = None) -> Graph:
        """Make the graph ready to launch. It keeps what its nodes use."""
        return self._native.complete(options)  # type: ignore[no-any-return]

    def callback(self, fn: Any, *, user_data: Any = None) -> None:
        """Call a function on the host at this point: a Python callable, or a C function of ctypes."""
        function, address, data, keep = host_function(fn, user_data)
        node = self._native.callback(function, address, data)
        self._native.definition().keep_beside(node, keep)

    def embed(self, child: Any) -> None:
        """Run a copy of another graph at this point.

        No driver can copy graphs that allocate or free memory or have conditional nodes: those raise a ValueError.
        """
        self._native.embed(_definition_of(child)._def)

    add_child = embed

    # ---- branches

    def split(self, count: int) -> tuple[GraphBuilder, ...]:
        """Continue in ``count`` branches that may run concurrently; this builder is the first."""
        natives = self._native.split(count)
        return (self, *(self._part(native, self._unfinished()) for native in natives))

    @staticmethod
    def join(*graph_builders: GraphBuilder) -> GraphBuilder:
        """Continue in one branch that waits for all of these; the builders that split() made are closed."""
        return graph_builders[_core._GraphBuilder.join([builder._native for builder in graph_builders])]

    # ---- conditions

    def create_condition(self, default_value: int | None = None) -> GraphCondition:
        """Make what a conditional node decides by; it starts every launch at the default, if one is given."""
        return GraphCondition._make(self._native.create_condition(default_value))

    create_conditional_handle = create_condition

    def _bodies(self, *natives: Any) -> tuple[GraphBuilder, ...]:
        """Builders of what is inside the conditional node that was captured last."""
        node, whole = self._native.captured()[0], self._unfinished()
        parts = [whole._state.part(node, place) for place in range(len(natives))]
        definitions = [GraphDefinition._wrap(n.definition(), part) for n, part in zip(natives, parts, strict=True)]
        return tuple(map(self._part, natives, definitions))

    def if_then(self, condition: GraphCondition) -> GraphBuilder:
        """A builder for what runs when the condition is not zero."""
        return self._bodies(self._native.if_then(_handle_of(condition)))[0]

    if_cond = if_then

    def if_else(self, condition: GraphCondition) -> tuple[GraphBuilder, GraphBuilder]:
        """Builders for what runs when the condition is not zero, and when it is."""
        then, otherwise = self._bodies(*self._native.if_else(_handle_of(condition)))
        return then, otherwise

    def while_loop(self, condition: GraphCondition) -> GraphBuilder:
        """A builder for what runs as long as the condition is not zero."""
        return self._bodies(self._native.while_loop(_handle_of(condition)))[0]

    def switch(self, condition: GraphCondition, count: int) -> tuple[GraphBuilder, ...]:
        """Builders for ``count`` branches; the condition's value names the one that runs."""
        return self._bodies(*self._native.switch_case(_handle_of(condition), count))

    # ---- looking and ending

    def debug_dot_print(self, path: str, options: GraphDebugPrintOptions | None = None) -> None:
        """Write the graph in the DOT language."""
        self._built().debug_dot_print(path, options)

    def debug_print(self, path: str | None = None, options: GraphDebugPrintOptions | None = None) -> None:
        """Write the graph in the DOT language to a file, or to standard output; as a picture to a file named ``*.svg``."""
        self._built().debug_print(path, options)

    def _repr_svg_(self) -> str | None:
        return self._built()._repr_svg_() if self._native.phase == "ended" else None

    def close(self) -> None:
        """End a capture that is in progress and release the graph. Idempotent."""
        self._native.close()
        self._definition, self._stream, self._held = None, None, []

    def __repr__(self) -> str:
        return f"<GraphBuilder {self._native.phase}>"
