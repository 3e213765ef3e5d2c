# SPDX-License-Identifier: Apache-2.0
"""CUCORE_CHECK=race between operations of streams: kernels, copies and fills that nothing orders."""

from __future__ import annotations

import pytest
from child import ON_GPU, expect, run

pytestmark = pytest.mark.skipif(ON_GPU, reason="about the CPU device alone")

RACE = {"CUCORE_CHECK": "race"}
# The pair runs `first` in stream `a` and `second` in stream `b`; `between` may order them.
PAIR = """
    a, b = device.create_stream(), device.create_stream()
    error, memory = driver.cuMemAlloc(4096)
    error, other = driver.cuMemAlloc(4096)
    error, host = driver.cuMemAllocHost(4096)
    writer = kernel("st.global.u32 [%rd1], %r2;")
    shifted = kernel("st.global.u32 [%rd1+1024], %r2;")
    reader = kernel("ld.global.u32 %r3, [%rd1]; st.global.u32 [%rd1+2048], %r3;")
    def start(stream, kernel, memory=memory):
        launch(stream, LaunchConfig(grid=1, block=64), kernel, ctypes.c_uint64(int(memory)))
    def number(stream):
        return int(stream.handle)
    try:
        {first}
        {between}
        {second}
        a.sync()
        b.sync()
        print("0")
    except CUDAError as error:
        print(int(error.code), str(error))
"""
WRITE, READ, SHIFTED = "start({}, writer)", "start({}, reader)", "start({}, shifted)"
FILL = "assert driver.cuMemsetD32Async(memory, 7, 64, number({}))[0] == 0"
COPY_IN = "assert driver.cuMemcpyDtoDAsync(memory, other, 256, number({}))[0] == 0"
COPY_OUT = "assert driver.cuMemcpyDtoHAsync(host, memory, 256, number({}))[0] == 0"
EVENT = "event = a.record(); b.wait(event)"


def program(first: str, second: str, between: str = "pass") -> str:
    return PAIR.format(first=first.format("a"), second=second.format("b"), between=between)


PAIRS = {
    "two writes": (WRITE, WRITE.replace("writer", "kernel('st.global.u32 [%rd1], 9;')")),
    "a write and a read": (WRITE, READ),
    "a read and a write": (READ, WRITE),
    "a kernel and a fill": (WRITE, FILL),
    "a fill and a kernel": (FILL, READ),
    "a kernel and a copy to the memory": (READ, COPY_IN),
    "a copy of the memory and a kernel": (COPY_OUT, WRITE),
    "a copy and a fill": (COPY_IN, FILL),
}


@pytest.mark.promise("Check mode finds races between operations of different streams")
@pytest.mark.parametrize("name", PAIRS)
def test_operations_that_nothing_orders_are_reported_with_both_names(name: str) -> None:
    text = expect(program(*PAIRS[name]), "719 ", RACE)
    assert "data race" in text and "nothing orders the two operations" in text, text
    assert text.count(" in stream ") == 2, text


@pytest.mark.promise("Check mode reports nothing for correct kernels")
@pytest.mark.parametrize("order", [EVENT, "a.sync()", "a.record().sync()", "driver.cuCtxSynchronize()"])
@pytest.mark.parametrize(
    "name", ["a write and a read", "a read and a write", "a kernel and a fill", "a fill and a kernel"]
)
def test_ordered_operations_are_not_reported(name: str, order: str) -> None:
    expect(program(*PAIRS[name], between=order), "0\n", RACE)


def test_operations_of_one_stream_and_reads_of_one_memory_are_not_reported() -> None:
    expect(program(WRITE, READ).replace("(b, ", "(a, "), "0\n", RACE)
    load = "start({}, kernel('ld.global.u32 %r3, [%rd1]; setp.eq.u32 %p1, %r3, 77; @!%p1 bra E; st.global.u32 [%rd1+4], 1; E:'))"
    expect(program(load, COPY_OUT, "pass").replace("{}", "a"), "0\n", RACE)
    expect(program(COPY_OUT, COPY_OUT), "0\n", RACE)


def test_operations_on_different_bytes_of_one_allocation_are_not_reported() -> None:
    expect(program(WRITE, SHIFTED), "0\n", RACE)
    fill = "assert driver.cuMemsetD8Async(int(memory) + 256, 7, 64, number({}))[0] == 0"
    expect(program(WRITE, fill), "0\n", RACE)
    expect(program(WRITE, fill.replace("256", "255")), "719 ", RACE)


def test_an_event_orders_only_what_was_recorded() -> None:
    late = "event = a.record(); start(a, writer); b.wait(event)"
    expect(program("pass", READ, late), "719 ", RACE)


def test_the_legacy_default_stream_orders_blocking_streams_only() -> None:
    code = """
        error, memory = driver.cuMemAlloc(4096)
        error, made = driver.cuStreamCreate({flags})
        function = kernel("st.global.u32 [%rd1], %r2;")
        from cuda.core import Stream
        side = Stream.from_handle(int(made))
        try:
            launch(side, LaunchConfig(grid=1, block=64), function, ctypes.c_uint64(int(memory)))
            assert driver.cuMemsetD32Async(memory, 7, 64, 0)[0] == 0
            side.sync()
            driver.cuStreamSynchronize(0)
            print(int(driver.cuStreamSynchronize(0)[0]))
        except CUDAError as error:
            print(int(error.code), str(error))
    """
    expect(code.format(flags=0), "0\n", RACE)
    expect(code.format(flags=1), "719", RACE)


@pytest.mark.parametrize(("edge", "wanted"), [(True, "0"), (False, "719")])
def test_nodes_of_a_graph_are_ordered_by_its_edges(edge: bool, wanted: str) -> None:
    expect(
        f"""
        error, memory = driver.cuMemAlloc(4096)
        error, context = driver.cuCtxGetCurrent()
        error, graph = driver.cuGraphCreate(0)
        nodes = []
        for value in (1, 2):
            params = driver.CUDA_MEMSET_NODE_PARAMS()
            params.dst, params.pitch, params.value = memory, 0, value
            params.elementSize, params.width, params.height = 4, 64, 1
            before = nodes[-1:] if {edge} else []
            error, node = driver.cuGraphAddMemsetNode(graph, before, len(before), params, context)
            assert error == 0, error
            nodes.append(node)
        error, executable = driver.cuGraphInstantiate(graph, 0)
        assert driver.cuGraphLaunch(executable, int(stream.handle))[0] == 0
        print(int(driver.cuStreamSynchronize(int(stream.handle))[0]))
        """,
        wanted,
        RACE,
    )


def test_a_race_is_printed_and_the_program_continues_with_continue() -> None:
    done = run(program(WRITE, FILL), {"CUCORE_CHECK": "race,continue"})
    assert done.stdout == "0\n", done.stdout + done.stderr
    assert "cucore: check: fill of 256 bytes in stream" in done.stderr and "kernel k in stream" in done.stderr


def test_races_between_operations_are_suppressed_by_name() -> None:
    expect(program(WRITE, FILL), "0\n", RACE | {"CUCORE_CHECK_SUPPRESS": "race:fill*"})
