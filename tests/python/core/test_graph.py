# SPDX-License-Identifier: Apache-2.0
"""Graphs: capture, definitions, nodes, updates, lifetimes."""

import ctypes
import re
import shutil
import subprocess
from xml.etree import ElementTree

import pytest
from cuda.core import CUDAError, LaunchConfig, Program, launch
from cuda.core.graph import (
    AllocNode,
    EmptyNode,
    Graph,
    GraphBuilder,
    GraphCompleteOptions,
    GraphDebugPrintOptions,
    GraphDefinition,
    KernelNode,
    MemcpyNode,
    MemsetNode,
)

ONE = LaunchConfig(grid=1, block=1)


@pytest.fixture
def cell(device, stream):
    """A device int, initially zero, and a function that reads it."""
    buffer = device.allocate(4, stream=stream)
    buffer.fill(0, stream=stream)
    stream.sync()
    return buffer


def read(buffer, stream):
    back = bytearray(4)
    buffer.copy_to(back, stream=stream)
    return int.from_bytes(back, "little", signed=True)


def test_captured_launches_run_at_each_launch(stream, kernel, cell):
    builder = stream.create_graph_builder()
    assert builder.begin_building() is builder and builder.is_building
    for _ in range(3):
        launch(builder, ONE, kernel("add_one"), cell, 1)
    graph = builder.end_building().complete()
    assert isinstance(graph, Graph) and not builder.is_building
    assert read(cell, stream) == 0
    graph.upload(stream)
    for _ in range(5):
        graph.launch(stream)
    assert read(cell, stream) == 15
    graph.close()
    graph.close()
    assert graph.is_closed
    with pytest.raises(RuntimeError, match="closed"):
        graph.launch(stream)
    builder.close()


def test_builder_method_in_the_wrong_state_raises(stream):
    with pytest.raises(RuntimeError):
        GraphBuilder()
    builder = stream.create_graph_builder()
    with pytest.raises(RuntimeError, match="begin_building"):
        builder.end_building()
    with pytest.raises(RuntimeError, match="begin_building"):
        builder.complete()
    with pytest.raises(ValueError, match="mode"):
        builder.begin_building(mode="sideways")
    builder.begin_building()
    with pytest.raises(RuntimeError, match="already"):
        builder.begin_building()
    with pytest.raises(RuntimeError, match="end_building"):
        builder.complete()
    builder.close()
    assert builder.is_closed
    stream.sync()  # the capture has ended: the stream is usable again


def test_memory_operations_are_captured_and_repeated(device, stream, kernel):
    builder = device.create_graph_builder().begin_building()
    buffer = device.allocate(4, stream=builder)
    buffer.fill(0, stream=builder)
    launch(builder, ONE, kernel("add_one"), buffer, 1)
    graph = builder.end_building().complete()
    for _ in range(10):  # auto_free_on_launch frees memory that the graph leaves allocated
        graph.launch(stream)
    stream.sync()
    assert read(buffer, stream) == 1
    buffer.close(stream)
    stream.sync()


def test_joined_branches_run(device, stream, kernel, cell):
    other = device.allocate(4, stream=stream)
    other.fill(0, stream=stream)
    stream.sync()
    builder = device.create_graph_builder().begin_building()
    left, right = builder.split(2)
    assert left is builder and right.is_join_required
    launch(left, ONE, kernel("add_one"), cell, 1)
    launch(right, ONE, kernel("add_one"), other, 1)
    joined = GraphBuilder.join(left, right)
    launch(joined, ONE, kernel("add_one"), cell, 1)
    graph = joined.end_building().complete()
    graph.launch(stream)
    assert read(cell, stream) == 2 and read(other, stream) == 1


def test_branches_that_wait_for_each_other_both_run(device, stream, kernel):
    buffer = device.allocate(16, stream=stream)
    builder = stream.create_graph_builder().begin_building()
    buffer.fill(0, stream=builder)
    left, right = builder.split(2)
    for mine, branch in enumerate((left, right)):
        launch(branch, ONE, kernel("meet"), buffer, int(buffer.handle) + 8, mine)
    graph = GraphBuilder.join(left, right).end_building().complete()
    for _ in range(3):
        graph.launch(stream)
        back = bytearray(16)
        buffer.copy_to(back, stream=stream)
        assert memoryview(back).cast("i").tolist() == [1, 1, 1, 1]


def test_callbacks_run_in_order_and_their_errors_are_reported(stream, kernel, cell, monkeypatch):
    seen = []
    reported = []
    monkeypatch.setattr("sys.unraisablehook", lambda args: reported.append(args.exc_type))
    builder = stream.create_graph_builder().begin_building()
    builder.callback(lambda: seen.append("first"))
    launch(builder, ONE, kernel("add_one"), cell, 1)
    builder.callback(lambda: seen.append("second"))
    builder.callback(lambda: 1 / 0)
    graph = builder.end_building().complete()
    graph.launch(stream)
    graph.launch(stream)
    stream.sync()
    assert seen == ["first", "second"] * 2
    assert reported == [ZeroDivisionError] * 2
    with pytest.raises(TypeError):
        stream.create_graph_builder().begin_building().callback(3)


def test_explicit_nodes_run_in_order(device, stream, kernel, cell):
    definition = GraphDefinition()
    other = device.allocate(4, stream=stream)
    fill = definition.memset(cell, b"\5\0\0\0", 1)
    add = fill.launch(ONE, kernel("add_one"), cell, 1)
    copy = add.memcpy(other, cell, 4)
    done = definition.join(copy)
    assert [type(n) for n in (fill, add, copy, done)] == [MemsetNode, KernelNode, MemcpyNode, EmptyNode]
    assert definition.nodes() == {fill, add, copy, done}
    assert definition.edges() == {(fill, add), (add, copy), (copy, done)}
    assert add.pred == {fill} and add.succ == {copy} and len(done.succ) == 0
    assert add.grid == (1, 1, 1) and add.kernel == kernel("add_one") and add.config == ONE
    assert (fill.element_size, fill.width, fill.value, fill.dptr) == (4, 1, 5, cell.handle)
    assert (copy.dst, copy.src, copy.size) == (other.handle, cell.handle, 4)
    graph = definition.instantiate()
    graph.launch(stream)
    assert read(other, stream) == 6


def test_edges_are_added_and_removed(stream):
    definition = GraphDefinition()
    a, b, c = definition.empty(), definition.empty(), definition.empty()
    a.succ.add(b)
    c.pred = {a, b}
    assert definition.edges() == {(a, b), (a, c), (b, c)}
    c.pred.discard(a)
    assert definition.edges() == {(a, b), (b, c)}
    b.destroy()
    b.destroy()
    assert not b.is_valid and definition.nodes() == {a, c} and definition.edges() == set()
    with pytest.raises(CUDAError, match="destroyed"):
        b.join()


def test_alloc_and_free_nodes_use_graph_memory(device, stream, kernel):
    definition = GraphDefinition()
    alloc = definition.allocate(64)
    assert isinstance(alloc, AllocNode) and alloc.bytesize == 64 and alloc.dptr and alloc.device_id == 0
    fill = alloc.memset(alloc.dptr, 0, 64)
    add = fill.launch(ONE, kernel("add_one"), alloc.dptr, 1)
    free = add.deallocate(alloc.dptr)
    assert free.dptr == alloc.dptr
    graph = definition.instantiate()
    graph.launch(stream)
    graph.launch(stream)
    stream.sync()


def test_updated_nodes_and_graphs_run_with_new_parameters(stream, kernel, cell):
    definition = GraphDefinition()
    node = definition.launch(ONE, kernel("add_one"), cell, 1)
    graph = definition.instantiate()
    graph.launch(stream)
    assert read(cell, stream) == 1
    view = graph[node]
    assert view.is_enabled
    view.disable()
    graph.launch(stream)
    assert read(cell, stream) == 1
    view.enable()
    view.update(config=ONE, kernel=kernel("add_one"), args=(cell, 0))  # n = 0: the kernel does nothing
    graph.launch(stream)
    assert read(cell, stream) == 1
    node.update(args=(cell, 1))
    graph.update(definition)
    graph.launch(stream)
    assert read(cell, stream) == 2


def test_incompatible_graph_update_raises_an_error_that_explains_why(stream, kernel, cell):
    one, two = GraphDefinition(), GraphDefinition()
    one.launch(ONE, kernel("add_one"), cell, 1)
    two.launch(ONE, kernel("add_one"), cell, 1).launch(ONE, kernel("add_one"), cell, 1)
    graph = one.instantiate()
    with pytest.raises(CUDAError, match="cannot be updated"):
        graph.update(two)


def test_child_graph_runs_and_can_be_updated(stream, kernel, cell):
    child = GraphDefinition()
    child.launch(ONE, kernel("add_one"), cell, 1)
    parent = GraphDefinition()
    node = parent.embed(child)
    node.embed(child)
    assert len(node.child_graph.nodes()) == 1
    parent.instantiate().launch(stream)
    assert read(cell, stream) == 2
    builder = stream.create_graph_builder().begin_building()
    builder.embed(child)
    builder.end_building().complete().launch(stream)
    assert read(cell, stream) == 3


def test_graph_is_written_as_dot(tmp_path, stream, kernel, cell, capsys):
    definition = GraphDefinition()
    definition.launch(ONE, kernel("add_one"), cell, 1)
    path = tmp_path / "graph.dot"
    definition.debug_dot_print(str(path), GraphDebugPrintOptions(verbose=True))
    with pytest.raises(TypeError, match="PathLike"):
        definition.debug_dot_print(7)
    definition.debug_dot_print(path)
    assert "digraph" in path.read_text()
    definition.debug_print(options=GraphDebugPrintOptions(kernel_node_params=True))
    assert "digraph" in capsys.readouterr().out
    assert GraphDebugPrintOptions(verbose=True, handles=True)._flags() == 1 | 1 << 10
    assert GraphCompleteOptions().auto_free_on_launch is False


def test_the_graph_is_a_picture_without_other_programs(tmp_path, monkeypatch, kernel, cell):
    monkeypatch.setenv("PATH", "/nonexistent")
    definition = GraphDefinition()
    first = definition.memset(cell, 0, 4)
    branches = [first.launch(ONE, kernel("add_one"), cell, 1) for _ in range(3)]
    branches[0].callback(print)
    definition.join(*branches)
    condition = definition.create_condition(default_value=1)
    definition.if_else(condition).then.memset(cell, 1, 4)
    picture = definition._repr_svg_()
    root = ElementTree.fromstring(picture)
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count("kernel") == 3 and texts.count("add_one") == 3 and texts.count("fill") == 2
    assert {"host function", "print", "if, else", "then", "else", "empty"} <= set(texts)
    paths = [e for e in root.iter("{http://www.w3.org/2000/svg}path") if e.get("marker-end")]
    assert len(paths) == len(definition.edges())
    definition.debug_print(str(tmp_path / "graph.svg"))
    assert (tmp_path / "graph.svg").read_text() == picture
    assert "no nodes" in GraphDefinition()._repr_svg_()


def test_the_picture_names_c_functions_templates_and_graphs_inside_graphs(device, stream, cell):
    source = """template <class T> __global__ void scale(T* x) { *x *= 2; }
    extern "C" __global__ void f(int* x) { ++*x; }"""  # f is not a mangled name, though it is the code of a type
    code = Program(source, "c++").compile("cubin", name_expressions=["scale<int>"])
    child = GraphDefinition()
    child.launch(ONE, code.get_kernel("scale<int>"), cell).launch(ONE, code.get_kernel("f"), cell)
    definition = GraphDefinition()
    definition.embed(child)
    definition.callback(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda data: None))
    texts = [
        element.text
        for element in ElementTree.fromstring(definition._repr_svg_()).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert {"child graph", "kernel", "scale<int>", "f", "host function", "a C function"} <= set(texts)


@pytest.mark.cpu_only
def test_labels_of_the_dot_language_are_escaped(tmp_path, kernel, cell):
    definition = GraphDefinition()
    definition.launch(ONE, kernel("add_one"), cell, 1)
    definition.debug_dot_print(tmp_path / "graph.dot")
    label = re.search(r'label="(0.*)"\]', (tmp_path / "graph.dot").read_text())[1]
    assert r"\<\<\<\{1,1,1\},\{" in label
    dot = shutil.which("dot")
    if dot is not None:
        subprocess.run([dot, "-Tsvg", str(tmp_path / "graph.dot")], check=True, capture_output=True)


def test_cooperative_and_cluster_kernel_nodes_run(device, stream, cell):
    from cuda.core import Program, ProgramOptions

    source = r"""
    extern "C" __global__ void count(int* p) { atomicAdd(p, 1); }
    extern "C" __global__ void ranks(int* p) {
      unsigned blocks;
      asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
      if (threadIdx.x == 0) atomicAdd(p, blocks);
    }"""
    if device.compute_capability < (9, 0):
        pytest.skip("clusters need compute capability 9.0")
    code = Program(source, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin")
    definition = GraphDefinition()
    first = definition.launch(LaunchConfig(grid=2, block=32, is_cooperative=True), code.get_kernel("count"), cell)
    first.launch(LaunchConfig(grid=2, cluster=2, block=32), code.get_kernel("ranks"), cell)
    definition.instantiate().launch(stream)
    assert read(cell, stream) == 2 * 32 + 4 * 2


def test_captured_array_copy_is_a_node_with_the_array(device, stream):
    from cuda.core.texture import OpaqueArrayOptions

    with device.create_opaque_array(OpaqueArrayOptions((8, 4), "uint8", 1)) as array:
        buffer = device.allocate(32, stream=stream)
        buffer.copy_from(bytes(range(32)), stream=stream)
        stream.sync()
        builder = device.create_graph_builder().begin_building()
        array.copy_from(buffer, stream=builder)
        (node,) = builder.end_building().graph_definition.nodes()
        assert (node.dst, node.src, node.size) == (int(array.handle), int(buffer.handle), 32)
        builder.complete().launch(stream)
        back = bytearray(32)
        array.copy_to(back, stream=stream)
        stream.sync()
        assert back == bytes(range(32))
