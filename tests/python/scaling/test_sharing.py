# SPDX-License-Identifier: Apache-2.0
"""Memory by reference between processes that are no children of each other."""

from __future__ import annotations

import gc
import os
import pickle
import socket
import subprocess
import sys

import pytest
from cuda.core import (
    Buffer,
    CUDAError,
    Device,
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    EventOptions,
    PinnedMemoryResource,
    PinnedMemoryResourceOptions,
    _exporter,
)

NOT_SUPPORTED = 801

ADD_ONE = """
from cuda.core import Device
def run(buffer):
    Device().set_current()
    stream = Device().create_stream()
    back = bytearray(buffer.size)
    buffer.copy_to(back, stream=stream)
    buffer.fill(back[0] + 1, stream=stream)
    stream.sync()
    return buffer.is_mapped, back[0]
"""
KEEP = """
def run(name, thing):
    kept[name] = thing
"""
CLOSE = """
def run(name):
    kept.pop(name).close()
"""


def shared_pool(device: Device) -> DeviceMemoryResource:
    try:
        return DeviceMemoryResource(device, DeviceMemoryResourceOptions(ipc_enabled=True))
    except CUDAError as error:
        if error.code != NOT_SUPPORTED:
            raise
        pytest.skip(str(error))


def content(buffer: Buffer, stream) -> bytes:
    back = bytearray(buffer.size)
    buffer.copy_to(back, stream=stream)
    stream.sync()
    return bytes(back)


def filled(pool, stream, value: int, size: int = 4096) -> Buffer:
    buffer = pool.allocate(size, stream=stream)
    buffer.fill(value, stream=stream)
    stream.sync()
    return buffer


def test_stranger_writes_to_a_shared_buffer(device, stream, stranger):
    buffer = filled(shared_pool(device), stream, 5)
    assert stranger()(ADD_ONE, buffer) == (True, 5)
    assert set(content(buffer, stream)) == {6}


def test_one_pickle_opens_in_many_processes_and_many_times(device, stream, stranger):
    buffer = filled(shared_pool(device), stream, 1)
    first, second = stranger(), stranger()
    for step, process in enumerate((first, second, first, second), 1):
        assert process(ADD_ONE, buffer) == (True, step)


def test_buffers_of_one_pool_share_one_file_descriptor(device, stream, stranger):
    count = "import os\ndef run(*things):\n    return len(os.listdir('/proc/self/fd'))"
    pool = shared_pool(device)
    buffers = [filled(pool, stream, 1) for _ in range(20)]
    process = stranger()
    process(KEEP, "first", buffers[0])
    before = process(count)
    process(KEEP, "others", buffers)
    assert process(count) == before


def test_pinned_pool_is_shared(device, stream, stranger):
    try:
        pool = PinnedMemoryResource(PinnedMemoryResourceOptions(ipc_enabled=True))
    except CUDAError as error:
        if error.code != NOT_SUPPORTED:
            raise
        pytest.skip(str(error))
    buffer = filled(pool, stream, 7)
    assert stranger()(ADD_ONE, buffer) == (True, 7)
    assert set(memoryview(buffer)) == {8}


def test_importer_forwards_a_buffer_to_a_third_process(device, stream, stranger):
    buffer = filled(shared_pool(device), stream, 3)
    first, second = stranger(), stranger()
    first(KEEP, "it", buffer)
    forwarded = first(
        "import pickle\ndef run():\n    return pickle.dumps(kept['it'])",
    )
    assert second(
        "import pickle\n" + ADD_ONE.replace("run(buffer):", "run(text):\n    buffer = pickle.loads(text)"), forwarded
    ) == (True, 3)
    assert set(content(buffer, stream)) == {4}


def test_pickle_loaded_in_its_own_process_is_the_same_memory(device, stream):
    buffer = filled(shared_pool(device), stream, 9)
    again = pickle.loads(pickle.dumps(buffer))
    assert again.handle == buffer.handle and again.size == buffer.size
    buffer.close()
    assert set(content(again, stream)) == {9}  # still held


def test_buffer_that_came_home_is_sent_on_by_reference(device, stream, stranger):
    """Dask's scheduler loads what a client sends, in the client's process perhaps, and sends it on."""
    buffer = filled(shared_pool(device), stream, 2)
    assert stranger()(ADD_ONE, pickle.loads(pickle.dumps(buffer))) == (True, 2)
    assert set(content(buffer, stream)) == {3}


def test_memory_stays_until_the_importer_closes_it(device, stream, stranger):
    pool = shared_pool(device)
    buffer = filled(pool, stream, 4, 1 << 20)
    process = stranger()
    process(KEEP, "it", buffer)
    buffer.close(stream)
    stream.sync()
    assert pool.attributes.used_mem_current >= 1 << 20
    other = filled(pool, stream, 8, 1 << 20)  # must not get the memory that is still open elsewhere
    read = "def run():\n    from cuda.core import Device\n    Device().set_current()\n    s = Device().create_stream()\n    b = bytearray(kept['it'].size)\n    kept['it'].copy_to(b, stream=s)\n    return set(b)"
    assert process(read) == {4}
    process(CLOSE, "it")
    other.close(stream)
    wait_until(lambda: pool.attributes.used_mem_current == 0)


def wait_until(condition) -> None:
    """The exporter's thread takes memory back when it gets round to it."""
    import time

    while not condition():
        gc.collect()
        time.sleep(0.01)


def test_killed_importer_gives_the_memory_back(device, stream, stranger):
    pool = shared_pool(device)
    buffer = filled(pool, stream, 4, 1 << 20)
    process = stranger()
    process(KEEP, "it", buffer)
    buffer.close(stream)
    stream.sync()
    assert pool.attributes.used_mem_current >= 1 << 20
    process.process.kill()
    process.process.wait()
    wait_until(lambda: pool.attributes.used_mem_current == 0)


def test_buffer_closed_before_it_is_opened_raises(device, stream, stranger):
    pool = shared_pool(device)
    buffer = filled(pool, stream, 4)
    load = "import pickle\ndef run(text):\n    pickle.loads(text)"
    text = pickle.dumps(buffer)
    buffer.close(stream)
    stream.sync()
    replacement = filled(pool, stream, 5)  # the same place in the pool
    with pytest.raises(RuntimeError, match="closed before it was opened"):
        stranger()(load, text)
    with pytest.raises(RuntimeError, match="closed before"):
        pickle.loads(text)
    replacement.close(stream)


def test_buffer_of_a_dead_process_raises(device, stream, stranger):
    make = """
import pickle
from cuda.core import Device, DeviceMemoryResource, DeviceMemoryResourceOptions
def run():
    Device().set_current()
    kept["pool"] = DeviceMemoryResource(Device(), DeviceMemoryResourceOptions(ipc_enabled=True))
    kept["it"] = kept["pool"].allocate(64, stream=Device().create_stream())
    return pickle.dumps(kept["it"])
"""
    shared_pool(device)
    process = stranger()
    text = process(make)
    process.close()
    with pytest.raises(RuntimeError, match=r"cannot be reached.*by value"):
        pickle.loads(text)


def test_buffer_of_a_device_that_is_not_visible_raises(many_devices, stranger):
    if os.environ.get("CUCORE_DEVICE") == "gpu":
        pytest.skip("needs CPU devices")
    make = """
import pickle
from cuda.core import Device, DeviceMemoryResource, DeviceMemoryResourceOptions
def run():
    Device(2).set_current()
    kept["pool"] = DeviceMemoryResource(Device(2), DeviceMemoryResourceOptions(ipc_enabled=True))
    kept["it"] = kept["pool"].allocate(64, stream=Device(2).create_stream())
    return pickle.dumps(kept["it"])
"""
    where = "import pickle\ndef run(text):\n    kept['it'] = pickle.loads(text)\n    return kept['it'].device_id"
    text = stranger()(make)
    assert stranger(CUDA_VISIBLE_DEVICES="3,2")(where, text) == 1  # the same device under another number
    with pytest.raises(RuntimeError, match=r"does not see.*CUDA_VISIBLE_DEVICES"):
        stranger(CUDA_VISIBLE_DEVICES="0,1")(where, text)


def test_exporter_answers_only_with_its_key(device, stream, stranger):
    buffer = filled(shared_pool(device), stream, 4)
    pickle.dumps(buffer)
    exporter = _exporter._mine
    assert exporter is not None
    for message in (b"", b"\0" * 32, exporter.key[:-1], exporter.key + b"\0", b"P" + bytes(16)):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
            link.connect(b"\0" + exporter.name)
            if message:
                link.send(message)
                assert link.recv(64) == b"-"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
        link.connect(b"\0" + exporter.name)
        link.send(exporter.key)
        assert link.recv(64) == b"+"
        link.send(b"B" + (2**63).to_bytes(8, "little"))
        assert link.recv(64) == b"-"
        link.send(b"P" + bytes(16))
        assert link.recv(64) == b"-"
    assert stranger()(ADD_ONE, buffer) == (True, 4)  # it still answers


def test_event_reaches_a_stranger(device, stream, stranger):
    try:
        event = stream.record(options=EventOptions(ipc_enabled=True))
    except CUDAError as error:
        if error.code != NOT_SUPPORTED:
            raise
        pytest.skip(str(error))
    assert stranger()("def run(event):\n    event.sync()\n    return event.is_done", event) is True
    with pytest.raises(TypeError, match="ipc_enabled=True"):
        pickle.dumps(device.create_event())


def test_forked_child_that_ends_leaves_the_exporter_alone(device, stream, stranger):
    buffer = filled(shared_pool(device), stream, 4)
    process = stranger()
    assert process(ADD_ONE, buffer) == (True, 4)
    child = os.fork()
    if child == 0:
        _exporter._end()  # what the end of an interpreter calls
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert process(ADD_ONE, buffer) == (True, 5) and stranger()(ADD_ONE, buffer) == (True, 6)


def test_process_with_open_buffers_ends_without_leaks(stranger):
    """Neither side closes anything before its interpreter ends."""
    source = """
import pickle, subprocess, sys
from cuda.core import Device, DeviceMemoryResource, DeviceMemoryResourceOptions
device = Device(0)
device.set_current()
pool = DeviceMemoryResource(device, DeviceMemoryResourceOptions(ipc_enabled=True))
buffer = pool.allocate(64, stream=device.create_stream())
other = "import pickle, sys; b = pickle.loads(bytes.fromhex(sys.argv[1])); print(b.size, flush=True); sys.stdin.read()"
child = subprocess.Popen([sys.executable, "-c", other, pickle.dumps(buffer).hex()], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
assert child.stdout.readline() == b"64\\n"
home = pickle.loads(pickle.dumps(buffer))
if len(sys.argv) > 1:
    child.stdin.close()
    assert child.wait() == 0
"""
    for order in ([], ["child first"]):
        done = subprocess.run(
            [sys.executable, "-c", source, *order],
            env=os.environ | {"CUCORE_LEAK_WARNINGS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0 and "leaked" not in done.stderr, done.stderr
