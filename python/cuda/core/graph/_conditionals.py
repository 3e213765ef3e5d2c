# SPDX-License-Identifier: Apache-2.0
"""Conditional nodes: if, if-else, while and switch."""

from __future__ import annotations

from typing import Any

from .. import _core
from ..typing import GraphConditionalType
from . import _node_classes
from ._definition import GraphCondition, GraphDefinition
from ._nodes import GraphNode


class ConditionalNode(GraphNode):
    """Runs one of its body graphs, or none, or one repeatedly, depending on the value of its condition.

    >>> graph = GraphDefinition()
    >>> condition = graph.create_condition(default_value=1)
    >>> graph.if_then(condition).condition == condition
    True
    """

    __slots__ = ()
    _type: GraphConditionalType | None = None

    @property
    def condition(self) -> GraphCondition | None:
        """The condition; None if the node is part of a copied graph."""
        facts = self._read()
        return facts[1] if facts else None

    @property
    def cond_type(self) -> GraphConditionalType | None:
        """The type of the conditional node."""
        return self._type

    @property
    def branches(self) -> tuple[GraphDefinition, ...]:
        """The body graphs, to which nodes can be added. They are not valid after destroy()."""
        facts = self._read()
        return facts[2] if facts else ()

    def _ask(self, handle: int) -> Any:
        return self._facts()

    def _text(self) -> str:
        return f" condition={int(self.condition):#x}" if self.condition else ""


class IfNode(ConditionalNode):
    """Runs ``then`` if the condition is nonzero.

    >>> graph = GraphDefinition()
    >>> condition = graph.create_condition(default_value=1)
    >>> node = graph.if_then(condition)
    >>> inside = node.then.memset(buffer, 1, 16)
    """

    __slots__ = ()
    _type = GraphConditionalType.IF

    @property
    def then(self) -> GraphDefinition:
        """The body graph."""
        return self.branches[0]


class IfElseNode(ConditionalNode):
    """Runs ``then`` if the condition is nonzero, otherwise ``else_``.

    >>> graph = GraphDefinition()
    >>> condition = graph.create_condition(default_value=1)
    >>> node = graph.if_else(condition)
    >>> inside = node.then.memset(buffer, 1, 16), node.else_.memset(buffer, 2, 16)
    """

    __slots__ = ()
    _type = GraphConditionalType.IF

    @property
    def then(self) -> GraphDefinition:
        """The body graph that runs if the condition is nonzero."""
        return self.branches[0]

    @property
    def else_(self) -> GraphDefinition:
        """The body graph that runs if the condition is zero."""
        return self.branches[1]


class WhileNode(ConditionalNode):
    """Runs ``body`` repeatedly while the condition is nonzero.

    >>> graph = GraphDefinition()
    >>> condition = graph.create_condition(default_value=1)
    >>> node = graph.while_loop(condition)
    >>> inside = node.body.memset(buffer, 1, 16)
    """

    __slots__ = ()
    _type = GraphConditionalType.WHILE

    @property
    def body(self) -> GraphDefinition:
        """The body graph."""
        return self.branches[0]


class SwitchNode(ConditionalNode):
    """Runs the branch whose index is the value of the condition; none if there is no such branch.

    >>> graph = GraphDefinition()
    >>> condition = graph.create_condition(default_value=1)
    >>> len(graph.switch(condition, 3).branches)
    3
    """

    __slots__ = ()
    _type = GraphConditionalType.SWITCH


_node_classes.by_type[_core.CU_GRAPH_NODE_TYPE_CONDITIONAL] = ConditionalNode
_node_classes.conditionals |= {
    (_core.CU_GRAPH_COND_TYPE_IF, False): IfNode,
    (_core.CU_GRAPH_COND_TYPE_IF, True): IfElseNode,
    (_core.CU_GRAPH_COND_TYPE_WHILE, False): WhileNode,
    (_core.CU_GRAPH_COND_TYPE_SWITCH, False): SwitchNode,
}
