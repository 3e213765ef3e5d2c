# SPDX-License-Identifier: Apache-2.0
"""Capturing work into a graph."""

from __future__ import annotations

import contextlib
import weakref
from typing import Any

from .. import _core
from .._core import Graph, Stream
from .._errors import CUDAError
from ._definition import GraphCondition, GraphDefinition, _definition_of, host_function
from ._options import GraphCompleteOptions, GraphDebugPrintOptions

_MODES = {"global": 0, "thread_local": 1, "relaxed": 2}
_IF, _WHILE, _SWITCH = 0, 1, 2
_ACTIVE = 1  # CU_STREAM_CAPTURE_STATUS_ACTIVE


def _is_capturing(stream: Any) -> bool:
    with contextlib.suppress(CUDAError):
        return bool(_core.capture_info(stream)[0])
    return False


class GraphBuilder:
    """Turns calls into nodes: between ``begin_building`` and ``end_building`` pass it where a stream is expected.

    >>> builder = device.create_graph_builder().begin_building()
    >>> launch(builder, LaunchConfig(grid=1, block=1), kernel, buffer, 1)
    >>> graph = builder.end_building().complete()
    >>> graph.launch(stream)
    """

    __slots__ = (
        "__weakref__",
        "_branches",
        "_definition",
        "_held",
        "_kind",
        "_parent",
        "_phase",
        "_stream",
    )
    _branches: weakref.WeakSet[GraphBuilder]  # what split() made of one capture: they end with it
    _definition: GraphDefinition | None
    _held: list[Any]  # what the graph keeps alive: one list for the whole, which goes with it to whatever is made of it
    _kind: str  # primary, forked (from split) or body (of a conditional node)
    _parent: GraphBuilder | None
    _phase: str
    _stream: Any  # a Stream; None once closed

    def __init__(self) -> None:
        raise RuntimeError("a GraphBuilder comes from create_graph_builder() of a Device or a Stream")

    @classmethod
    def _init(cls, stream: Any) -> GraphBuilder:
        return cls._make(stream, "primary")

    @classmethod
    def _make(
        cls, stream: Any, kind: str, parent: GraphBuilder | None = None, body: GraphDefinition | None = None
    ) -> GraphBuilder:
        self = cls.__new__(cls)
        self._stream = stream
        self._kind = kind
        self._parent = parent
        self._phase = "building" if kind == "forked" else "new"
        self._definition = parent._definition if parent is not None and kind == "forked" else body
        self._held = parent._held if parent is not None else []
        if parent is not None and kind == "forked":
            self._branches = parent._branches
            self._branches.add(self)
        else:
            self._branches = weakref.WeakSet()
        return self

    # ---- what other calls need

    @property
    def _cucore_stream(self) -> Stream:
        self._check_open()
        stream: Stream = self._stream
        return stream

    def _retain(self, things: Any) -> None:
        """Keep what a captured call used as long as the graph."""
        if self._phase == "building":
            self._held.append(things)

    def _check_open(self) -> None:
        if self._phase == "closed":
            raise RuntimeError("the graph builder is closed")

    def _check_building(self) -> None:
        self._check_open()
        if self._phase != "building":
            raise RuntimeError("the graph builder is not building: call begin_building() first")

    def _built(self) -> GraphDefinition:
        self._check_open()
        if self._phase == "building":
            raise RuntimeError("the graph is still being built: call end_building() first")
        if self._phase != "ended" or self._definition is None:
            raise RuntimeError("nothing was built: call begin_building(), queue work, and call end_building()")
        return self._definition

    @property
    def stream(self) -> Any:
        """The stream that work is captured from."""
        return self._stream

    def __cuda_stream__(self) -> tuple[int, int]:
        """The protocol by which libraries share streams."""
        return self._cucore_stream.__cuda_stream__()

    @property
    def is_building(self) -> bool:
        """True between begin_building() and end_building()."""
        return self._phase == "building"

    @property
    def is_closed(self) -> bool:
        """True after close()."""
        return self._phase == "closed"

    @property
    def is_join_required(self) -> bool:
        """True for a builder that split() made, until it is joined."""
        return self._kind == "forked" and self._phase == "building"

    @property
    def graph_definition(self) -> GraphDefinition:
        """The graph as nodes, once it is built.

        The body of a conditional node has one before begin_building() too, and can be filled node by node.
        """
        if self._phase == "new" and self._definition is not None:
            return self._definition
        return self._built()

    # ---- building

    def begin_building(self, mode: str = "relaxed") -> GraphBuilder:
        """Start: from now on calls with this builder become nodes."""
        self._check_open()
        if self._kind == "forked":
            raise RuntimeError("a builder that split() made is building already")
        if self._phase == "building":
            raise RuntimeError("the graph builder is building already")
        if self._phase == "ended" and self._kind == "body":
            raise RuntimeError("the body of a conditional node can be built once only")
        number = _MODES.get(str(mode))
        if number is None:
            raise ValueError(f"mode must be one of {', '.join(_MODES)}, not {mode!r}")
        if self._kind == "body" and self._definition is not None:
            _core.capture_begin_to(self._stream, self._definition._def.handle, number)
        else:
            self._held = []
            self._definition = GraphDefinition._wrap(_core.capture_begin(self._stream, number, self._held))
        self._phase = "building"
        return self

    def end_building(self) -> GraphBuilder:
        """Stop; then ``complete()`` gives a graph to launch."""
        self._check_building()
        if self._kind == "forked":
            raise RuntimeError("a builder that split() made ends by GraphBuilder.join()")
        self._phase = "ended"
        definition = self._definition
        assert definition is not None
        try:
            handle = _core.capture_end(self._stream)
        except Exception:
            if _is_capturing(self._stream):  # the call came from another thread, say: nothing has ended
                self._phase = "building"
                raise
            self._phase = "new" if self._kind == "primary" else "closed"
            self._definition = None
            if self._kind == "primary":
                definition._def.own(0)  # the driver has destroyed it
            self._close_branches()
            raise
        if self._kind == "primary":
            definition._def.own(handle)
        return self

    def complete(self, options: GraphCompleteOptions | None = None) -> Graph:
        """Make the graph ready to launch. It keeps what its nodes use."""
        if self._kind != "primary":
            raise RuntimeError("only the builder that began the graph can complete it")
        return self._built().instantiate(options)

    def callback(self, fn: Any, *, user_data: Any = None) -> None:
        """Call a function on the host at this point: a Python callable, or a C function of ctypes."""
        self._check_building()
        function, address, data, keep = host_function(fn, user_data)
        self._captured()  # or the stream would call at once, and nobody keep the function until then
        _core.launch_host(self._stream, function, address, data)
        graph, made = self._captured()
        graph.keep_beside(made[0], keep)

    def embed(self, child: Any) -> None:
        """Run a copy of another graph at this point.

        No driver can copy graphs that allocate or free memory or have conditional nodes: those raise a ValueError.
        """
        self._check_building()
        definition = _definition_of(child)
        graph, after = self._captured()
        node = graph.add_child(after, definition._def)
        _core.capture_continue_after(self._stream, [node])

    add_child = embed

    def _captured(self) -> tuple[Any, list[int]]:
        """The graph that is being captured, and the nodes that come before what is next.

        A capture that a forbidden call has ended, or whose first builder is closed, has no graph any more: the driver
        must not be asked to change it.
        """
        status, _, _, after = _core.capture_info(self._stream)
        if status != _ACTIVE or self._definition is None:
            raise RuntimeError(
                "the capture has ended: a call that is not allowed while capturing broke it, or the builder that "
                "began it was closed; close this builder and begin again"
            )
        return self._definition._def, after

    # ---- branches

    def split(self, count: int) -> tuple[GraphBuilder, ...]:
        """Go on in ``count`` branches that may run at once; this builder is the first."""
        self._check_building()
        if count < 2:
            raise ValueError(f"split() needs at least 2 branches, not {count}")
        event = self._stream.record()
        branches = [self]
        for _ in range(count - 1):
            stream = self._stream.context.create_stream()
            stream.wait(event)
            branches.append(GraphBuilder._make(stream, "forked", parent=self))
        return tuple(branches)

    @staticmethod
    def join(*graph_builders: GraphBuilder) -> GraphBuilder:
        """Go on in one branch after all of these; the builders that split() made are closed."""
        if len(graph_builders) < 2:
            raise ValueError("join() needs at least 2 builders")
        for builder in graph_builders:
            builder._check_building()
        root = next((b for b in graph_builders if b._kind != "forked"), graph_builders[0])
        for builder in graph_builders:
            if builder is not root:
                root._stream.wait(builder._stream)
                builder._finish_branch()
        return root

    def _finish_branch(self) -> None:
        self._phase = "closed"
        self._held.append(self._stream)  # stays until the capture has ended
        self._stream = None

    def _close_branches(self) -> None:
        """After the capture: what would still be queued on a branch would run at once instead of becoming a node."""
        for branch in list(self._branches):
            branch._phase = "closed"
            branch._stream = None

    # ---- conditions

    def create_condition(self, default_value: int | None = None) -> GraphCondition:
        """Make what a conditional node decides by; it starts every launch at the default, if one is given."""
        self._check_building()
        graph, _ = self._captured()
        value = graph.create_condition(default_value or 0, default_value is not None)
        return GraphCondition._make(value)

    create_conditional_handle = create_condition

    def _conditional(self, condition: Any, kind: int, count: int) -> tuple[GraphBuilder, ...]:
        self._check_building()
        if not isinstance(condition, GraphCondition):
            raise TypeError(f"condition must be a GraphCondition, not {type(condition).__name__}")
        graph, after = self._captured()
        node, bodies = graph.add_conditional(after, condition.handle, kind, count)
        _core.capture_continue_after(self._stream, [node])
        assert self._definition is not None
        parts = [self._definition._inside(node, body, place) for place, body in enumerate(bodies)]
        context = self._stream.context
        return tuple(GraphBuilder._make(context.create_stream(), "body", parent=self, body=part) for part in parts)

    def if_then(self, condition: GraphCondition) -> GraphBuilder:
        """A builder for what runs when the condition is not zero."""
        return self._conditional(condition, _IF, 1)[0]

    if_cond = if_then

    def if_else(self, condition: GraphCondition) -> tuple[GraphBuilder, GraphBuilder]:
        """Builders for what runs when the condition is not zero, and when it is."""
        return self._conditional(condition, _IF, 2)  # type: ignore[return-value]

    def while_loop(self, condition: GraphCondition) -> GraphBuilder:
        """A builder for what runs as long as the condition is not zero."""
        return self._conditional(condition, _WHILE, 1)[0]

    def switch(self, condition: GraphCondition, count: int) -> tuple[GraphBuilder, ...]:
        """Builders for ``count`` branches; the condition's value names the one that runs."""
        return self._conditional(condition, _SWITCH, count)

    # ---- looking and ending

    def debug_dot_print(self, path: str, options: GraphDebugPrintOptions | None = None) -> None:
        """Write the graph in the DOT language."""
        self._built().debug_dot_print(path, options)

    def debug_print(self, path: str | None = None, options: GraphDebugPrintOptions | None = None) -> None:
        """Write the graph in the DOT language to a file, or to standard output; as a picture to a file named ``*.svg``."""
        self._built().debug_print(path, options)

    def _repr_svg_(self) -> str | None:
        return self._built()._repr_svg_() if self._phase == "ended" else None

    def close(self) -> None:
        """End a capture that is still going on and forget the graph. Does nothing the second time."""
        if self._phase == "closed":
            return
        phase, self._phase = self._phase, "closed"
        definition, self._definition = self._definition, None
        if phase == "building" and self._kind != "forked":
            handle = 0
            with contextlib.suppress(CUDAError):  # the capture was broken by a call; it has ended all the same
                handle = _core.capture_end(self._stream)
            if definition is not None and self._kind == "primary":
                definition._def.own(handle)
            self._close_branches()
        self._stream = None
        self._held = []

    def __del__(self) -> None:
        if getattr(self, "_phase", "closed") == "building":
            try:  # noqa: SIM105
                self.close()
            except Exception:  # the context may be lost, the interpreter may end: close() is for those who want to know
                pass

    def __repr__(self) -> str:
        return f"<GraphBuilder {self._phase}>"
