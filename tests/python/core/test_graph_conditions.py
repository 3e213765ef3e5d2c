# SPDX-License-Identifier: Apache-2.0
"""Conditional nodes whose condition a kernel sets."""

import ctypes

import pytest
from cuda.core import CUDAError, Device, LaunchConfig, Program, ProgramOptions, launch
from cuda.core.graph import GraphDefinition

ONE = LaunchConfig(grid=1, block=1)
# Declared here so that no header is needed; NVRTC knows the function.
SOURCE = r"""
typedef unsigned long long Condition;
extern "C" __device__ void cudaGraphSetConditional(Condition handle, unsigned int value);
extern "C" __global__ void set(Condition condition, int value) { cudaGraphSetConditional(condition, value); }
extern "C" __global__ void add(int* cell, int value) { *cell += value; }
extern "C" __global__ void count_to(Condition condition, int* cell, int limit) {
  *cell += 1;
  cudaGraphSetConditional(condition, *cell < limit);
}
"""


@pytest.fixture(scope="module")
def code():
    return Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{Device(0).arch}")).compile("cubin")


@pytest.fixture
def cell(device, stream):
    buffer = device.allocate(4, stream=stream)
    buffer.fill(0, stream=stream)
    return buffer


def read(buffer, stream):
    back = bytearray(4)
    buffer.copy_to(back, stream=stream)
    stream.sync()
    return int.from_bytes(back, "little", signed=True)


def test_while_node_runs_until_the_kernel_clears_the_condition(stream, code, cell):
    builder = stream.create_graph_builder().begin_building()
    again = builder.create_condition(default_value=1)
    body = builder.while_loop(again).begin_building()
    launch(body, ONE, code.get_kernel("count_to"), again, cell, ctypes.c_int(5))
    body.end_building()
    graph = builder.end_building().complete()
    graph.launch(stream)
    assert read(cell, stream) == 5
    graph.launch(stream)  # the default value is restored: one iteration exceeds the limit
    assert read(cell, stream) == 6


@pytest.mark.parametrize("value, expected", [(0, 100), (1, 10), (7, 10)])
def test_if_else_node_runs_the_selected_branch(stream, code, cell, value, expected):
    builder = stream.create_graph_builder().begin_building()
    condition = builder.create_condition()
    launch(builder, ONE, code.get_kernel("set"), condition, ctypes.c_int(value))
    for body, amount in zip(builder.if_else(condition), (10, 100), strict=True):
        body.begin_building()
        launch(body, ONE, code.get_kernel("add"), cell, ctypes.c_int(amount))
        body.end_building()
    builder.end_building().complete().launch(stream)
    assert read(cell, stream) == expected


@pytest.mark.parametrize("value, expected", [(0, 1), (2, 3), (3, 0)])
def test_switch_node_runs_the_branch_of_the_condition_or_none(stream, code, cell, value, expected):
    builder = stream.create_graph_builder().begin_building()
    condition = builder.create_condition()
    launch(builder, ONE, code.get_kernel("set"), condition, ctypes.c_int(value))
    for number, body in enumerate(builder.switch(condition, 3)):
        body.begin_building()
        launch(body, ONE, code.get_kernel("add"), cell, ctypes.c_int(number + 1))
        body.end_building()
    builder.end_building().complete().launch(stream)
    assert read(cell, stream) == expected


def calls_the_host(body, device):
    body.callback(lambda: None).record(device.create_event())


def allocates(body, device):
    body.allocate(64)


def embeds_one_that_calls_the_host(body, device):
    child = GraphDefinition()
    calls_the_host(child, device)
    body.embed(child)


@pytest.mark.parametrize("fill", [calls_the_host, allocates, embeds_one_that_calls_the_host])
def test_body_with_forbidden_nodes_raises_at_instantiation(device, stream, cell, fill):
    definition = GraphDefinition()
    body = definition.if_then(definition.create_condition(1)).then
    fill(body, device)
    reason = "INVALID_VALUE.*the body of a condition holds a node of a kind that is not allowed there"
    with pytest.raises(CUDAError, match=reason):
        definition.instantiate()
    good = GraphDefinition()
    good.if_then(good.create_condition(1)).then.memset(cell, 1, 4)
    good.instantiate().launch(stream)
    assert read(cell, stream) == 0x01010101


def test_unused_condition_raises_at_instantiation():
    definition = GraphDefinition()
    condition = definition.create_condition(1)
    definition.empty()
    with pytest.raises(CUDAError, match="a condition that no conditional node looks at"):
        definition.instantiate()
    definition.if_then(condition)
    definition.instantiate()
