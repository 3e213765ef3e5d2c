"""Graphs inside graphs: what can be embedded, and what is refused before the driver is asked."""

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


def test_a_child_runs_where_it_is_embedded_and_in_itself(device, stream, kernel, counter, child):
    outer = device.create_graph_builder().begin_building()
    outer.embed(child)
    launch(outer, ONE, kernel("add_one"), counter, 1)
    outer.embed(child)
    outer.end_building()
    twice = GraphDefinition()
    twice.embed(outer.graph_definition).embed(child)
    twice.instantiate().launch(stream)
    assert value(counter, stream) == 4


def test_an_empty_child_is_a_node_like_any_other(device, stream):
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
def test_what_no_driver_can_copy_is_refused_and_harms_nothing(device, stream, counter, child, make, reason):
    refused = make(device)
    outer = device.create_graph_builder().begin_building()
    with pytest.raises(ValueError, match=reason):
        outer.embed(refused)
    with pytest.raises(ValueError, match=reason):
        GraphDefinition().embed(refused)
    outer.embed(child)
    outer.end_building().complete().launch(stream)
    assert value(counter, stream) == 1


def test_a_graph_cannot_be_a_part_of_itself(device):
    definition = GraphDefinition()
    with pytest.raises(ValueError, match="part of itself"):
        definition.embed(definition)
    outer = device.create_graph_builder().begin_building()
    with pytest.raises(ValueError, match="part of itself"):
        outer.embed(outer.graph_definition)
    with pytest.raises(RuntimeError, match="still being built"):
        outer.embed(outer)
    outer.end_building()


def test_nothing_is_embedded_in_a_capture_that_is_over(device, stream, child):
    outer = device.create_graph_builder().begin_building("global")
    with pytest.raises(Exception, match="captur"):
        outer.stream.sync()  # not allowed while capturing: it ends the capture
    with pytest.raises(RuntimeError, match="the capture has ended"):
        outer.embed(child)
    with pytest.raises(RuntimeError, match="the capture has ended"):
        outer.create_condition(1)
    outer.close()


def test_nothing_is_embedded_in_a_branch_whose_first_builder_is_closed(device, child):
    outer = device.create_graph_builder().begin_building()
    _, branch = outer.split(2)
    outer.close()
    with pytest.raises(RuntimeError, match="closed"):
        branch.embed(child)
