# SPDX-License-Identifier: Apache-2.0
"""Closing objects twice, in any order and from any thread; errors of closed objects."""

import gc
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from cuda.core import (
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    EventOptions,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    Linker,
    LinkerOptions,
    ManagedMemoryResource,
    ObjectCode,
    PinnedMemoryResource,
    Program,
    ProgramOptions,
    VirtualMemoryResource,
    launch,
)
from cuda.core.utils import FileStreamProgramCache, InMemoryProgramCache

hypothesis = pytest.importorskip("hypothesis")
st = pytest.importorskip("hypothesis.strategies")

PTX = b".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry k() { ret; }\n"
ONE = LaunchConfig(grid=1, block=1)


def make_all(device, kernel, folder):
    """One object of each kind that can be closed, with work queued on them."""
    made = {}
    made["stream"] = stream = device.create_stream()
    made["other stream"] = device.create_stream(options={"nonblocking": False})
    made["pool"] = pool = DeviceMemoryResource(device, options=DeviceMemoryResourceOptions(max_size=1 << 20))
    made["buffer"] = buffer = device.allocate(4096, stream=stream)
    made["pool buffer"] = pool.allocate(4096, stream=made["other stream"])
    made["pinned"] = PinnedMemoryResource().allocate(64, stream=stream)
    made["legacy pinned"] = LegacyPinnedMemoryResource().allocate(64)
    made["managed"] = ManagedMemoryResource().allocate(64, stream=stream)
    made["virtual"] = VirtualMemoryResource(device).allocate(64)
    made["event"] = stream.record()
    made["timed event"] = stream.record(options=EventOptions(timing_enabled=True))
    launch(stream, LaunchConfig(grid=4, block=256), kernel("add_one"), buffer, 1024)
    builder = device.create_graph_builder().begin_building()
    launch(builder, ONE, kernel("add_one"), buffer, 1)
    builder.callback(lambda: None)
    made["ended builder"] = builder.end_building()
    made["graph"] = graph = builder.complete()
    graph.launch(stream)
    made["building"] = building = device.create_graph_builder().begin_building()
    launch(building, ONE, kernel("nothing"))
    made["branch"] = building.split(2)[1]
    made["program"] = Program('extern "C" __global__ void k() {}', "c++", ProgramOptions(arch="sm_90"))
    made["linker"] = Linker(ObjectCode.from_ptx(PTX), options=LinkerOptions(arch=f"sm_{device.arch}"))
    made["memory cache"] = InMemoryProgramCache()
    made["file cache"] = FileStreamProgramCache(folder / "cache")
    stream.wait(made["other stream"])
    return made


def works_after(device, kernel):
    stream = device.create_stream()
    buffer = device.allocate(4, stream=stream)
    launch(stream, ONE, kernel("add_one"), buffer, 1)
    stream.sync()
    buffer.close()
    stream.close()


NAMES = [
    "stream", "other stream", "pool", "buffer", "pool buffer", "pinned", "legacy pinned", "managed", "virtual", "event",
    "timed event", "ended builder", "graph", "building", "branch", "program", "linker", "memory cache", "file cache",
]  # fmt: skip
ANY_ORDER = pytest.mark.promise(
    "Every object may be closed twice, in any order, from any thread, with no context current"
)


@ANY_ORDER
@hypothesis.given(
    order=st.permutations(NAMES),
    how=st.lists(
        st.sampled_from(["close", "forget", "thread", "no context", "twice"]), min_size=len(NAMES), max_size=len(NAMES)
    ),
)
@hypothesis.settings(
    max_examples=60,
    derandomize=os.environ.get("CUCORE_LONG") != "1",  # fixed seeds, except in long runs
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
def test_objects_closed_twice_in_any_order_raise_nothing(tmp_path_factory, device, kernel, order, how):
    made = make_all(device, kernel, tmp_path_factory.getbasetemp())
    assert sorted(made) == sorted(NAMES)
    for name, way in zip(order, how, strict=True):
        thing = made.pop(name)
        if way == "close":
            thing.close()
        elif way == "twice":
            thing.close()
            thing.close()
        elif way in ("thread", "no context"):  # a new thread has no context
            thread = threading.Thread(
                target=thing.close if way == "thread" else (lambda held: held.clear()),
                args=() if way == "thread" else ([thing],),
            )
            del thing
            thread.start()
            thread.join()
        else:
            del thing
    made.clear()
    gc.collect()
    works_after(device, kernel)


@pytest.mark.promise("Every method of a closed object raises an error that names the object")
@pytest.mark.parametrize("name", NAMES)
def test_every_method_of_a_closed_object_raises_an_error_that_names_it(device, kernel, tmp_path, name):
    """No method of a closed object crashes or hangs; methods that need the object raise an error that it is closed."""
    made = make_all(device, kernel, tmp_path)
    thing = made[name]
    thing.close()
    thing.close()
    stream = device.create_stream()
    said = []
    for method in sorted(dir(thing)):
        if method.startswith("_") or method in ("close", "from_handle", "from_ipc_descriptor", "join"):
            continue
        for arguments in ((), (stream,), (1,), (bytearray(8),)):
            for keywords in ({}, {"stream": stream}):
                try:
                    value = getattr(thing, method)
                    if callable(value):
                        value(*arguments, **keywords)
                except (
                    TypeError,
                    ValueError,
                    NotImplementedError,
                    AttributeError,
                    KeyError,
                    OverflowError,
                    IndexError,
                ):
                    pass
                except RuntimeError as error:
                    said.append(str(error))
    repr(thing), hash(thing), thing == thing
    if name not in ("virtual", "program", "linker"):  # tested elsewhere
        assert any("closed" in text for text in said), (name, said[:5])
    for other in made.values():
        other.close()
    works_after(device, kernel)


@pytest.mark.promise("A closed buffer is refused in copies and as a kernel argument, by an error that names it")
def test_closed_buffer_or_stream_as_argument_raises(device, stream, kernel):
    buffer, closed = device.allocate(64, stream=stream), device.allocate(64, stream=stream)
    closed.close()
    for call in (
        lambda: launch(stream, ONE, kernel("add_one"), closed, 1),
        lambda: buffer.copy_from(closed, stream=stream),
        lambda: closed.copy_from(buffer, stream=stream),
        lambda: closed.copy_to(bytearray(64), stream=stream),
        lambda: closed.fill(0, stream=stream),
        lambda: closed.__dlpack__(),
    ):
        with pytest.raises(RuntimeError, match="closed"):
            call()
    gone = device.create_stream()
    gone.close()
    for call in (
        lambda: launch(gone, ONE, kernel("nothing")),
        lambda: buffer.fill(0, stream=gone),
        lambda: device.allocate(64, stream=gone),
        lambda: stream.wait(gone),
        lambda: gone.record(),
        lambda: gone.sync(),
    ):
        with pytest.raises(RuntimeError, match="closed"):
            call()
    event = stream.record()
    event.close()
    for call in (lambda: stream.wait(event), lambda: stream.record(event), lambda: event.sync(), lambda: event.is_done):
        with pytest.raises(RuntimeError, match="closed"):
            call()


@pytest.mark.promise("A buffer closed while work on it is queued is freed after that work")
def test_buffer_closed_while_a_kernel_is_queued_is_freed_after_it(device, stream, kernel, gate):
    buffer = device.allocate(4, stream=stream)
    buffer.fill(0, stream=stream)
    shut = gate(stream)
    for _ in range(3):
        launch(stream, ONE, kernel("add_one"), buffer, 1)
    out = PinnedMemoryResource().allocate(4, stream=stream)
    out.copy_from(buffer, stream=stream)
    buffer.close()  # the kernels above have not run
    other = device.create_stream()
    again = device.allocate(4, stream=other)  # the memory must not be reused yet
    again.fill(0xFF, stream=other)
    other.sync()
    shut.open()
    stream.sync()
    assert int.from_bytes(memoryview(out).cast("B")[:4].tobytes(), "little") == 3


@pytest.mark.promise("A buffer closed while work on it is queued is freed after that work")
def test_buffer_closed_while_another_thread_copies_is_freed_after_the_copy(device, stream, gate):
    buffer = device.allocate(64, stream=stream)
    buffer.fill(7, stream=stream)
    shut = gate(stream)
    with ThreadPoolExecutor(1) as threads:
        while True:  # until a call has exported its destination buffer: it then waits for the kernel
            out = bytearray(64)
            view = memoryview(out)
            copy = threads.submit(buffer.copy_to, view, stream=stream)
            time.sleep(0.05)
            try:
                view.release()
            except BufferError:
                break
            copy.exception()  # the view was released before the call used it
        buffer.close()
        shut.open()
        copy.result()
    assert bytes(out) == bytes([7] * 64)
    with pytest.raises(RuntimeError, match="closed"):
        buffer.copy_to(out, stream=stream)


@pytest.mark.promise("One object closed by many threads at once is closed once")
@pytest.mark.parametrize("name", NAMES)
def test_object_closed_by_many_threads_is_closed_once(device, kernel, tmp_path, name):
    for _ in range(3):
        made = make_all(device, kernel, tmp_path)
        thing = made[name]
        barrier = threading.Barrier(8)

        def close(thing=thing, barrier=barrier):
            barrier.wait()
            thing.close()

        with ThreadPoolExecutor(8) as threads:
            for done in [threads.submit(close) for _ in range(8)]:
                done.result()
        for other in made.values():
            other.close()
    works_after(device, kernel)
