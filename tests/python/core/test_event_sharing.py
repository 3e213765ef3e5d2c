"""Events between processes: one records, the other waits."""

from __future__ import annotations

import multiprocessing
import pickle

import pytest
from cuda.core import Device, Event, EventOptions


def wait_for(connection):
    """In another process: opens the event, tells that it waits, and then that it is over."""
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


def test_an_event_is_waited_for_in_another_process(device, stream):
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


def test_only_descriptors_are_opened(device):
    with pytest.raises(TypeError):
        Event.from_ipc_descriptor(b"no descriptor")
