# SPDX-License-Identifier: Apache-2.0
"""Objects that are alive at exit are freed before nanobind reports leaks."""

import gc
import os
import subprocess
import sys
import sysconfig
import textwrap
import weakref

import pytest
from cuda.core import Buffer, LegacyPinnedMemoryResource, MemoryResource

PROGRAM = """
    import functools, threading
    from cuda.core import (
        Device, DeviceMemoryResource, LaunchConfig, PinnedMemoryResource, Program, ProgramOptions, launch,
    )
    from cuda.core.graph import GraphDefinition
    from cuda.core.utils import StridedMemoryView

    device = Device()
    device.set_current()
    stream = device.create_stream()
    event = stream.record()
    other = device.create_event()
    one = LaunchConfig(grid=1, block=1)

    @functools.lru_cache  # destroyed after the modules have been cleared
    def code():
        source = 'extern "C" __global__ void f(int* p) { *p += 1; }'
        return Program(source, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("ptx")

    kernel = code().get_kernel("f")
    attributes, occupancy = kernel.attributes, kernel.occupancy
    buffers = [resource.allocate(64, stream=stream) for resource in (
        DeviceMemoryResource(0), PinnedMemoryResource(), device.memory_resource)]
    buffers[0].fill(0, stream=stream)
    stream.sync()
    view = StridedMemoryView.from_any_interface(buffers[1], stream_ptr=-1)
    launch(stream, one, kernel, buffers[0])
    definition = GraphDefinition()
    node = definition.launch(one, kernel, buffers[0]).callback({}.clear)
    graph = definition.instantiate()
    graph[node].update([].clear)
    graph.launch(stream)
    builder = stream.create_graph_builder()
    captured = device.create_graph_builder().begin_building()
    launch(captured, one, kernel, buffers[0])
    captured.end_building()
    class Holder: pass
    holder = Holder()
    holder.everything = [holder, graph, buffers, stream, device.properties, device.context]
    thread_local = threading.local()
    thread_local.device = Device(0)
    def work():
        Device(0).set_current()
        kept.append(Device(0).create_stream())
    kept = []
    thread = threading.Thread(target=work); thread.start(); thread.join()
    stream.sync()
    {ending}
"""


def ended(code: str) -> subprocess.CompletedProcess[str]:
    """Runs a program and returns the result with nanobind's leak report."""
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=False, env={**os.environ, "CUCORE_LEAK_WARNINGS": "1"},
    )  # fmt: skip


def ends_without_a_leak(code: str) -> None:
    done = ended(code)
    assert done.returncode == 0, done.stderr
    assert "leaked" not in done.stderr, done.stderr


@pytest.mark.parametrize(
    "ending",
    ["pass", "del stream, device, graph, definition, node", "raise SystemExit(0)", "launch(stream, one, kernel, buffers[0])"],
    ids=["as it is", "out of order", "by an exception", "with work in flight"],
)  # fmt: skip
def test_no_objects_leak_at_exit(ending):
    code = textwrap.dedent(PROGRAM).replace("{ending}", ending)
    ends_without_a_leak(code)


HELD = """
    import sys
    from cuda.core import Buffer, Device, LegacyPinnedMemoryResource, MemoryResource
    from cuda.core.graph import GraphDefinition
    from cuda.core.utils import StridedMemoryView
    import numpy

    device = Device()
    device.set_current()
    stream = device.create_stream()
    pinned = LegacyPinnedMemoryResource().allocate(64)
    class Foreign:
        def __cuda_stream__(self): return 0, int(stream.handle)
    class Array:
        array = numpy.zeros(4)
        def __dlpack__(self, **options): return self.array.__dlpack__(**options)
        def __dlpack_device__(self): return self.array.__dlpack_device__()
    class Resource(MemoryResource):
        is_device_accessible = is_host_accessible = True
        device_id = 0
        def allocate(self, size, *, stream=None): return Buffer.from_handle(pinned.handle, size, mr=self)
        def deallocate(self, pointer, size, *, stream=None): pass
    def function(): return stream
    def captured():
        builder = device.create_graph_builder().begin_building()
        builder.callback(function)
        graph = builder.end_building().complete()
        builder.close()
        return graph
    def defined(): return GraphDefinition().callback(function)
"""
HOLDERS = {
    "foreign stream": "device.create_stream(Foreign())",
    "buffer with an owner": "Buffer.from_handle(pinned.handle, 64, owner=Foreign())",
    "buffer of a resource": "Resource().allocate(64)",
    "resource of the device": "setattr(device, 'memory_resource', Resource())",
    "captured graph": "captured()",
    "definition": "defined()",
    "graph": "(nodes := defined()) and nodes.graph.instantiate()",
    "view": "StridedMemoryView.from_any_interface(Array(), stream_ptr=-1)",
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_objects_of_the_main_module_do_not_leak_at_exit(holder):
    """A class or function of the main module references all its globals, which form a reference cycle."""
    code = textwrap.dedent(HELD) + "held = " + HOLDERS[holder]
    ends_without_a_leak(code)


def collected(reference: weakref.ref) -> bool:
    for _ in range(3):
        gc.collect()
    return reference() is None


def test_owner_that_references_its_buffer_is_collected(device, stream):
    class Owner:
        def __init__(self) -> None:
            self.memory = device.allocate(64, stream=stream)
            self.buffer = Buffer.from_handle(self.memory.handle, 64, owner=self)

    owner = Owner()
    owner.buffer.fill(1, stream=stream)
    reference, memory = weakref.ref(owner), weakref.ref(owner.buffer)
    del owner
    assert collected(reference) and memory() is None


def test_memory_resource_that_references_its_buffers_is_collected(device, stream):
    given_back: list[int] = []

    class Cache(MemoryResource):
        is_device_accessible = is_host_accessible = True
        device_id = 0

        def __init__(self) -> None:
            self.inner, self.buffers = LegacyPinnedMemoryResource(), []

        def allocate(self, size, *, stream=None):
            memory = self.inner.allocate(size)
            self.buffers.append((memory, Buffer.from_handle(memory.handle, size, mr=self)))
            return self.buffers[-1][1]

        def deallocate(self, pointer, size, *, stream=None):
            given_back.append(size)

    cache = Cache()
    cache.allocate(64)
    cache.allocate(32)
    reference = weakref.ref(cache)
    del cache
    assert collected(reference)
    assert sorted(given_back) == [32, 64]


def test_callback_that_references_its_captured_graph_is_collected(device, stream):
    class Step:
        def done(self) -> None:
            pass

    step = Step()
    builder = device.create_graph_builder().begin_building()
    builder.callback(step.done)
    step.graph = builder.end_building().complete()
    builder.close()
    step.graph.launch(stream)
    stream.sync()
    reference = weakref.ref(step)
    del step, builder
    assert collected(reference)


@pytest.mark.skipif(bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="nanobind counts no leaks without a GIL")
def test_leaked_object_is_reported():
    code = "import ctypes; from cuda.core import LaunchConfig; c = LaunchConfig(grid=1, block=1); ctypes.pythonapi.Py_IncRef(ctypes.py_object(c))"
    done = ended(code)
    assert "leaked" in done.stderr
