# SPDX-License-Identifier: Apache-2.0
"""repr() of graph nodes: class, handle, and what the node does."""

from __future__ import annotations

import re

from cuda.core import LaunchConfig, LegacyPinnedMemoryResource
from cuda.core.graph import GraphDefinition

ONE = LaunchConfig(grid=1, block=1)


def facts(node):
    """The facts in a node's text; its class and handle are checked here."""
    match = re.fullmatch(r"<(\w+) handle=(0x[0-9a-f]+)((?: \w+=\S+)*)>", repr(node))
    assert match, repr(node)
    assert match[1] == type(node).__name__ and int(match[2], 16) == int(node.handle)
    return dict(part.split("=", 1) for part in match[3].split())


def test_memory_nodes_show_addresses_sizes_and_values(device, stream):
    graph = GraphDefinition()
    buffer, pinned = device.allocate(64, stream=stream), LegacyPinnedMemoryResource().allocate(64)
    allocated = graph.allocate(128)
    assert facts(allocated) == {"dptr": hex(allocated.dptr), "size": "128"}
    assert facts(allocated.deallocate(allocated.dptr)) == {"dptr": hex(allocated.dptr)}
    assert facts(graph.memset(buffer, 7, 16)) == {"dptr": hex(buffer.handle), "value": "0x7"}
    assert facts(graph.memcpy(buffer, pinned, 32)) == {
        "dst": f"{buffer.handle:#x}(D)",
        "src": f"{pinned.handle:#x}(H)",
        "size": "32",
    }
    stream.sync()


def test_kernel_event_and_callback_nodes_show_what_they_use(device, stream, kernel):
    graph = GraphDefinition()
    buffer, event = device.allocate(4, stream=stream), device.create_event()

    def note():
        pass

    assert facts(graph.launch(ONE, kernel("add_one"), buffer, 1)) == {"kernel": "add_one"}
    assert facts(graph.record(event)) == facts(graph.wait(event)) == {"event": hex(int(event.handle))}
    assert facts(graph.callback(note)) == {"callback": "note"}
    assert facts(graph.join()) == {}
    stream.sync()


def test_nodes_with_graphs_inside_show_the_graph_or_the_condition(device):
    graph = GraphDefinition()
    child = graph.embed(GraphDefinition())
    assert facts(child) == {"child": hex(int(child.child_graph.handle))}
    for make in (graph.if_then, graph.if_else, graph.while_loop, lambda c: graph.switch(c, 2)):
        condition = graph.create_condition(default_value=0)
        assert facts(make(condition)) == {"condition": hex(condition.handle)}


def test_destroyed_node_is_shown_as_destroyed(device, stream):
    graph = GraphDefinition()
    buffer = device.allocate(64, stream=stream)
    node = graph.memset(buffer, 0, 16)
    handle = int(node.handle)
    node.destroy()
    assert repr(node) == f"<MemsetNode handle={handle:#x} destroyed>"
    stream.sync()
