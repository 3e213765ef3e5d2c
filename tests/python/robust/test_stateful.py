# SPDX-License-Identifier: Apache-2.0
"""Random programs over the object graph of cuda.core: in any order of calls an error is an exception, and all else works.

CUCORE_LONG=1 runs many more programs, with a new seed each time.
"""

from __future__ import annotations

import gc
import os
import weakref
from typing import Any, NamedTuple

import pytest
from cuda.bindings import driver
from cuda.core import (
    Device,
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    LaunchConfig,
    PinnedMemoryResource,
    Stream,
    launch,
)
from cuda.core.graph import GraphBuilder, GraphDefinition

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test  # noqa: E402

ONE = LaunchConfig(grid=1, block=32)
number = st.integers(0, 30)
KERNELS: dict[str, Any] = {}


BROKEN = -1  # the capture number of a stream whose capture was invalidated by an error


class Home(NamedTuple):
    """The queue that allocates and frees a buffer's memory."""

    queue: weakref.ref[Any]  # a stream or a builder
    capture: int  # number of the capture that allocated it; 0: none


def capture_of(queue: Any) -> int:
    """Number of the capture that records work queued here, or 0."""
    stream = queue.stream if isinstance(queue, GraphBuilder) else queue
    if stream is None or stream.is_closed:
        return 0
    _, status, number, *_ = driver.cuStreamGetCaptureInfo(int(stream.handle))
    if status == driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE:
        return 0
    return int(number) or BROKEN


class Objects(RuleBasedStateMachine):
    """All objects created so far, including closed ones; each rule selects some of them by number."""

    def __init__(self) -> None:
        super().__init__()
        self.device = Device(0)
        self.device.set_current()
        self.streams: list[Any] = [self.device.create_stream()]
        self.buffers: list[Any] = []
        self.events: list[Any] = []
        self.builders: list[Any] = []
        self.graphs: list[Any] = []
        self.pools: list[Any] = [self.device.memory_resource]
        self.definitions: list[Any] = []
        self.homes: dict[int, Home] = {}  # by the buffer's id
        self.used: list[Any] = []  # buffers that a graph definition uses: they must stay open while its graphs exist

    def ordered(self, queue: Any, buffers: list[Any], call: Any) -> None:
        """Queues a call that uses memory, ordered after and before the other uses of that memory.

        Memory that a capture allocates is used only in that branch of the capture. Memory that a stream allocates is
        used in order with that stream's work. Otherwise the device would access memory before its allocation or after
        its release, which is a fault that ends the context.
        """
        homes = [self.homes[id(buffer)] for buffer in buffers if buffer is not None]
        capture = capture_of(queue)
        if capture or not isinstance(queue, Stream):
            if isinstance(queue, GraphBuilder) and all(h.queue() is queue and h.capture == capture for h in homes):
                self.attempt(call)
            return
        streams = [home.queue() for home in homes]
        others = [stream for stream in streams if stream is not queue]
        if any(home.capture for home in homes) or not all(isinstance(stream, Stream) for stream in others):
            return
        if any(stream.is_closed or capture_of(stream) for stream in others) or queue.is_closed:
            return
        for stream in others:
            queue.wait(stream)
        self.attempt(call)
        for stream in others:
            stream.wait(queue)

    def allocated(self, resource: Any, size: int, queue: Any) -> Any:
        capture = capture_of(queue)
        buffer = resource.allocate(size, stream=queue)
        self.homes[id(buffer)] = Home(weakref.ref(queue), capture)
        return buffer

    def pick(self, things: list[Any], n: int) -> Any:
        return things[n % len(things)] if things else None

    def queue(self, n: int) -> Any:
        """A stream or a builder, possibly closed."""
        return self.pick(self.streams + self.builders, n)

    def attempt(self, call: Any) -> Any:
        try:
            return call()
        except (RuntimeError, ValueError, TypeError, AttributeError) as error:
            assert str(error)
        except Exception as error:
            assert getattr(error, "code", None) is not None, repr(error)
            assert error.code not in (700, 719, 999), str(error)
        return None

    def add(self, things: list[Any], call: Any) -> None:
        made = self.attempt(call)
        if made is not None:
            things.append(made)

    @rule()
    def make_stream(self) -> None:
        self.add(self.streams, self.device.create_stream)

    @rule(n=number, size=st.sampled_from([0, 4, 4096, 1 << 18]), which=number)
    def allocate(self, n: int, size: int, which: int) -> None:
        self.add(self.buffers, lambda: self.allocated(self.pick(self.pools, which), size, self.queue(n)))

    @rule(n=number)
    def make_pinned(self, n: int) -> None:
        self.add(self.buffers, lambda: self.allocated(PinnedMemoryResource(), 4096, self.queue(n)))

    @rule()
    def make_pool(self) -> None:
        if len(self.pools) < 4:
            self.add(
                self.pools,
                lambda: DeviceMemoryResource(self.device, options=DeviceMemoryResourceOptions(max_size=1 << 20)),
            )

    @rule(a=number, b=number)
    def do_launch(self, a: int, b: int) -> None:
        queue, buffer = self.queue(a), self.pick(self.buffers, b)
        if buffer is None or buffer.size >= 128 or buffer.size == 0:  # out-of-bounds accesses are tested elsewhere
            n = 32 if buffer is not None and buffer.size else 0
            self.ordered(queue, [buffer], lambda: launch(queue, ONE, KERNELS["add_one"], buffer, n))

    @rule(a=number, b=number, c=number)
    def copy(self, a: int, b: int, c: int) -> None:
        queue, into, source = self.queue(c), self.pick(self.buffers, a), self.pick(self.buffers, b)
        self.ordered(queue, [into, source], lambda: into.copy_from(source, stream=queue))

    @rule(a=number, b=number)
    def fill(self, a: int, b: int) -> None:
        queue, buffer = self.queue(b), self.pick(self.buffers, a)
        self.ordered(queue, [buffer], lambda: buffer.fill(b, stream=queue))

    @rule(a=number, b=number)
    def copy_back(self, a: int, b: int) -> None:
        queue, buffer = self.pick(self.streams, b), self.pick(self.buffers, a)
        self.ordered(queue, [buffer], lambda: buffer.copy_to(bytearray(buffer.size), stream=queue))

    @rule(n=number)
    def record(self, n: int) -> None:
        self.add(self.events, lambda: self.pick(self.streams, n).record())

    @rule(a=number, b=number)
    def wait(self, a: int, b: int) -> None:
        self.attempt(lambda: self.pick(self.streams, a).wait(self.pick(self.events + self.streams, b)))

    @rule(n=number)
    def sync(self, n: int) -> None:
        self.attempt(lambda: self.pick(self.streams + self.events, n).sync())

    @rule(n=number, mode=st.sampled_from(["global", "thread_local", "relaxed"]))
    def begin(self, n: int, mode: str) -> None:
        if len(self.builders) < 8:
            self.add(self.builders, lambda: self.pick(self.streams, n).create_graph_builder().begin_building(mode=mode))

    @rule(n=number)
    def split(self, n: int) -> None:
        made = self.attempt(lambda: self.pick(self.builders, n).split(2))
        if made:
            self.builders.append(made[1])

    @rule(a=number, b=number)
    def join(self, a: int, b: int) -> None:
        first = self.pick(self.builders, a)
        self.attempt(lambda: type(first).join(first, self.pick(self.builders, b)))

    @rule(n=number)
    def callback(self, n: int) -> None:
        self.attempt(lambda: self.pick(self.builders, n).callback(lambda: n))

    @rule(n=number)
    def end(self, n: int) -> None:
        self.attempt(lambda: self.pick(self.builders, n).end_building())

    @rule(n=number)
    def complete(self, n: int) -> None:
        self.add(self.graphs, lambda: self.pick(self.builders + self.definitions, n).complete())

    @rule(b=number)
    def define(self, b: int) -> None:
        def make() -> Any:
            definition = GraphDefinition()
            buffer = self.pick(self.buffers, b)
            home = self.homes[id(buffer)] if buffer is not None and buffer.size >= 128 else None
            stream = home.queue() if home and not home.capture else None
            if isinstance(stream, Stream) and not stream.is_closed and not capture_of(stream):
                stream.sync()  # the memory is valid wherever the graph is launched
                definition.launch(ONE, KERNELS["add_one"], buffer, 32)
                self.used.append(buffer)
            self.add(self.graphs, definition.instantiate)
            return definition

        self.add(self.definitions, make)

    @rule(a=number, b=number)
    def launch_graph(self, a: int, b: int) -> None:
        self.attempt(lambda: self.pick(self.graphs, a).launch(self.queue(b)))

    @rule(a=number, b=number)
    def embed(self, a: int, b: int) -> None:
        self.attempt(lambda: self.pick(self.builders, a).embed(self.pick(self.builders + self.definitions, b)))

    @rule(kind=st.sampled_from(["streams", "buffers", "events", "builders", "graphs"]), n=number)
    def close(self, kind: str, n: int) -> None:
        thing = self.pick(getattr(self, kind), n)
        if thing is not None and not any(thing is buffer for buffer in self.used):
            self.attempt(thing.close)
            self.attempt(thing.close)

    @rule(kind=st.sampled_from(["streams", "buffers", "events", "builders", "graphs", "definitions"]), n=number)
    def forget(self, kind: str, n: int) -> None:
        things = getattr(self, kind)
        if things:
            del things[n % len(things)]

    @rule()
    def collect(self) -> None:
        gc.collect()

    def teardown(self) -> None:
        for builder in self.builders:  # ends all captures, which forbid some calls
            self.attempt(builder.close)
        for things in (
            self.streams,
            self.buffers,
            self.events,
            self.builders,
            self.graphs,
            self.pools,
            self.definitions,
        ):
            things.clear()
        self.homes.clear()
        self.used.clear()
        gc.collect()
        stream = self.device.create_stream()
        launch(stream, ONE, KERNELS["nothing"])
        stream.sync()


@pytest.mark.promise("Every object may be closed twice, in any order, from any thread, with no context current")
def test_random_programs_raise_only_exceptions(kernel):
    KERNELS.update(add_one=kernel("add_one"), nothing=kernel("nothing"))
    is_long = os.environ.get("CUCORE_LONG") == "1"
    run_state_machine_as_test(
        Objects,
        settings=settings(
            max_examples=3000 if is_long else 40,
            derandomize=not is_long,  # the same programs in every run, so that failures are reproducible
            stateful_step_count=60,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
