# SPDX-License-Identifier: Apache-2.0
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


def test_an_event_is_waited_for_in_another_process(device, stream):
    gate = device.create_stream()
    event = gate.record(options=EventOptions(ipc_enabled=True, blocking_sync=True))
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
        gate.sync()
        here.send("go")
        assert here.recv() == ("done", True)
    finally:
        other.join()
    assert other.exitcode == 0


def receive(queue, answers):
    """In another process: takes an event from a queue."""
    Device(0).set_current()
    event = queue.get()
    event.sync()
    answers.put(
        (
            event.is_ipc_enabled,
            event.is_timing_enabled,
            event.is_blocking_sync,
            event.device,
            event.context,
            event.is_done,
        )
    )


def test_multiprocessing_sends_an_event(device, stream):
    context = multiprocessing.get_context("spawn")
    queue, answers = context.Queue(), context.Queue()
    other = context.Process(target=receive, args=(queue, answers))
    other.start()
    try:
        event = stream.record(options=EventOptions(ipc_enabled=True, blocking_sync=True))
        stream.sync()
        queue.put(event)
        assert answers.get(timeout=120) == (True, False, True, None, None, True)
    except BaseException:
        other.terminate()
        raise
    finally:
        other.join()
    again = pickle.loads(pickle.dumps(event.ipc_descriptor))
    assert again == event.ipc_descriptor


def test_an_event_that_is_not_for_others_is_not_sent(device, stream):
    from multiprocessing.reduction import ForkingPickler

    stream.record(options=EventOptions(ipc_enabled=True))  # from here on multiprocessing knows events
    with pytest.raises(TypeError, match="ipc_enabled"):
        ForkingPickler.dumps(stream.record())


def test_a_forked_child_is_warned_of_once(device, stream, monkeypatch):
    import warnings
    from multiprocessing.reduction import ForkingPickler

    from cuda.core import _ipc

    monkeypatch.setattr(_ipc, "_warned_of_fork", False)
    event = stream.record(options=EventOptions(ipc_enabled=True))
    monkeypatch.setattr(multiprocessing, "get_start_method", lambda allow_none=False: "spawn")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ForkingPickler.dumps(event)
    monkeypatch.setattr(multiprocessing, "get_start_method", lambda allow_none=False: "fork")
    with pytest.warns(UserWarning, match="spawn"):
        ForkingPickler.dumps(event)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ForkingPickler.dumps(event)


def test_a_descriptor_leaves_other_types_to_themselves(device, stream):
    descriptor = stream.record(options=EventOptions(ipc_enabled=True)).ipc_descriptor
    assert descriptor.__eq__(3) is NotImplemented and descriptor != 3

    class Equal:
        def __eq__(self, other):
            return True

    assert descriptor == Equal()


def test_only_descriptors_are_opened(device):
    with pytest.raises(TypeError):
        Event.from_ipc_descriptor(b"no descriptor")
