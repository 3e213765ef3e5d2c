# SPDX-License-Identifier: Apache-2.0
"""Event: options, arithmetic, errors."""

import pickle

import pytest
from cuda.core import EventOptions


def test_both_option_spellings_are_accepted():
    assert EventOptions(enable_timing=True) == EventOptions(timing_enabled=True)
    assert EventOptions(timing_enabled=True).enable_timing is True
    assert EventOptions(busy_waited_sync=True).blocking_sync is True
    with pytest.raises(TypeError, match="colour"):
        EventOptions(colour=1)
    assert pickle.loads(pickle.dumps(EventOptions(True))) == EventOptions(True)


def test_elapsed_time_is_positive_and_a_float(device, stream):
    options = EventOptions(timing_enabled=True)
    start = stream.record(options=options)
    buffer = device.allocate(1 << 22, stream=stream)
    buffer.fill(3, stream=stream)
    end = stream.record(options={"timing_enabled": True})
    end.sync()
    assert isinstance(end - start, float) and end - start >= 0
    buffer.close(stream)


def test_subtraction_without_timing_or_record_raises(device, stream):
    timed = stream.record(options=EventOptions(timing_enabled=True))
    plain = stream.record()
    plain.sync()
    with pytest.raises(RuntimeError, match="timing_enabled"):
        timed - plain
    never = device.create_event(EventOptions(timing_enabled=True))
    with pytest.raises(RuntimeError, match="recorded"):
        never - timed
    with pytest.raises(TypeError):
        timed - 3


def test_record_into_an_event_returns_it(device, stream):
    event = device.create_event()
    assert stream.record(event) is event
    event.sync()
    assert event.is_done and event.device is device and event.context == device.context
    with pytest.raises(TypeError):
        stream.record(3)


def test_event_flags_are_returned(device):
    event = device.create_event(EventOptions(blocking_sync=True))
    assert event.is_blocking_sync and not event.is_timing_enabled and not event.is_ipc_enabled
    with pytest.raises(RuntimeError, match="ipc_enabled"):
        event.ipc_descriptor  # noqa: B018
    with pytest.raises(TypeError):
        device.create_event(EventOptions(timing_enabled=True, ipc_enabled=True))


def test_closed_event_raises(device, stream):
    event = stream.record()
    event.close()
    event.close()
    assert event.is_closed
    for call in (event.sync, lambda: event.is_done, lambda: stream.wait(event), lambda: stream.record(event)):
        with pytest.raises(RuntimeError, match="closed"):
            call()
