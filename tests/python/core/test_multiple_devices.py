# SPDX-License-Identifier: Apache-2.0
"""Several devices: objects belong to the device that creates them, and calls do not change the current device."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.cpu_only  # the CPU device can be configured with four devices

PRELUDE = """
    import ctypes, gc, pickle, threading
    from cuda.core import *
    from cuda.core.graph import GraphDefinition
    from cuda.core.texture import *
    from cuda.bindings import driver
    devices = Device.get_all_devices()
    assert [d.device_id for d in devices] == [0, 1, 2, 3]
    for d in devices:
        d.set_current()
    home = devices[0]
    home.set_current()
    other = devices[2]
    SOURCE = 'extern "C" __global__ void put(int* p, int n) { *p = n; }'
    code = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{home.arch}")).compile("cubin")
    def still_home():
        assert Device().device_id == 0, Device()
        assert int(driver.cuCtxGetCurrent()[1]) == int(home.context.handle)
"""


def run(program: str) -> None:
    text = textwrap.dedent(PRELUDE) + textwrap.dedent(program)
    environment = os.environ | {"CUCORE_CPU_DEVICES": "4", "CUCORE_DEVICE": "cpu"}
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr


MADE = {
    "stream": "s = other.create_stream(); assert s.device == other and s.context == other.context; s.sync(); s.close()",
    "default stream": "other.default_stream.sync()",
    "event": "e = other.create_event(); assert e.device == other; other.create_stream().record(e); e.sync()",
    "graph builder": (
        "b = other.create_graph_builder().begin_building(); launch(b, LaunchConfig(grid=1, block=1), "
        "code.get_kernel('put'), other.allocate(4, stream=b), 1); g = b.end_building().complete(); "
        "s = other.create_stream(); g.launch(s); s.sync()"
    ),
    "allocation": (
        "s = other.create_stream(); b = other.allocate(64, stream=s); assert b.device_id == 2; b.fill(1, stream=s); "
        "c = b.copy_to(stream=s); assert c.device_id == 2; b.close(); c.close(); s.sync()"
    ),
    "memory resource": (
        "r = other.memory_resource; assert r.device_id == 2 and r is other.memory_resource is not home.memory_resource"
    ),
    "pool": (
        "r = DeviceMemoryResource(other, DeviceMemoryResourceOptions(max_size=1 << 20)); s = other.create_stream(); "
        "b = r.allocate(64, stream=s); assert b.device_id == 2; b.close(); r.close()"
    ),
    "virtual memory": "b = VirtualMemoryResource(other).allocate(64); assert b.device_id == 2; b.close()",
    "sync": "other.sync()",
    "properties": "assert other.properties.warp_size == 32 and other.compute_capability == home.compute_capability",
    "names": "assert other.uuid != home.uuid and other.pci_bus_id != home.pci_bus_id and other.name == home.name",
    "system": "assert other.to_system_device().index == 2",
    "resources": "assert other.resources.sm.sm_count >= 1",
    "green context": (
        "c = other.create_context(ContextOptions(resources=other.resources.sm)); s = c.create_stream(); "
        "assert s.device == other; s.sync(); s.close(); c.close()"
    ),
    "array": (
        "a = other.create_opaque_array(OpaqueArrayOptions((4,), 'float32', 1)); s = other.create_stream(); "
        "a.copy_from(bytes(16), stream=s); assert a.device == other; a.close()"
    ),
    "texture": (
        "a = other.create_opaque_array(OpaqueArrayOptions((4,), 'float32', 1)); "
        "t = other.create_texture_object(resource=ResourceDescriptor.from_opaque_array(a)); assert t.device == other; t.close()"
    ),
    "peers": "assert other.can_access_peer(home) and other.can_access_peer(other)",
    "pickle": "assert pickle.loads(pickle.dumps(other)) is other",
}


@pytest.mark.parametrize("what", MADE)
def test_object_belongs_to_its_device_and_the_current_device_is_unchanged(what: str) -> None:
    run(f"{MADE[what]}\nstill_home()")


def test_launch_runs_on_the_device_of_its_stream() -> None:
    run("""
    kernel = code.get_kernel("put")
    config = LaunchConfig(grid=1, block=1)
    streams = [d.create_stream() for d in devices]
    buffers = [d.allocate(4, stream=s) for d, s in zip(devices, streams)]
    for n, (s, b) in enumerate(zip(streams, buffers)):
        launch(s, config, kernel, b, 10 + n)
        still_home()
    for n, (s, b) in enumerate(zip(streams, buffers)):
        back = ctypes.c_int()
        b.copy_to(back, stream=s)
        s.sync()
        assert back.value == 10 + n
        still_home()
    """)


def test_current_device_is_per_thread() -> None:
    run("""
    seen = {}
    def work(n):
        assert Device().device_id == 0  # what no thread has chosen
        Device(n).set_current()
        seen[n] = (Device().device_id, Device(n) is Device(n), Device(n))
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads: t.start()
    for t in threads: t.join()
    assert all(seen[n][:2] == (n, True) for n in range(4))
    assert seen[2][2] == other and hash(seen[2][2]) == hash(other)  # equal across threads
    still_home()
    """)


def test_objects_are_closed_on_their_device() -> None:
    """Streams, events, buffers and graphs of another device are closed while this one is current."""
    run("""
    s = other.create_stream()
    things = [s.record(), other.allocate(64, stream=s), GraphDefinition(), other.create_context(
        ContextOptions(resources=other.resources.sm))]
    s.sync()
    del things
    gc.collect()
    s.close()
    still_home()
    """)


def test_copy_between_devices_preserves_bytes() -> None:
    run("""
    a_stream, b_stream = home.create_stream(), other.create_stream()
    a, b = home.allocate(64, stream=a_stream), other.allocate(64, stream=b_stream)
    a.fill(7, stream=a_stream)
    b_stream.wait(a_stream)
    b.copy_from(a, stream=b_stream)
    back = bytearray(64)
    b.copy_to(back, stream=b_stream)
    b_stream.sync()
    assert back == bytes([7]) * 64
    still_home()
    """)


def test_subtraction_of_events_of_two_devices_raises() -> None:
    run("""
    options = EventOptions(timing_enabled=True)
    a, b = home.create_stream().record(options=options), other.create_stream().record(options=options)
    a.sync(); b.sync()
    try:
        b - a
    except (RuntimeError, CUDAError) as error:
        assert "device" in str(error) or "context" in str(error), error
    else:
        raise AssertionError("they were")
    """)
