# SPDX-License-Identifier: Apache-2.0
"""Child graphs: what can be embedded, and what raises before the driver is called."""

import pytest
from cuda.core import LaunchConfig, launch
from cuda.core.graph import GraphDefinition

ONE = LaunchConfig(grid=1, block=1)


@pytest.fixture
def counter(device, stream):
    buffer = device.allocate(4, stream=stream)
    buffer.fill(0, stream=stream)
    stream.sync()
    return buffer


def value(buffer, stream):
    return int.from_bytes(buffer.copy_to(bytearray(4), stream=stream), "little")


@pytest.fixture
def child(device, kernel, counter):
    builder = device.create_graph_builder().begin_building()
    launch(builder, ONE, kernel("add_one"), counter, 1)
    return builder.end_building()


def test_child_graph_runs_embedded_and_alone(device, stream, kernel, counter, child):
    outer = device.create_graph_builder().begin_building()
    outer.embed(child)
    launch(outer, ONE, kernel("add_one"), counter, 1)
    outer.embed(child)
    outer.end_building()
    twice = GraphDefinition()
    twice.embed(outer.graph_definition).embed(child)
    twice.instantiate().launch(stream)
    assert value(counter, stream) == 4


def test_empty_child_graph_can_be_embedded(device, stream):
    outer = device.create_graph_builder().begin_building()
    outer.embed(GraphDefinition())
    outer.end_building().complete().launch(stream)
    stream.sync()


def allocates(device):
    builder = device.create_graph_builder().begin_building()
    buffer = device.allocate(64, stream=builder)
    buffer.close(builder)
    return builder.end_building()


def has_a_condition(device):
    definition = GraphDefinition()
    definition.if_then(definition.create_condition(1))
    return definition


@pytest.mark.parametrize(
    ("make", "reason"), [(allocates, "allocates or frees"), (has_a_condition, "conditional nodes")]
)
def test_child_with_uncopyable_nodes_raises_and_the_graph_stays_usable(device, stream, counter, child, make, reason):
    rejected = make(device)
    outer = device.create_graph_builder().begin_building()
    with pytest.raises(ValueError, match=reason):
        outer.embed(rejected)
    with pytest.raises(ValueError, match=reason):
        GraphDefinition().embed(rejected)
    outer.embed(child)
    outer.end_building().complete().launch(stream)
    assert value(counter, stream) == 1


def test_embedding_a_graph_in_itself_raises(device):
    definition = GraphDefinition()
    with pytest.raises(ValueError, match="part of itself"):
        definition.embed(definition)
    outer = device.create_graph_builder().begin_building()
    with pytest.raises(RuntimeError, match="still being built"):
        outer.embed(outer)
    outer.end_building()


def test_embedding_in_an_ended_capture_raises(device, stream, child):
    outer = device.create_graph_builder().begin_building("global")
    with pytest.raises(Exception, match="captur"):
        outer.stream.sync()  # not permitted during a capture, which it invalidates
    with pytest.raises(RuntimeError, match="the capture has ended"):
        outer.embed(child)
    with pytest.raises(RuntimeError, match="the capture has ended"):
        outer.create_condition(1)
    outer.close()


def test_embedding_in_a_branch_of_a_closed_builder_raises(device, child):
    outer = device.create_graph_builder().begin_building()
    _, branch = outer.split(2)
    outer.close()
    with pytest.raises(RuntimeError, match="closed"):
        branch.embed(child)
