# SPDX-License-Identifier: Apache-2.0
"""CUCORE_CHECK=race between operations of streams: kernels, copies and fills that nothing orders."""

from __future__ import annotations

import pytest
from child import ON_GPU, expect, run

pytestmark = pytest.mark.skipif(ON_GPU, reason="about the CPU device alone")

RACE = {"CUCORE_CHECK": "race"}
WIDTHS = ["", "1"]  # vector code, and the scalar path
# Runs `first` in stream `a` and `second` in stream `b`; `between` may order them.
RUN = """
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
""" + RUN
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
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAIRS)
def test_operations_that_nothing_orders_are_reported_with_both_names(name: str, width: str) -> None:
    text = expect(program(*PAIRS[name]), "719 ", RACE | {"CUCORE_CPU_W": width})
    assert "data race" in text and "nothing orders the two operations" in text, text
    assert text.count(" in stream ") == 2, text


@pytest.mark.promise("Check mode reports nothing for correct kernels")
@pytest.mark.parametrize("order", [EVENT, "a.sync()", "a.record().sync()", "driver.cuCtxSynchronize()"])
@pytest.mark.parametrize(
    "name", ["a write and a read", "a read and a write", "a kernel and a fill", "a fill and a kernel"]
)
def test_ordered_operations_are_not_reported(name: str, order: str) -> None:
    expect(program(*PAIRS[name], between=order), "0\n", RACE)


@pytest.mark.promise("Check mode reports nothing for correct kernels")
@pytest.mark.parametrize("name", ["a write and a read", "a read and a write", "a fill and a kernel"])
def test_ordered_operations_on_the_scalar_path_are_not_reported(name: str) -> None:
    expect(program(*PAIRS[name], between=EVENT), "0\n", RACE | {"CUCORE_CPU_W": "1"})


# The name keeps the kernel: its library would wait for it.
WAITER = (
    "start({}, waiter := kernel('L: ld.volatile.global.u32 %r3, [%rd0]; setp.eq.u32 %p1, %r3, 0; @%p1 bra L;"
    " ld.global.u32 %r4, [%rd1+1024]; st.global.u32 [%rd1+2048], %r4;'))"
)
CLEAR = "driver.cuMemsetD32(memory, 0, 1024)"


@pytest.mark.parametrize(
    "signal",
    [
        "assert driver.cuMemsetD32Async(int(memory) + 1024, 1, 64, number({})) and driver.cuMemsetD32Async(memory, 1, 1, number({}))",
        "start({}, signal := kernel('st.global.u32 [%rd1+1024], 1; membar.gl; bar.sync 0; st.volatile.global.u32 [%rd0], 1;'))",
    ],
    ids=["fills", "a kernel"],
)
def test_a_kernel_that_waits_for_another_stream_ends_and_is_not_reported(signal: str) -> None:
    """What it has waited for orders the two operations, and race checks must not block the other one."""
    code = program(WAITER, signal.replace("{}", "b")).replace("    try:", f"    {CLEAR}\n    try:")
    expect(code, "0\n", RACE)


ARRAY = """
    a, b = device.create_stream(), device.create_stream()
    layout = driver.CUDA_ARRAY3D_DESCRIPTOR()
    layout.Width, layout.Height, layout.NumChannels = 64, 4, 1
    layout.Format, layout.Flags = driver.CUarray_format.CU_AD_FORMAT_UNSIGNED_INT32, 2
    error, array = driver.cuArray3DCreate(layout)
    error, host = driver.cuMemAllocHost(1024)
    resource = driver.CUDA_RESOURCE_DESC()
    resource.resType = driver.CUresourcetype.CU_RESOURCE_TYPE_ARRAY
    resource.res.array.hArray = array
    error, surface = driver.cuSurfObjectCreate(resource)
    assert error == 0
    writer = kernel("mov.u32 %r3, 1; shl.b32 %r4, %r2, 2; sust.b.2d.b32.trap [%rd0, {{%r4, %r3}}], %r2;")
    def copy(stream, row):
        box = driver.CUDA_MEMCPY2D()
        box.srcMemoryType, box.srcHost, box.srcPitch = driver.CUmemorytype.CU_MEMORYTYPE_HOST, int(host), 256
        box.dstMemoryType, box.dstArray, box.dstY = driver.CUmemorytype.CU_MEMORYTYPE_ARRAY, array, row
        box.WidthInBytes, box.Height = 256, 1
        assert driver.cuMemcpy2DAsync(box, int(stream.handle))[0] == 0
    def store(stream):
        launch(stream, LaunchConfig(grid=1, block=64), writer, ctypes.c_uint64(int(surface)))
""" + RUN


@pytest.mark.promise("Check mode finds races between operations of different streams")
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        ("copy(a, 1)", "copy(b, 1)", "719"),
        ("copy(a, 1)", "copy(b, 2)", "0"),
        ("store(a)", "copy(b, 1)", "719"),
        ("copy(a, 1)", "store(b)", "719"),
        ("copy(a, 2)", "store(b)", "0"),
    ],
)
def test_copies_and_surfaces_of_one_array_race_unless_they_are_ordered(
    first: str, second: str, wanted: str, width: str
) -> None:
    environment = {"CUCORE_CHECK": "memory,race", "CUCORE_CPU_W": width}
    expect(ARRAY.format(first=first, between="pass", second=second), wanted, environment)
    expect(ARRAY.format(first=first, between=EVENT, second=second), "0\n", environment)


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


@pytest.mark.parametrize("child", [False, True], ids=["graph", "child graph"])
@pytest.mark.parametrize(("edge", "wanted"), [(True, "0"), (False, "719")])
def test_nodes_of_a_graph_are_ordered_by_its_edges(edge: bool, wanted: str, child: bool) -> None:
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
        if {child}:  # beside another branch
            inner, (error, graph) = graph, driver.cuGraphCreate(0)
            assert driver.cuGraphAddChildGraphNode(graph, [], 0, inner)[0] == 0
            params.dst = int(memory) + 1024
            assert driver.cuGraphAddMemsetNode(graph, [], 0, params, context)[0] == 0
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


def test_memory_of_a_pool_that_another_stream_gets_is_not_a_race() -> None:
    """The free may be known to be complete without an order that race checks see."""
    code = """
        import time
        a, b = device.create_stream(), device.create_stream()
        writers = kernel("st.global.u32 [%rd1], %r2;"), kernel("st.global.u32 [%rd1], 99;")  # different values
        for stream, writer in zip((a, b), writers):
            memory = device.allocate(4096, stream=stream)
            launch(stream, LaunchConfig(grid=1, block=64), writer, memory)
            memory.close(stream)
            time.sleep(0.2)
        a.sync(), b.sync()
        print("0")
    """
    expect(code, "0\n", RACE)


def test_iterations_of_a_loop_in_a_graph_are_ordered() -> None:
    """The body has branches; both write what the first node of the next iteration reads."""
    code = r"""
        from cuda.core import Program, ProgramOptions
        from cuda.core.graph import GraphBuilder
        source = \"""
        extern "C" __device__ void cudaGraphSetConditional(unsigned long long handle, unsigned int value);
        extern "C" __global__ void add(int* cell) { *cell += 1; }
        extern "C" __global__ void test(unsigned long long condition, int* cells) {
          cudaGraphSetConditional(condition, cells[0] + cells[1] < 6);
        }\"""
        code = Program(source, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin")
        cells = device.allocate(8, stream=stream)
        cells.fill(0, stream=stream)
        one = LaunchConfig(grid=1, block=1)
        builder = stream.create_graph_builder().begin_building()
        again = builder.create_condition(default_value=1)
        body = builder.while_loop(again).begin_building()
        launch(body, one, code.get_kernel("test"), again, cells)
        left, right = body.split(2)
        launch(left, one, code.get_kernel("add"), cells)
        launch(right, one, code.get_kernel("add"), ctypes.c_uint64(int(cells.handle) + 4))
        GraphBuilder.join(left, right).end_building()
        builder.end_building().complete().launch(stream)
        try:
            stream.sync()
            print("0")
        except CUDAError as error:
            print(int(error.code), str(error))
    """.replace("\\", "")
    expect(code, "0\n", RACE)
