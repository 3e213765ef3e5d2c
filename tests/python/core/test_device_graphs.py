# SPDX-License-Identifier: Apache-2.0
"""Device graph launch: tail launch, fire and forget, repeated launches."""

from __future__ import annotations

import ctypes
import os

import pytest
from cuda.core import Device, LaunchConfig, Linker, LinkerOptions, ObjectCode, Program, ProgramOptions
from cuda.core.graph import GraphCompleteOptions, GraphDefinition
from cuda.pathfinder import StaticLibNotFoundError, find_static_lib

ONE = LaunchConfig(grid=1, block=1)
TAIL, FIRE_AND_FORGET = (
    0x0100000000000000,
    0x0200000000000000,
)  # cudaStreamGraphTailLaunch, cudaStreamGraphFireAndForget
SOURCE = r"""
extern "C" __global__ void again(int* cell, int limit) {
  if (++cell[0] < limit) cell[1] |= cudaGraphLaunch(cudaGetCurrentGraphExec(), cudaStreamGraphTailLaunch);
}
extern "C" __global__ void start(cudaGraphExec_t exec, cudaStream_t how, int* answer) { *answer = cudaGraphLaunch(exec, how); }
extern "C" __global__ void twice(int* cell) { cell[0] = 2 * cell[0]; }
"""


@pytest.fixture(scope="module")
def code():
    """On a GPU cudaGraphLaunch is in the device runtime library; the CPU device provides it with or without that library."""
    arch = f"sm_{Device(0).arch}"
    pieces = [Program(SOURCE, "c++", ProgramOptions(arch=arch, relocatable_device_code=True)).compile("cubin")]
    try:
        pieces.append(ObjectCode.from_library(find_static_lib("cudadevrt")))
    except StaticLibNotFoundError:
        if os.environ.get("CUCORE_DEVICE") == "gpu":
            pytest.skip("no device runtime library")
    return Linker(*pieces, options=LinkerOptions(arch=arch)).link("cubin")


@pytest.fixture
def cells(device, stream):
    buffer = device.allocate(16, stream=stream)
    buffer.fill(0, stream=stream)
    return buffer


def read(buffer, stream):
    back = (ctypes.c_int * 4)()
    buffer.copy_to(back, stream=stream)
    stream.sync()
    return list(back)


def ready(stream, *nodes, device_launch=True):
    definition = GraphDefinition()
    node = definition
    for kernel, *arguments in nodes:
        node = node.launch(ONE, kernel, *arguments)
    graph = definition.instantiate(GraphCompleteOptions(device_launch=device_launch))
    graph.upload(stream)
    return graph


def test_graph_tail_launches_itself(device, stream, code, cells):
    graph = ready(stream, (code.get_kernel("again"), cells, ctypes.c_int(10)))
    graph.launch(stream)
    assert read(cells, stream)[:2] == [10, 0]


@pytest.mark.parametrize("how", [TAIL, FIRE_AND_FORGET], ids=["tail", "fire_and_forget"])
def test_kernel_launches_another_graph(device, stream, code, cells, how):
    answer = device.allocate(16, stream=stream)
    answer.fill(255, stream=stream)
    other = ready(stream, (code.get_kernel("again"), cells, ctypes.c_int(1)), (code.get_kernel("twice"), cells))
    exec_ = ctypes.c_uint64(int(other.handle))
    host = ready(stream, (code.get_kernel("start"), exec_, ctypes.c_uint64(how), answer), device_launch=False)
    for _ in range(3):
        cells.fill(0, stream=stream)
        host.launch(stream)  # the stream continues when both have ended
        assert read(cells, stream)[:2] == [2, 0]
        assert read(answer, stream)[0] == 0


def test_launch_of_a_graph_without_device_launch_returns_an_error(device, stream, code, cells):
    answer = device.allocate(16, stream=stream)
    answer.fill(0, stream=stream)
    plain = ready(stream, (code.get_kernel("twice"), cells), device_launch=False)
    ready(stream, (code.get_kernel("twice"), cells))  # there are others
    exec_ = ctypes.c_uint64(int(plain.handle))
    host = ready(stream, (code.get_kernel("start"), exec_, ctypes.c_uint64(TAIL), answer), device_launch=False)
    if os.environ.get("CUCORE_DEVICE") == "gpu":
        pytest.skip("undefined there")
    host.launch(stream)
    assert read(answer, stream)[0] == 1
