# SPDX-License-Identifier: Apache-2.0
"""Options of graphs."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass
class GraphCompleteOptions:
    """Options of the instantiation of a graph.

    - ``auto_free_on_launch``: a launch first frees the memory that the previous launch left allocated
    - ``upload_stream``: the stream on which to upload the graph, which makes the first launch faster
    - ``device_launch``: the graph can be launched from the device
    - ``use_node_priority``: nodes run with their captured priorities instead of the launch stream's

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
    """The properties of nodes that the DOT output contains.

    - ``verbose``: all of them
    - ``runtime_types``: types of the runtime API instead of the driver API
    - ``kernel_node_params``: parameters of kernel nodes
    - ``memcpy_node_params``: parameters of copy nodes
    - ``memset_node_params``: parameters of memset nodes
    - ``host_node_params``: parameters of host callback nodes
    - ``event_node_params``: parameters of event nodes
    - ``ext_semas_signal_node_params``: parameters of external semaphore signal nodes
    - ``ext_semas_wait_node_params``: parameters of external semaphore wait nodes
    - ``kernel_node_attributes``: attributes of kernel nodes
    - ``handles``: handles of nodes and kernels
    - ``mem_alloc_node_params``: parameters of allocation nodes
    - ``mem_free_node_params``: parameters of free nodes
    - ``batch_mem_op_node_params``: parameters of batch memory operation nodes
    - ``extra_topo_info``: additional information about edges
    - ``conditional_node_params``: parameters of conditional nodes

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
        """Returns the driver's flags: one bit per field, in the order of the fields."""
        return sum(1 << bit for bit, field in enumerate(fields(self)) if getattr(self, field.name))
