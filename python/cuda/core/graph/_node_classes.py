# SPDX-License-Identifier: Apache-2.0
"""The Python class of each node type. The modules of the nodes register their classes here, which avoids a circular
import with the module of graphs."""

from __future__ import annotations

from typing import Any

from .. import _core

by_type: dict[int, Any] = {}  # keyed by CUgraphNodeType
conditionals: dict[tuple[int, bool], Any] = {}  # keyed by (CUgraphConditionalNodeType, has an else body)
unknown: list[Any] = []  # the class of all other types


def node_class(number: int, facts: Any) -> Any:
    """Returns the class of a node of the driver's type ``number``. A conditional node's facts contain its class."""
    if number == _core.CU_GRAPH_NODE_TYPE_CONDITIONAL and facts:
        return facts[0]
    return by_type.get(number, unknown[0])


def conditional_class(kind: int, count: int) -> Any:
    """Returns the class of a conditional node with ``count`` bodies."""
    return conditionals[kind, kind == _core.CU_GRAPH_COND_TYPE_IF and count == 2]
