# SPDX-License-Identifier: Apache-2.0
"""Host callbacks that raise, call the API, are slow, or run after their graph is closed."""

import gc
import sys
import threading

import pytest
from cuda.bindings import driver, runtime
from cuda.core import (
    CUDAError,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    ObjectCode,
    VirtualMemoryResource,
    launch,
    texture,
)
from cuda.core.graph import GraphDefinition

ONE = LaunchConfig(grid=1, block=1)
PTX = b".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry k() { ret; }\n"


def graph_of(device, *functions):
    builder = device.create_graph_builder().begin_building()
    for function in functions:
        builder.callback(function)
    return builder.end_building().complete()


@pytest.mark.cpu_only  # NVIDIA's driver may hang here, which the promise excludes
@pytest.mark.promise("An API call in a host callback is an error, and nothing hangs")
def test_api_call_in_a_callback_is_not_permitted(device, kernel):
    stream, other = device.create_stream(), device.create_stream()
    buffer = device.allocate(64, stream=stream)
    nothing = kernel("nothing")
    said = {}
    calls = {
        "launch": lambda: launch(other, ONE, nothing),
        "sync itself": lambda: stream.sync(),
        "sync another": lambda: other.sync(),
        "device sync": lambda: device.sync(),
        "allocate": lambda: device.allocate(64, stream=other),
        "copy": lambda: buffer.copy_to(bytearray(64), stream=other),
        "free": lambda: buffer.close(),
        "new stream": lambda: device.create_stream(),
        "event": lambda: other.record(),
    }

    def callback():
        for name, call in calls.items():
            try:
                call()
            except CUDAError as error:
                said[name] = error.code

    graph_of(device, callback).launch(stream)
    stream.sync()
    assert said == dict.fromkeys(calls, 800)
    launch(stream, ONE, nothing)
    stream.sync()


@pytest.mark.promise("An exception in a callback is reported, and later work continues")
@pytest.mark.parametrize("raised", [ValueError("mine"), KeyboardInterrupt(), SystemExit(3)], ids=repr)
def test_exception_in_a_callback_is_reported_and_later_work_runs(device, kernel, raised, monkeypatch):
    stream, seen, after = device.create_stream(), [], []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: seen.append(args.exc_value))

    def fails():
        raise raised

    graph_of(device, fails, lambda: after.append(1)).launch(stream)
    stream.sync()
    assert seen == [raised] and after == [1]
    launch(stream, ONE, kernel("nothing"))
    stream.sync()


@pytest.mark.promise("A slow callback delays its own stream only")
def test_slow_callback_delays_only_its_stream(device, kernel):
    """While a callback waits for the host, other streams and other Python threads run."""
    gate, ran = threading.Event(), []
    streams = [device.create_stream() for _ in range(6)]
    slow = [graph_of(device, lambda: ran.append(gate.wait())) for _ in streams]
    for stream, graph in zip(streams, slow, strict=True):
        graph.launch(stream)
    free = device.create_stream()
    for _ in range(20):
        launch(free, ONE, kernel("nothing"))
    free.sync()  # the gate is still shut
    assert ran == []
    gate.set()
    for stream in streams:
        stream.sync()
    assert ran == [True] * 6


@pytest.mark.promise("A slow callback delays its own stream only")
@pytest.mark.parametrize(
    "how",
    [
        "close legacy pinned",
        "forget legacy pinned",
        "close virtual",
        "device sync",
        "event sync",
        "copy back",
        "driver sync",
        "close graph",
        "forget kernel",
        "unload module",
        "close array",
        "free",
    ],
)
def test_waiting_for_a_callback_does_not_deadlock(device, how):
    """A thread that waits for work holds no lock that the callbacks of that work need."""
    stream, ran = device.create_stream(), []
    pinned = LegacyPinnedMemoryResource().allocate(64, stream=stream)
    buffer = device.allocate(64, stream=stream)
    virtual = VirtualMemoryResource(device).allocate(64)
    kernel = ObjectCode.from_ptx(PTX).get_kernel("k")
    module, plain = driver.cuModuleLoadData(PTX + b"\0")[1], driver.cuMemAlloc(64)[1]
    array = device.create_opaque_array(texture.OpaqueArrayOptions((4, 2), "float32", 1))
    launch(stream, ONE, kernel)  # loads the code, which is unloaded later
    graph = graph_of(device, *[lambda: ran.append(sum(range(1000)))] * 30)
    graph.launch(stream)
    if how == "close legacy pinned":
        pinned.close(stream)
    elif how == "forget legacy pinned":
        del pinned
        gc.collect()
    elif how == "close virtual":
        virtual.close()
    elif how == "device sync":
        device.sync()
    elif how == "event sync":
        stream.record().sync()
    elif how == "copy back":
        buffer.copy_to(bytearray(64), stream=stream)
    elif how == "driver sync":
        driver.cuStreamSynchronize(stream.handle)
    elif how == "forget kernel":
        del kernel
        gc.collect()
    elif how == "unload module":
        driver.cuModuleUnload(module)
    elif how == "close array":
        array.close()
    elif how == "free":
        driver.cuMemFree(plain)
    else:
        graph.close()
    stream.sync()
    assert len(ran) == 30


@pytest.mark.promise("An exception in a callback is reported, and later work continues")
def test_callbacks_run_after_their_graph_is_closed(device):
    stream, ran = device.create_stream(), []
    for _ in range(20):
        graph = graph_of(device, *[lambda: ran.append(1)] * 20)
        graph.launch(stream)
        graph.close()
        del graph
    gc.collect()
    stream.sync()
    assert len(ran) == 400


@pytest.mark.parametrize("bad", [None, 3, "x", b"", object()], ids=repr)
def test_callback_that_is_not_callable_raises(device, bad):
    builder = device.create_graph_builder().begin_building()
    with pytest.raises((TypeError, ValueError)):
        builder.callback(bad)
    builder.close()


@pytest.mark.promise("An API call in a host callback is an error, and nothing hangs")
@pytest.mark.parametrize("how", ["graph", "launch", "stream callback", "host node"])
def test_waiting_in_a_callback_is_not_permitted_and_the_error_explains_why(device, how):
    """Also on a GPU, where the driver itself would deadlock."""
    stream, other = device.create_stream(), device.create_stream()
    event, said, codes = other.record(), {}, {}
    waits = {
        "stream": stream.sync, "another stream": other.sync, "event": event.sync, "device": device.sync,
    }  # fmt: skip
    calls = {
        "cuStreamSynchronize": lambda: driver.cuStreamSynchronize(stream.handle)[0],
        "cuCtxSynchronize": lambda: driver.cuCtxSynchronize()[0],
        "cuEventSynchronize": lambda: driver.cuEventSynchronize(event.handle)[0],
        "cudaDeviceSynchronize": lambda: runtime.cudaDeviceSynchronize()[0],
        "cudaStreamSynchronize": lambda: runtime.cudaStreamSynchronize(int(stream.handle))[0],
    }

    def callback(*_):
        for name, wait in waits.items():
            try:
                wait()
            except CUDAError as error:
                said[name] = error
        codes.update({name: int(call()) for name, call in calls.items()})

    if how == "graph":
        graph_of(device, callback).launch(stream)
    elif how == "launch":
        driver.cuLaunchHostFunc(stream.handle, callback, None)
    elif how == "stream callback":
        driver.cuStreamAddCallback(stream.handle, callback, None, 0)
    else:
        definition = GraphDefinition()
        definition.callback(callback)
        definition.instantiate().launch(stream)
    stream.sync()
    assert codes == dict.fromkeys(calls, 800)
    assert {name: error.code for name, error in said.items()} == dict.fromkeys(waits, 800)
    assert all("a host function of a stream or a graph" in str(error) for error in said.values())
    for wait in waits.values():  # this thread may wait
        wait()
