"""Objects that live until the interpreter ends are let go by then: nanobind counts none as leaked."""

import os
import subprocess
import sys
import sysconfig
import textwrap

import pytest

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

    @functools.lru_cache  # goes after the modules have been taken apart
    def code():
        source = 'extern "C" __global__ void f(int* p) { *p += 1; }'
        return Program(source, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("ptx")

    kernel = code().get_kernel("f")
    attributes, occupancy = kernel.attributes, kernel.occupancy
    buffers = [resource.allocate(64, stream=stream) for resource in (
        DeviceMemoryResource(0), PinnedMemoryResource(), device.memory_resource)]
    stream.sync()
    view = StridedMemoryView.from_any_interface(buffers[1], stream_ptr=-1)
    launch(stream, one, kernel, buffers[0])
    definition = GraphDefinition()
    # A function written here would hold this module, graph and all, through the driver: close such a graph.
    node = definition.launch(one, kernel, buffers[0]).callback({}.clear)
    graph = definition.instantiate()
    graph[node].update([].clear)
    closed = GraphDefinition()
    closed.callback(lambda: graph)
    closed = closed.instantiate()
    closed.launch(stream)
    stream.sync()
    closed.close()
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


@pytest.mark.parametrize(
    "ending",
    ["pass", "del stream, device, graph, definition, node", "raise SystemExit(0)", "launch(stream, one, kernel, buffers[0])"],
    ids=["as it is", "out of order", "by an exception", "with work in flight"],
)  # fmt: skip
def test_nothing_is_leaked_at_exit(ending):
    code = textwrap.dedent(PROGRAM).replace("{ending}", ending)
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=False, env={**os.environ, "CUCORE_LEAK_WARNINGS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "leaked" not in done.stderr, done.stderr


@pytest.mark.skipif(bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="nanobind counts no leaks without a GIL")
def test_a_leak_would_be_reported():
    code = "import ctypes; from cuda.core import LaunchConfig; c = LaunchConfig(grid=1, block=1); ctypes.pythonapi.Py_IncRef(ctypes.py_object(c))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=False, env={**os.environ, "CUCORE_LEAK_WARNINGS": "1"},
    )  # fmt: skip
    assert "leaked" in done.stderr
