# SPDX-License-Identifier: Apache-2.0
"""Graph definitions, executable graphs and running launches keep the objects of their nodes alive."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import pytest
from cuda.core import Buffer, CUDAError, DeviceMemoryResource, DeviceMemoryResourceOptions, LaunchConfig, launch
from cuda.core.graph import GraphDefinition

ONE = LaunchConfig(grid=1, block=1)


class Callback:
    """A callable that supports weak references."""

    def __init__(self, seen: list[str] | None = None) -> None:
        self.seen = seen

    def __call__(self) -> None:
        if self.seen is not None:
            self.seen.append("called")


def gone(*references: weakref.ref) -> bool:
    """True when all references are dead. The driver may report completion late, on its own thread."""
    for _ in range(200):
        if all(reference() is None for reference in references):
            return True
        gc.collect()
        time.sleep(0.01)
    return False


def number(buffer, stream) -> int:
    back = bytearray(4)
    buffer.copy_to(back, stream=stream)
    return int.from_bytes(back, "little")


@pytest.fixture
def cell(device, stream):
    def make(value: int = 0):
        buffer = device.allocate(4, stream=stream)
        buffer.fill(value.to_bytes(4, "little"), stream=stream)
        stream.sync()
        return buffer

    return make


def test_executable_graph_keeps_the_objects_of_explicit_nodes(device, stream, kernel, cell):
    seen: list[str] = []
    used = {
        "argument": cell(),
        "copied": cell(7),
        "filled": cell(),
        "callback": Callback(seen),
        "event": device.create_event(),
    }
    target = cell()
    definition = GraphDefinition()
    node = definition.launch(ONE, kernel("add_one"), used["argument"], 1)
    node = node.memcpy(target, used["copied"], 4).memset(used["filled"], 9, 4).callback(used["callback"])
    node.record(used["event"])
    graph = definition.instantiate()
    watched = [weakref.ref(thing) for thing in used.values()]
    del node, definition
    used.clear()
    gc.collect()
    assert all(reference() is not None for reference in watched)
    graph.launch(stream)
    stream.sync()
    assert seen == ["called"] and number(target, stream) == 7
    graph.close()
    assert gone(*watched)


def test_executable_graph_keeps_the_objects_of_captured_calls(device, stream, kernel, cell):
    seen: list[str] = []
    argument, copied, filled, callback = cell(), cell(5), cell(), Callback(seen)
    host, target = bytearray(b"\4\0\0\0"), cell()
    builder = device.create_graph_builder().begin_building()
    launch(builder, ONE, kernel("add_one"), argument, 1)
    target.copy_from(copied, stream=builder)
    filled.fill(1, stream=builder)
    filled.copy_from(host, stream=builder)
    builder.callback(callback)
    graph = builder.end_building().complete()
    builder.close()
    watched = [weakref.ref(thing) for thing in (argument, copied, filled, callback)]
    del argument, copied, filled, callback, builder
    with pytest.raises(BufferError):
        host.append(0)  # every launch reads it, so it must not be resized
    gc.collect()
    assert all(reference() is not None for reference in watched)
    graph.launch(stream)
    stream.sync()
    assert seen == ["called"] and number(target, stream) == 5
    del graph
    assert gone(*watched)
    host.append(0)


def test_uninstantiated_definition_releases_its_objects(kernel, cell):
    buffer, callback = cell(), Callback()
    watched = [weakref.ref(buffer), weakref.ref(callback)]
    definition = GraphDefinition()
    definition.launch(ONE, kernel("add_one"), buffer, 1).callback(callback)
    del buffer, callback
    gc.collect()
    assert all(reference() is not None for reference in watched)
    del definition
    assert all(reference() is None for reference in watched), "without help from the collector"


def test_kernels_keep_their_code_loaded_in_a_graph(device, stream, cell):
    from cuda.core import Program, ProgramOptions

    source = 'extern "C" __global__ void put(int* p) { *p = 42; }'
    code = Program(source, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin")
    kernel = code.get_kernel("put")
    target = cell()
    definition = GraphDefinition()
    definition.launch(ONE, kernel, target)
    graph = definition.instantiate()
    del code, kernel, definition
    gc.collect()
    graph.launch(stream)
    assert number(target, stream) == 42


def test_updated_node_releases_its_previous_objects(stream, kernel, cell):
    first, second = cell(), cell()
    watched = weakref.ref(first)
    definition = GraphDefinition()
    node = definition.launch(ONE, kernel("add_one"), first, 1)
    before = definition.instantiate()
    node.update(args=(second, 1))
    after = definition.instantiate()
    del first
    gc.collect()
    assert watched() is not None  # `before` was instantiated from the old node
    before.launch(stream)
    after.launch(stream)
    stream.sync()
    assert number(watched(), stream) == 1 and number(second, stream) == 1
    before.close()
    assert gone(watched)


def test_destroyed_node_releases_its_objects(cell):
    callback = Callback()
    watched = weakref.ref(callback)
    definition = GraphDefinition()
    node = definition.callback(callback)
    del callback
    assert watched() is not None
    node.destroy()
    assert gone(watched)


def test_updated_graph_releases_its_previous_objects(stream, kernel, cell):
    def described(buffer):
        definition = GraphDefinition()
        definition.launch(ONE, kernel("add_one"), buffer, 1)
        return definition

    first, second = cell(), cell()
    watched = weakref.ref(first), weakref.ref(second)
    graph = described(first).instantiate()
    graph.launch(stream)
    graph.update(described(second))
    del first, second
    stream.sync()
    assert gone(watched[0])
    graph.launch(stream)
    assert number(watched[1](), stream) == 1
    graph.close()
    assert gone(watched[1])


def test_updated_executable_node_releases_its_objects_after_launches_in_flight(stream, kernel, cell):
    buffers = [cell() for _ in range(4)]
    watched = [weakref.ref(buffer) for buffer in buffers]
    definition = GraphDefinition()
    node = definition.launch(ONE, kernel("add_one"), cell(), 1)
    graph = definition.instantiate()
    while buffers:
        graph[node].update(config=ONE, kernel=kernel("add_one"), args=(buffers.pop(), 1))
        graph.launch(stream)
    stream.sync()
    graph[node].update(config=ONE, kernel=kernel("add_one"), args=(watched[0](), 1))
    graph[node].update(config=ONE, kernel=kernel("add_one"), args=(watched[0](), 1))  # processes completed launches
    assert gone(*watched[1:]) and watched[0]() is not None
    graph.close()
    assert gone(watched[0])


def test_closed_graph_keeps_the_objects_of_a_launch_in_flight(stream, kernel, cell):
    may_go_on = threading.Event()
    seen = []
    first, last = Callback(), Callback(seen)
    watched = weakref.ref(last)
    builder = stream.create_graph_builder().begin_building()
    builder.callback(lambda: may_go_on.wait())
    builder.callback(last)
    graph = builder.end_building().complete()
    builder.close()
    del builder, first, last
    graph.launch(stream)
    graph.close()
    gc.collect()
    assert watched() is not None
    may_go_on.set()
    stream.sync()
    assert seen == ["called"]
    assert gone(watched)


def test_child_graphs_and_conditional_bodies_keep_their_objects(device, stream, kernel, cell):
    in_child, in_body, in_captured_body = cell(), cell(), cell()
    watched = [weakref.ref(buffer) for buffer in (in_child, in_body, in_captured_body)]
    child = GraphDefinition()
    child.launch(ONE, kernel("add_one"), in_child, 1)
    definition = GraphDefinition()
    condition = definition.create_condition(1)
    definition.embed(child).if_then(condition).then.launch(ONE, kernel("add_one"), in_body, 1)
    graph = definition.instantiate()
    builder = device.create_graph_builder().begin_building()
    body = builder.if_then(builder.create_condition(1)).begin_building()
    launch(body, ONE, kernel("add_one"), in_captured_body, 1)
    body.end_building()
    captured = builder.end_building().complete()
    del child, definition, condition, builder, body, in_child, in_body, in_captured_body
    gc.collect()
    assert all(reference() is not None for reference in watched)
    graph.launch(stream)
    captured.launch(stream)
    stream.sync()
    assert [number(reference(), stream) for reference in watched] == [1, 1, 1]
    del graph, captured
    assert gone(*watched)


def test_callback_that_references_its_graph_is_collected_after_an_update():
    class Holder:
        def __call__(self) -> None:
            pass

    definition = GraphDefinition()
    node = definition.callback(Callback())
    graph = definition.instantiate()
    holder = Holder()
    holder.graph = graph  # type: ignore[attr-defined]
    graph[node].update(holder)
    watched = weakref.ref(holder)
    del graph, holder
    assert gone(watched)


def test_branch_of_a_builder_keeps_its_captured_objects(device, stream, kernel, cell):
    buffer = cell()
    watched = weakref.ref(buffer)
    builder = device.create_graph_builder().begin_building()
    left, right = builder.split(2)
    launch(right, ONE, kernel("add_one"), buffer, 1)
    graph = type(builder).join(left, right).end_building().complete()
    del builder, left, right, buffer
    gc.collect()
    graph.launch(stream)
    assert number(watched(), stream) == 1
    graph.close()
    assert gone(watched)


def test_executable_made_from_a_graph_handle_keeps_the_captured_objects(device, stream, kernel, cell):
    from cuda.bindings import driver

    buffer, seen = cell(), []
    callback = Callback(seen)
    builder = device.create_graph_builder().begin_building()
    launch(builder, ONE, kernel("add_one"), buffer, 1)
    builder.callback(callback)
    builder.end_building()
    code, executable = driver.cuGraphInstantiate(builder.graph_definition.handle, 0)
    assert code == 0
    references = [weakref.ref(buffer), weakref.ref(callback)]
    builder.close()
    del builder, callback
    gc.collect()
    assert all(
        reference() is not None for reference in references
    )  # the executable graph keeps them through the driver
    assert driver.cuGraphLaunch(executable, stream.handle)[0] == 0
    stream.sync()
    assert seen == ["called"] and number(buffer, stream) == 1
    del buffer
    assert driver.cuGraphExecDestroy(executable)[0] == 0
    assert gone(*references)


def test_child_graph_keeps_the_objects_of_the_captured_graph(device, stream, kernel, cell):
    seen: list[str] = []
    callback = Callback(seen)
    inner = device.create_graph_builder().begin_building()
    inner.callback(callback)
    inner.end_building()
    outer = device.create_graph_builder().begin_building()
    outer.embed(inner)
    graph = outer.end_building().complete()
    reference = weakref.ref(callback)
    inner.close()
    outer.close()
    del callback, inner, outer
    gc.collect()
    graph.launch(stream)
    stream.sync()
    assert seen == ["called"] and reference() is not None
    graph.close()
    del graph
    assert gone(reference)


@pytest.mark.parametrize("how", ["closed", "released"])
def test_buffer_can_be_freed_while_its_stream_is_captured(device, how):
    """A captured free is a node, which accepts only graph memory."""
    stream = device.create_stream()
    pool = DeviceMemoryResource(device, DeviceMemoryResourceOptions(max_size=1 << 20))
    buffer, kept = pool.allocate(64, stream=stream), pool.allocate(64, stream=stream)
    buffer.fill(1, stream=stream)
    used = pool.attributes.used_mem_current
    builder = stream.create_graph_builder().begin_building()
    kept.fill(7, stream=builder)
    if how == "closed":
        buffer.close()
    del buffer
    gc.collect()
    graph = builder.end_building().complete()
    assert pool.attributes.used_mem_current < used
    graph.launch(stream)
    found = bytearray(64)
    kept.copy_to(found, stream=stream)
    stream.sync()
    assert found == bytes([7]) * 64


def test_memory_of_a_destroyed_graph_raises(device, stream):
    """The driver would treat its address as a host address."""
    builder = device.create_graph_builder().begin_building()
    buffer = device.allocate(64, stream=builder)
    inside = device.allocate(64, stream=builder)
    inside.copy_from(buffer, stream=builder)
    inside.fill(1, stream=builder)
    builder.close()
    plain = device.allocate(64, stream=stream)
    for use in (
        lambda: plain.copy_from(buffer, stream=stream),
        lambda: buffer.copy_from(plain, stream=stream),
        lambda: buffer.copy_to(bytearray(64), stream=stream),
        lambda: buffer.fill(1, stream=stream),
    ):
        with pytest.raises((RuntimeError, CUDAError)):
            use()
    plain.fill(3, stream=stream)
    assert set(plain.copy_to(bytearray(64), stream=stream)) == {3}


@pytest.mark.parametrize("by", ["builder", "its stream"])
def test_launch_of_a_graph_into_a_capture_raises(device, stream, by):
    callback = Callback()
    definition = GraphDefinition()
    definition.callback(callback)
    inner = definition.instantiate()
    outer = device.create_graph_builder().begin_building()
    with pytest.raises(CUDAError, match="STREAM_CAPTURE_UNSUPPORTED"):
        inner.launch(outer if by == "builder" else outer.stream)
    outer.close()
    inner.launch(stream)
    stream.sync()
    reference = weakref.ref(callback)
    inner.close()
    del callback, inner, outer, definition
    assert gone(reference)


def test_failed_launch_does_not_release_objects_of_a_running_one(device, stream, request):
    may_go_on, seen = threading.Event(), []
    request.addfinalizer(may_go_on.set)  # the device must become idle even if an assertion below fails
    last = Callback(seen)
    made_from = device.create_graph_builder().begin_building()
    made_from.callback(lambda: may_go_on.wait())
    made_from.callback(last)
    graph = made_from.end_building().complete()
    made_from.close()
    reference = weakref.ref(last)
    graph.launch(stream)
    builder = device.create_graph_builder().begin_building()
    with pytest.raises(CUDAError):
        graph.launch(builder)
    builder.close()
    broken = device.create_graph_builder().begin_building(mode="relaxed")
    with pytest.raises(CUDAError):
        broken.stream.sync()  # invalidates the capture
    with pytest.raises(CUDAError):
        graph.launch(broken)
    graph.close()
    broken.close()
    del made_from, last, builder, broken
    gc.collect()
    assert reference() is not None
    may_go_on.set()
    stream.sync()
    assert seen == ["called"]
    del graph
    assert gone(reference)


@pytest.mark.parametrize("ending", ["close", "end_building"])
def test_branches_are_closed_when_their_capture_ends(device, stream, kernel, cell, ending):
    """Work queued on such a branch would run immediately, without keeping its objects alive."""
    builder = device.create_graph_builder().begin_building()
    _, branch = builder.split(2)
    branch.callback(Callback())
    if ending == "close":
        builder.close()
    else:
        with pytest.raises(CUDAError):  # a branch was not joined
            builder.end_building()
    assert branch.is_closed and not branch.is_building
    seen: list[str] = []
    buffer = cell()
    for use in (
        lambda: branch.callback(Callback(seen)),
        lambda: launch(branch, ONE, kernel("add_one"), buffer, 1),
        lambda: device.allocate(4, stream=branch),
        lambda: branch.split(2),
    ):
        with pytest.raises(RuntimeError, match="closed"):
            use()
    branch.close()
    device.sync()
    assert seen == [] and number(buffer, stream) == 0


def test_callback_in_an_ended_capture_raises(device):
    from cuda.bindings import driver

    builder = device.create_graph_builder().begin_building()
    code, graph = driver.cuStreamEndCapture(builder.stream.handle)
    assert code == 0
    with pytest.raises(RuntimeError, match="capture has ended"):
        builder.callback(Callback())
    builder.close()
    assert driver.cuGraphDestroy(graph)[0] == 0


# ---- objects closed while a graph uses them


PATTERNS = [
    ("np.uint8(2)", 4, b"\2" * 4),
    ("np.int8(-1)", 3, b"\xff" * 3),
    ("np.int16(258)", 2, b"\2\1" * 2),
    ("np.uint16(4)", 3, b"\4\0" * 3),
    ("np.int32(4)", 4, b"\4\0\0\0" * 4),
    ("np.uint32(0x01020304)", 2, b"\4\3\2\1" * 2),
    ("np.float32(1.0)", 2, b"\0\0\x80\x3f" * 2),
    ("np.bool_(True)", 2, b"\1" * 2),
    ("memoryview(b'ab')", 2, b"abab"),
]


@pytest.mark.parametrize(("text", "width", "wanted"), PATTERNS, ids=[row[0] for row in PATTERNS])
@pytest.mark.parametrize("way", ["add", "update", "executable"])
def test_memset_uses_the_bytes_of_a_numpy_integer_as_pattern(device, stream, way, text, width, wanted):
    np = pytest.importorskip("numpy")
    value = eval(text, {"np": np})
    buffer = device.allocate(32, stream=stream)
    buffer.fill(0xEE, stream=stream)
    definition = GraphDefinition()
    node = definition.memset(buffer, value if way == "add" else 1, width if way == "add" else 1)
    if way == "update":
        node.update(value=value, width=width)
    graph = definition.instantiate()
    if way == "executable":
        graph[node].update(dst=buffer, value=value, width=width)
    graph.launch(stream)
    back = bytearray(32)
    buffer.copy_to(back, stream=stream)
    assert bytes(back) == wanted.ljust(32, b"\xee"), "and nothing beyond"


def test_memset_with_an_invalid_pattern_raises(cell):
    np = pytest.importorskip("numpy")
    definition = GraphDefinition()
    with pytest.raises(ValueError, match="8"):
        definition.memset(cell(), np.int64(1), 1)
    with pytest.raises(TypeError, match="float"):
        definition.memset(cell(), 1.0, 1)


def memset_in(definition, buffer, kernel):
    return definition.memset(buffer, b"\7\0\0\0", 1)


def memset_by_address(definition, buffer, kernel):
    return definition.memset(buffer.handle, b"\7\0\0\0", 1, dst_owner=buffer)


def memcpy_into(definition, buffer, kernel):
    source = buffer.memory_resource.allocate(4, stream=buffer_stream(buffer))
    source.fill(b"\7\0\0\0", stream=buffer_stream(buffer))
    buffer_stream(buffer).sync()
    node = definition.memcpy(buffer, source, 4)
    source.close()
    return node


def memcpy_by_address(definition, buffer, kernel):
    source = buffer.memory_resource.allocate(4, stream=buffer_stream(buffer))
    source.fill(b"\7\0\0\0", stream=buffer_stream(buffer))
    buffer_stream(buffer).sync()
    node = definition.memcpy(buffer.handle, source.handle, 4, dst_owner=buffer, src_owner=source)
    source.close()
    return node


def kernel_on(definition, buffer, kernel):
    return definition.launch(ONE, kernel("add_one"), buffer, 1)


def updated_kernel_on(definition, buffer, kernel):
    other = buffer.memory_resource.allocate(4, stream=buffer_stream(buffer))
    node = definition.launch(ONE, kernel("add_one"), other, 1)
    other.close()
    node.update(args=(buffer, 1))
    return node


def updated_memset_in(definition, buffer, kernel):
    other = buffer.memory_resource.allocate(4, stream=buffer_stream(buffer))
    node = definition.memset(other, 0, 4)
    node.update(dst=buffer, value=b"\7\0\0\0", width=1)
    other.close()
    return node


def in_a_child(definition, buffer, kernel):
    child = GraphDefinition()
    child.memset(buffer, b"\7\0\0\0", 1)
    return definition.embed(child)


def in_a_body(definition, buffer, kernel):
    node = definition.if_then(definition.create_condition(1))
    node.then.memset(buffer, b"\7\0\0\0", 1)
    return node


def buffer_stream(buffer):
    from cuda.core import Device

    return Device().default_stream


USES = [
    memset_in, memset_by_address, memcpy_into, memcpy_by_address, kernel_on, updated_kernel_on, updated_memset_in,
    in_a_child, in_a_body,
]  # fmt: skip


@pytest.fixture
def small_pool(device):
    """A pool with space for a few buffers, so that freed memory is reused immediately."""
    return DeviceMemoryResource(device, DeviceMemoryResourceOptions(max_size=1 << 16))


@pytest.mark.parametrize("add", USES, ids=lambda use: use.__name__)
def test_memory_of_a_closed_buffer_is_freed_with_the_graph(device, stream, kernel, small_pool, add):
    buffer = small_pool.allocate(4, stream=stream)
    buffer.fill(b"\6\0\0\0", stream=stream)
    stream.sync()
    address = buffer.handle
    definition = GraphDefinition()
    add(definition, buffer, kernel)
    buffer.close(stream)
    assert buffer.is_closed
    others = [small_pool.allocate(4, stream=stream) for _ in range(4)]
    for other in others:
        other.fill(b"\1\0\0\0", stream=stream)
    assert address not in [other.handle for other in others]
    graph = definition.instantiate()
    del definition
    graph.launch(stream)
    stream.sync()
    assert [number(other, stream) for other in others] == [1, 1, 1, 1], "the launch wrote to other memory"
    assert number(Buffer.from_handle(address, 4), stream) == 7
    for other in others:
        other.close(stream)
    del other, others
    graph.close()
    gc.collect()
    for _ in range(200):  # a GPU's driver releases objects of a child graph on its own thread
        stream.sync()
        if small_pool.attributes.used_mem_current == 0:
            break
        time.sleep(0.05)
    assert small_pool.attributes.used_mem_current == 0, "the memory is freed after the graph"


def test_memory_of_a_buffer_closed_after_a_capture_is_freed_with_the_graph(device, stream, kernel, small_pool):
    buffer = small_pool.allocate(4, stream=stream)
    source = small_pool.allocate(4, stream=stream)
    source.fill(b"\6\0\0\0", stream=stream)
    stream.sync()
    address = buffer.handle
    builder = device.create_graph_builder().begin_building()
    buffer.copy_from(source, stream=builder)
    launch(builder, ONE, kernel("add_one"), buffer, 1)
    graph = builder.end_building().complete()
    builder.close()
    buffer.close(stream)
    source.close(stream)
    others = [small_pool.allocate(4, stream=stream) for _ in range(4)]
    for other in others:
        other.fill(b"\1\0\0\0", stream=stream)
    graph.launch(stream)
    stream.sync()
    assert [number(other, stream) for other in others] == [1, 1, 1, 1]
    assert number(Buffer.from_handle(address, 4), stream) == 7
    for other in others:
        other.close(stream)
    graph.close()
    del builder, graph
    gc.collect()
    stream.sync()
    assert small_pool.attributes.used_mem_current == 0


def test_memory_set_in_an_executable_node_is_kept_after_its_buffer_is_closed(stream, kernel, small_pool):
    first, second = (small_pool.allocate(4, stream=stream) for _ in range(2))
    second.fill(b"\6\0\0\0", stream=stream)
    stream.sync()
    address = second.handle
    definition = GraphDefinition()
    filled = definition.memset(first, 0, 4)
    added = filled.launch(ONE, kernel("add_one"), first, 1)
    graph = definition.instantiate()
    graph[added].update(config=ONE, kernel=kernel("add_one"), args=(second, 1))
    second.close(stream)
    assert address not in [small_pool.allocate(4, stream=stream).handle for _ in range(4)]
    graph.launch(stream)
    stream.sync()
    assert number(Buffer.from_handle(address, 4), stream) == 7


def test_kernel_node_with_closed_buffers_accepts_another_config(stream, kernel, cell):
    buffer = cell(1)
    address = buffer.handle
    definition = GraphDefinition()
    node = definition.launch(ONE, kernel("add_one"), buffer, 1)
    buffer.close(stream)
    node.update(config=LaunchConfig(grid=1, block=32))
    definition.instantiate().launch(stream)
    assert number(Buffer.from_handle(address, 4), stream) == 2


def test_closed_buffer_as_operand_or_owner_raises(cell, stream):
    closed, open_ = cell(), cell()
    address = closed.handle
    closed.close(stream)
    definition = GraphDefinition()
    for wrong in (
        lambda: definition.memset(closed, 0, 4),
        lambda: definition.memset(address, 0, 4, dst_owner=closed),
        lambda: definition.memcpy(closed, open_, 4),
        lambda: definition.memcpy(open_, closed, 4),
        lambda: definition.memcpy(address, open_, 4, dst_owner=closed),
        lambda: definition.memcpy(open_, address, 4, src_owner=closed),
    ):
        with pytest.raises(ValueError, match="closed"):
            wrong()
    assert not definition.nodes()
    node = definition.memset(open_, 0, 4)
    copy = definition.memcpy(open_, cell(), 4)
    for wrong in (
        lambda: node.update(dst=closed),
        lambda: node.update(dst=address, dst_owner=closed),
        lambda: copy.update(src=closed),
        lambda: copy.update(dst=address, dst_owner=closed),
    ):
        with pytest.raises(ValueError, match="closed"):
            wrong()
    assert node.dptr == open_.handle and copy.dst == open_.handle


def test_closed_event_is_kept_by_the_graph(device, stream, cell):
    event = device.create_event()
    handle = event.handle
    definition = GraphDefinition()
    definition.memset(cell(), 0, 4).record(event)
    event.close()
    for _ in range(8):
        assert device.create_event().handle != handle
    graph = definition.instantiate()
    graph.launch(stream)
    stream.sync()


@pytest.mark.parametrize("value", [0x1234567890, "numpy"])
def test_integer_user_data_is_passed_as_an_address(stream, value):
    import ctypes

    seen = []
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(seen.append)
    if value == "numpy":
        value = pytest.importorskip("numpy").int64(0x1234567890)
    definition = GraphDefinition()
    definition.callback(function, user_data=value)
    definition.instantiate().launch(stream)
    stream.sync()
    assert seen == [0x1234567890]


@pytest.mark.parametrize("way", ["definition", "executable", "capture"])
def test_buffer_owner_that_references_its_graph_is_collected(device, stream, cell, way):
    class Owner:
        pass

    owner, memory = Owner(), cell()
    watched = weakref.ref(owner)
    buffer = Buffer.from_handle(memory.handle, 4, owner=owner)
    if way == "capture":
        builder = device.create_graph_builder().begin_building()
        buffer.fill(1, stream=builder)
        owner.graph = builder.end_building().complete()
        builder.close()
        del builder
    else:
        definition = GraphDefinition()
        node = definition.memset(buffer if way == "definition" else memory, 1, 4)
        owner.graph = definition.instantiate()
        if way == "executable":
            owner.graph[node].update(dst=buffer, value=1, width=4)
        del definition, node
    del owner, buffer
    assert gone(watched)


def test_owner_together_with_a_buffer_raises(cell):
    first, second = cell(), cell()
    definition = GraphDefinition()
    for wrong in (
        lambda: definition.memset(first, 0, 4, dst_owner=second),
        lambda: definition.memcpy(first, second, 4, dst_owner=second),
        lambda: definition.memcpy(first, second, 4, src_owner=object()),
    ):
        with pytest.raises(ValueError, match="address"):
            wrong()
    assert not definition.nodes()


def test_child_node_update_to_its_own_graph_raises(stream, cell):
    buffer = cell()
    child = GraphDefinition()
    child.memset(buffer, 5, 4)
    definition = GraphDefinition()
    node = definition.embed(child)
    for wrong in (node.child_graph, definition):
        with pytest.raises(CUDAError, match="INVALID_VALUE"):
            node.update(wrong)
    definition.instantiate().launch(stream)
    assert number(buffer, stream) == 0x05050505


def test_builder_that_an_argument_closes_is_no_crash(device, stream, kernel, cell):
    target = cell()
    launch(stream, ONE, kernel("add_one"), target, 1)
    stream.sync()

    class Closing:
        def __init__(self, builder):
            self.builder = builder

        @property
        def _kernel_argument(self):
            self.builder.close()
            gc.collect()
            return target.handle

    own = device.create_stream()
    builder = own.create_graph_builder().begin_building()
    launch(builder, ONE, kernel("add_one"), Closing(builder), 1)
    own.sync()
    assert builder.is_closed
    assert number(target, stream) == 2  # the capture had ended: the stream ran it


def test_many_captured_launches_keep_each_kernel_and_buffer(device, stream, kernel, cell):
    """More of them than a driver queues: a capture queues nothing."""
    count = 1500
    buffer = cell()
    builder = device.create_graph_builder().begin_building()
    for _ in range(count):
        launch(builder, ONE, kernel("add_one"), buffer, 1)
    graph = builder.end_building().complete()
    builder.close()
    reference = weakref.ref(buffer)
    graph.launch(stream)
    assert number(buffer, stream) == count
    del buffer
    gc.collect()
    assert reference() is not None
    graph.close()
    stream.sync()
    assert gone(reference)


def test_captured_launches_with_buffers_in_turn_keep_all_of_them(device, stream, kernel, cell):
    buffers = [cell() for _ in range(40)]  # more than a launch can find among those kept last
    builder = device.create_graph_builder().begin_building()
    for buffer in buffers * 3:
        launch(builder, ONE, kernel("add_one"), buffer, 1)
    graph = builder.end_building().complete()
    builder.close()
    references = [weakref.ref(buffer) for buffer in buffers]
    graph.launch(stream)
    assert [number(buffer, stream) for buffer in buffers] == [3] * 40
    del buffers, buffer
    gc.collect()
    assert all(reference() is not None for reference in references)
    graph.close()
    stream.sync()
    assert gone(*references)


def test_dropped_builder_ends_its_capture(device, stream, kernel, cell):
    target = cell()
    own = device.create_stream()
    builder = own.create_graph_builder().begin_building()
    launch(builder, ONE, kernel("add_one"), target, 1)
    branches = builder.split(2)
    del builder, branches
    gc.collect()
    launch(own, ONE, kernel("add_one"), target, 1)
    own.sync()
    assert number(target, stream) == 1  # executed, not captured


def test_builder_used_twice_has_a_new_definition(device, stream, kernel, cell):
    target = cell()
    builder = device.create_graph_builder()
    definitions = []
    for count in (1, 2):
        builder.begin_building()
        for _ in range(count):
            launch(builder, ONE, kernel("add_one"), target, 1)
        definitions.append(builder.end_building().graph_definition)
        assert builder.graph_definition is definitions[-1]
        assert len(definitions[-1].nodes()) == count
    assert definitions[0] != definitions[1]
    builder.complete({"auto_free_on_launch": True}).launch(stream)
    assert number(target, stream) == 2
    with pytest.raises(TypeError, match="GraphCompleteOptions"):
        builder.complete(3)
