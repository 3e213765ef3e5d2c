# SPDX-License-Identifier: Apache-2.0
"""The class of each type of node. Graphs make nodes, and nodes name their graph: the modules of the nodes add their classes
here, so that the module of graphs does not import them."""

from __future__ import annotations

from typing import Any

from .. import _core

by_type: dict[int, Any] = {}  # by the driver's number of the type
conditionals: dict[tuple[int, bool], Any] = {}  # by the kind of condition, and whether there is an else
unknown: list[Any] = []  # the class for types that have none of their own


def node_class(number: int, facts: Any) -> Any:
    """The class for a node of the driver's type ``number``; a conditional's facts name it."""
    if number == _core.CU_GRAPH_NODE_TYPE_CONDITIONAL and facts:
        return facts[0]
    return by_type.get(number, unknown[0])


def conditional_class(kind: int, count: int) -> Any:
    """The class for a conditional node with ``count`` bodies."""
    return conditionals[kind, kind == _core.CU_GRAPH_COND_TYPE_IF and count == 2]
