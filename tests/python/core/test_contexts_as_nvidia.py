# SPDX-License-Identifier: Apache-2.0
"""Contexts, streams and events where NVIDIA's package refuses: current green contexts, dry runs, events for others."""

import warnings

import pytest
from cuda.core import (
    Context,
    ContextOptions,
    Device,
    EventOptions,
    SMResourceOptions,
    StreamOptions,
    WorkqueueResourceOptions,
    checkpoint,
)


@pytest.fixture
def green(device):
    try:
        made = device.create_context(ContextOptions(resources=[device.resources.sm]))
    except Exception as error:  # an older driver
        pytest.skip(f"no green contexts here: {error}")
    yield made
    device.set_current()
    made.close()


def test_set_current_gives_back_the_very_object_that_was_current(device, green):
    before = device.context
    assert device.set_current(green) == before
    assert device.set_current(before) is green
    assert device.set_current(green) is before
    device.set_current()


def test_a_current_green_context_cannot_be_closed(device, green):
    before = device.context
    device.set_current(green)
    with pytest.raises(RuntimeError, match="current"):
        green.close()
    assert not green.is_closed
    device.set_current(before)
    green.close()
    assert green.is_closed
    with pytest.raises(RuntimeError, match="closed"):
        green.resources  # noqa: B018


def test_streams_of_a_green_context_are_nonblocking(device, green):
    with pytest.raises(ValueError, match="nonblocking"):
        green.create_stream(StreamOptions(nonblocking=False))
    assert green.create_stream().is_nonblocking


def test_a_dry_run_cannot_be_used(device):
    groups, rest = device.resources.sm.split(SMResourceOptions(count=2), dry_run=True)
    for resource in (*groups, rest):
        with pytest.raises(ValueError, match="dry_run"):
            device.create_context(ContextOptions(resources=[resource]))


def test_arguments_of_a_split_are_checked(device):
    sm = device.resources.sm
    with pytest.raises(ValueError, match="one count per group"):
        sm.split(SMResourceOptions(count=2, backfill=[True, False]))
    with pytest.raises(ValueError, match="empty"):
        sm.split(SMResourceOptions(count=[]))
    for count, place in ((1.5, 0), ((2, 1.5), 1)):
        with pytest.raises(TypeError, match=rf"count\[{place}\] must be an int, not float"):
            sm.split(SMResourceOptions(count=count))


def test_options_of_work_queues_are_checked_when_they_are_made():
    with pytest.raises(ValueError, match="green_ctx_balanced"):
        WorkqueueResourceOptions(sharing_scope="everybody")
    with pytest.raises(ValueError, match="at least 1"):
        WorkqueueResourceOptions(concurrency_limit=0)
    assert WorkqueueResourceOptions("device_ctx", 4).concurrency_limit == 4


def test_a_context_needs_resources(device):
    with pytest.raises(ValueError, match="None"):
        device.create_context(ContextOptions(resources=None))


def test_events_for_other_processes_are_recorded_once(device, stream):
    options = EventOptions(ipc_enabled=True)
    with pytest.raises(TypeError, match="record"):
        device.create_event(options)
    event = stream.record(options=options)
    with pytest.raises(TypeError, match="once"):
        stream.record(event)
    with pytest.raises(TypeError, match="timing_enabled"):
        stream.record(options=EventOptions(ipc_enabled=True, timing_enabled=True))


def test_a_stream_protocol_that_is_an_attribute_is_deprecated(device, stream):
    class Attribute:
        __cuda_stream__ = (0, int(stream.handle))

    class Method:
        def __cuda_stream__(self):
            return 0, int(stream.handle)

    with pytest.warns(DeprecationWarning, match="make it a method"):
        assert int(device.create_stream(Attribute()).handle) == int(stream.handle)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        device.create_stream(Method())


def test_a_driver_that_cannot_checkpoint_is_a_runtime_error(device):
    process = checkpoint.Process(1)  # not ours
    try:
        process.state  # noqa: B018
    except RuntimeError as error:
        assert "cannot checkpoint" in str(error)
    except Exception as error:  # a driver that can, and says what is wrong with this process
        assert type(error).__name__ == "CUDAError"
    assert checkpoint.ProcessStateType is not None


def test_conditions_can_be_weakly_referenced(device):
    import weakref

    from cuda.core.graph import GraphDefinition

    condition = GraphDefinition().create_condition()
    assert weakref.ref(condition)() is condition


def test_device_zero_is_current_afterwards():
    Device(0).set_current()


def test_a_context_is_not_made_by_calling_its_class():
    with pytest.raises(RuntimeError, match="Device"):
        Context()
