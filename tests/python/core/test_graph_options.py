# SPDX-License-Identifier: Apache-2.0
"""Options for completing and printing graphs."""

from __future__ import annotations

import dataclasses
import os

import numpy as np
import pytest
from cuda.bindings import driver
from cuda.core import GraphMemoryResource, LaunchConfig, LegacyPinnedMemoryResource, launch
from cuda.core.graph import GraphCompleteOptions, GraphDebugPrintOptions, GraphDefinition

ONE = LaunchConfig(grid=1, block=1)


def flags_of(graph):
    code, flags = driver.cuGraphExecGetFlags(graph.handle)
    assert code == 0
    return int(flags)


# Flags of an executable graph that an H200's driver accepts but does not return.
UNTOLD = {8} if os.environ.get("CUCORE_DEVICE") == "gpu" else set()


@pytest.mark.parametrize(("field", "bit"), [("auto_free_on_launch", 1), ("device_launch", 4), ("use_node_priority", 8)])
def test_each_complete_option_sets_its_driver_flag(device, stream, kernel, field, bit):
    definition = GraphDefinition()
    buffer = device.allocate(4, stream=stream)
    buffer.fill(0, stream=stream)
    definition.launch(ONE, kernel("add_one"), buffer, 1)
    assert flags_of(definition.instantiate()) & bit == 0
    graph = definition.instantiate(GraphCompleteOptions(**{field: True}))
    if bit not in UNTOLD:
        assert flags_of(graph) & bit == bit
    if field == "device_launch":
        graph.upload(stream)
    graph.launch(stream)
    stream.sync()


def test_complete_options_accept_a_class_a_dict_or_none(stream):
    definition = GraphDefinition()
    definition.empty()
    for options in (None, GraphCompleteOptions(), {"auto_free_on_launch": True}):
        definition.instantiate(options).launch(stream)
    with pytest.raises(TypeError):
        definition.instantiate({"colour": 1})
    with pytest.raises(TypeError, match="GraphCompleteOptions"):
        definition.instantiate(3)


def test_graph_is_uploaded_on_the_given_stream(device, stream, kernel):
    buffer = device.allocate(4, stream=stream)
    buffer.fill(0, stream=stream)
    definition = GraphDefinition()
    definition.launch(ONE, kernel("add_one"), buffer, 1)
    graph = definition.instantiate(GraphCompleteOptions(upload_stream=stream))
    graph.launch(stream)
    back = np.zeros(1, np.int32)
    buffer.copy_to(back, stream=stream)
    stream.sync()
    assert back[0] == 1


def test_captured_graph_accepts_complete_options(device, stream, kernel):
    builder = stream.create_graph_builder().begin_building()
    launch(builder, ONE, kernel("nothing"))
    graph = builder.end_building().complete(GraphCompleteOptions(use_node_priority=True))
    assert flags_of(graph) & 8 or 8 in UNTOLD
    graph.launch(stream)
    stream.sync()


def test_unfreed_graph_memory_is_counted_and_freed_on_the_next_launch(device, stream):
    attributes = GraphMemoryResource(device).attributes
    before = attributes.used_mem_current
    definition = GraphDefinition()
    node = definition.allocate(1 << 20)
    node.memset(node.dptr, 1, 16)
    graph = definition.instantiate(GraphCompleteOptions(auto_free_on_launch=True))
    graph.launch(stream)
    stream.sync()
    once = attributes.used_mem_current  # a GPU counts multiples of its allocation granularity
    assert once >= before + (1 << 20)
    assert attributes.used_mem_high >= attributes.used_mem_current
    assert attributes.reserved_mem_current >= 1 << 20 and attributes.reserved_mem_high >= 1 << 20
    with pytest.raises(AttributeError, match="zero"):
        attributes.used_mem_high = 5
    attributes.used_mem_high = 0
    graph.launch(stream)  # frees the memory of the previous launch
    stream.sync()
    assert attributes.used_mem_current <= once
    (code,) = driver.cuMemFreeAsync(node.dptr, stream.handle)
    assert code == 0
    stream.sync()
    graph.close()
    GraphMemoryResource(device).trim()


def test_each_debug_print_option_sets_its_driver_flag():
    names = [field.name for field in dataclasses.fields(GraphDebugPrintOptions)]
    wanted = {
        "VERBOSE": "verbose", "RUNTIME_TYPES": "runtime_types", "KERNEL_NODE_PARAMS": "kernel_node_params",
        "MEMCPY_NODE_PARAMS": "memcpy_node_params", "MEMSET_NODE_PARAMS": "memset_node_params",
        "HOST_NODE_PARAMS": "host_node_params", "EVENT_NODE_PARAMS": "event_node_params",
        "EXT_SEMAS_SIGNAL_NODE_PARAMS": "ext_semas_signal_node_params",
        "EXT_SEMAS_WAIT_NODE_PARAMS": "ext_semas_wait_node_params", "KERNEL_NODE_ATTRIBUTES": "kernel_node_attributes",
        "HANDLES": "handles", "MEM_ALLOC_NODE_PARAMS": "mem_alloc_node_params", "MEM_FREE_NODE_PARAMS": "mem_free_node_params",
        "BATCH_MEM_OP_NODE_PARAMS": "batch_mem_op_node_params", "EXTRA_TOPO_INFO": "extra_topo_info",
        "CONDITIONAL_NODE_PARAMS": "conditional_node_params",
    }  # fmt: skip
    assert sorted(wanted.values()) == sorted(names)
    for flag, name in wanted.items():
        bit = int(driver.CUgraphDebugDot_flags[f"CU_GRAPH_DEBUG_DOT_FLAGS_{flag}"])
        assert GraphDebugPrintOptions(**{name: True})._flags() == bit, name


def test_dot_output_follows_the_debug_print_options(tmp_path, device, stream, kernel, capsys):
    buffer, pinned = device.allocate(64, stream=stream), LegacyPinnedMemoryResource().allocate(64)
    definition = GraphDefinition()
    definition.memset(buffer, 7, 64).launch(ONE, kernel("add_one"), buffer, 1).memcpy(pinned, buffer, 64)
    definition.debug_print()
    plain = capsys.readouterr().out
    definition.debug_print(options=GraphDebugPrintOptions(verbose=True))
    verbose = capsys.readouterr().out
    assert plain.startswith("digraph") and verbose.startswith("digraph") and len(verbose) > len(plain)
    definition.debug_print(tmp_path / "graph.dot", {"handles": True})
    assert (tmp_path / "graph.dot").read_text().startswith("digraph")
    with pytest.raises(TypeError):
        definition.debug_print(options={"colour": True})
