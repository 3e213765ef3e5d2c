# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs: work that is defined once and launched repeatedly.

A graph is captured with a ``GraphBuilder`` (``stream.create_graph_builder()``), or built node by node with a
``GraphDefinition``.
"""

from .._core import Graph
from ._builder import GraphBuilder
from ._conditionals import ConditionalNode, IfElseNode, IfNode, SwitchNode, WhileNode
from ._definition import GraphCondition, GraphDefinition, _definition_of  # noqa: F401
from ._executable import (
    ExecutableChildGraphNode,
    ExecutableEventRecordNode,
    ExecutableEventWaitNode,
    ExecutableGraphNode,
    ExecutableHostCallbackNode,
    ExecutableKernelNode,
    ExecutableMemcpyNode,
    ExecutableMemsetNode,
    _executable_node,  # noqa: F401
)
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
from ._options import GraphCompleteOptions, GraphDebugPrintOptions

__all__ = [
    "AllocNode",
    "ChildGraphNode",
    "ConditionalNode",
    "EmptyNode",
    "EventRecordNode",
    "EventWaitNode",
    "ExecutableChildGraphNode",
    "ExecutableEventRecordNode",
    "ExecutableEventWaitNode",
    "ExecutableGraphNode",
    "ExecutableHostCallbackNode",
    "ExecutableKernelNode",
    "ExecutableMemcpyNode",
    "ExecutableMemsetNode",
    "FreeNode",
    "Graph",
    "GraphBuilder",
    "GraphCompleteOptions",
    "GraphCondition",
    "GraphDebugPrintOptions",
    "GraphDefinition",
    "GraphNode",
    "HostCallbackNode",
    "IfElseNode",
    "IfNode",
    "KernelNode",
    "MemcpyNode",
    "MemsetNode",
    "SwitchNode",
    "WhileNode",
]

for _name in __all__:
    globals()[_name].__module__ = __name__  # the public module, not the one that defines the class
del _name
