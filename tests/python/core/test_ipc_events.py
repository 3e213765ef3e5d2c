"""Events shared between processes: one records, the other waits."""

from __future__ import annotations

import multiprocessing
import pickle

import pytest
from cuda.core import Device, Event, EventOptions


def wait_for(connection):
    """Runs in another process: opens the event, reports that it waits, and then that the wait has ended."""
    device = Device(0)
    device.set_current()
    descriptor = connection.recv()
    event = Event.from_ipc_descriptor(descriptor)
    stream = device.create_stream()
    connection.send(("opened", event.is_ipc_enabled, event.is_timing_enabled))
    connection.recv()
    stream.wait(event)
    stream.sync()
    connection.send(("done", event.is_done))


def test_other_process_waits_for_an_event(device, stream):
    event = device.create_event(EventOptions(ipc_enabled=True))
    assert event.is_ipc_enabled
    descriptor = event.ipc_descriptor
    assert event.get_ipc_descriptor() == descriptor
    assert pickle.loads(pickle.dumps(descriptor)) == descriptor
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    other = context.Process(target=wait_for, args=(there,))
    other.start()
    try:
        here.send(descriptor)
        assert here.recv() == ("opened", True, False)
        stream.record(event)
        stream.sync()
        here.send("go")
        assert here.recv() == ("done", True)
    finally:
        other.join()
    assert other.exitcode == 0


def test_opening_anything_but_a_descriptor_raises(device):
    with pytest.raises(TypeError):
        Event.from_ipc_descriptor(b"no descriptor")
