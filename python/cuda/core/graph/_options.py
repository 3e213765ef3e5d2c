# SPDX-License-Identifier: Apache-2.0
"""Options of graphs."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass
class GraphCompleteOptions:
    """How a graph is made ready to launch.

    - ``auto_free_on_launch``: memory that a launch left allocated is freed by the next
    - ``upload_stream``: a stream to upload the graph on, so that the first launch is quicker
    - ``device_launch``: kernels can launch it
    - ``use_node_priority``: nodes run with the priorities they were captured with

    >>> graph = GraphDefinition()
    >>> graph.instantiate(GraphCompleteOptions(upload_stream=stream))
    <Graph...>
    """

    auto_free_on_launch: bool = False
    upload_stream: Any = None
    device_launch: bool = False
    use_node_priority: bool = False


@dataclass
class GraphDebugPrintOptions:
    """What a printed graph shows of its nodes.

    - ``verbose``: everything
    - ``runtime_types``: types of the runtime API instead of the driver's
    - ``kernel_node_params``: parameters of kernels
    - ``memcpy_node_params``: parameters of copies
    - ``memset_node_params``: parameters of fills
    - ``host_node_params``: parameters of callbacks
    - ``event_node_params``: events
    - ``ext_semas_signal_node_params``: external semaphores that are signaled
    - ``ext_semas_wait_node_params``: external semaphores that are waited for
    - ``kernel_node_attributes``: attributes of kernels
    - ``handles``: handles of nodes and kernels
    - ``mem_alloc_node_params``: parameters of allocations
    - ``mem_free_node_params``: parameters of frees
    - ``batch_mem_op_node_params``: parameters of memory operations
    - ``extra_topo_info``: more about edges
    - ``conditional_node_params``: conditions

    >>> GraphDebugPrintOptions(verbose=True).verbose
    True
    """

    verbose: bool = False
    runtime_types: bool = False
    kernel_node_params: bool = False
    memcpy_node_params: bool = False
    memset_node_params: bool = False
    host_node_params: bool = False
    event_node_params: bool = False
    ext_semas_signal_node_params: bool = False
    ext_semas_wait_node_params: bool = False
    kernel_node_attributes: bool = False
    handles: bool = False
    mem_alloc_node_params: bool = False
    mem_free_node_params: bool = False
    batch_mem_op_node_params: bool = False
    extra_topo_info: bool = False
    conditional_node_params: bool = False

    def _flags(self) -> int:
        """The driver's flags: one bit per field, in this order."""
        return sum(1 << bit for bit, field in enumerate(fields(self)) if getattr(self, field.name))
