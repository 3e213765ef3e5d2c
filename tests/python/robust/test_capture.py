# SPDX-License-Identifier: Apache-2.0
"""Failed captures raise an error and leave the stream usable."""

import gc

import pytest
from cuda.bindings import driver
from cuda.core import CUDAError, LaunchConfig, LegacyPinnedMemoryResource, launch

pytestmark = pytest.mark.promise(
    "A call that a capture forbids is an error, and the stream is usable again after the builder is ended or closed"
)
ONE = LaunchConfig(grid=1, block=1)


def forbidden(device, stream, kernel):
    """Calls that are not permitted during a capture."""
    fresh = device.create_stream()
    return {
        "sync": lambda: stream.sync(),
        "query": lambda: stream.is_done,
        "driver sync": lambda: check(driver.cuStreamSynchronize(stream.handle)),
        "begin again": lambda: check(driver.cuStreamBeginCapture(stream.handle, 2)),
        "pageable copy back": lambda: buffer_of(device, fresh).copy_to(bytearray(8), stream=stream),
        "wrong arguments": lambda: launch(stream, ONE, kernel("add_one")),
        "wrong shape": lambda: launch(stream, LaunchConfig(grid=1, block=4096), kernel("nothing")),
        "end elsewhere": lambda: check(driver.cuStreamEndCapture(fresh.handle)[:1]),
    }


def buffer_of(device, stream):
    return device.allocate(8, stream=stream)


def check(answer):
    if int(answer[0]):
        raise CUDAError(str(answer[0]), int(answer[0]))


NAMES = [
    "sync",
    "query",
    "driver sync",
    "begin again",
    "pageable copy back",
    "wrong arguments",
    "wrong shape",
    "end elsewhere",
]


@pytest.mark.parametrize("ending", ["end", "close", "gc", "stream closed"])
@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
@pytest.mark.parametrize("name", NAMES)
def test_forbidden_call_in_a_capture_raises_and_the_stream_stays_usable(device, kernel, name, mode, ending):
    stream = device.create_stream()
    launch(stream, ONE, kernel("nothing"))  # loads the code, which some capture modes do not permit later
    stream.sync()
    call = forbidden(device, stream, kernel)[name]
    builder = stream.create_graph_builder().begin_building(mode=mode)
    launch(builder, ONE, kernel("nothing"))
    try:
        call()
    except (CUDAError, TypeError, RuntimeError) as error:
        assert str(error)
    if ending == "end":
        try:
            builder.end_building()
        except CUDAError as error:
            assert error.code in (900, 901, 902, 904, 908) and not builder.is_building
        else:
            builder.complete().launch(stream)
    elif ending == "close":
        builder.close()
        builder.close()
    elif ending == "gc":
        del builder
        gc.collect()
    else:
        stream.close()
        builder.close()
        stream = device.create_stream()
    assert not driver_is_capturing(stream)
    buffer = device.allocate(4, stream=stream)
    launch(stream, ONE, kernel("add_one"), buffer, 1)
    stream.sync()
    again = stream.create_graph_builder().begin_building(mode=mode)
    launch(again, ONE, kernel("add_one"), buffer, 1)
    again.end_building().complete().launch(stream)
    stream.sync()


def driver_is_capturing(stream):
    error, status = driver.cuStreamIsCapturing(stream.handle)
    assert error == 0
    return int(status) != 0


@pytest.mark.parametrize("ending", ["end", "close", "gc"])
def test_unjoined_branch_raises_and_the_stream_stays_usable(device, kernel, ending):
    stream = device.create_stream()
    builder = stream.create_graph_builder().begin_building()
    branches = builder.split(3)
    for branch in branches:
        launch(branch, ONE, kernel("nothing"))
    if ending == "end":
        with pytest.raises(CUDAError) as caught:
            builder.end_building()
        assert caught.value.code == 904
    elif ending == "close":
        for branch in branches[1:]:
            branch.close()
        builder.close()
    del builder, branches, branch
    gc.collect()
    launch(stream, ONE, kernel("nothing"))
    stream.sync()
    assert not driver_is_capturing(stream)


def test_wait_on_another_capture_raises(device, kernel):
    one, two = device.create_stream(), device.create_stream()
    first = one.create_graph_builder().begin_building()
    second = two.create_graph_builder().begin_building()
    launch(first, ONE, kernel("nothing"))
    launch(second, ONE, kernel("nothing"))
    with pytest.raises(CUDAError) as caught:
        one.wait(two)
    assert caught.value.code in (900, 901, 902, 903, 905, 906, 907)
    first.close()
    second.close()
    for stream in (one, two):
        launch(stream, ONE, kernel("nothing"))
        stream.sync()


def test_join_of_an_uncaptured_stream_raises_and_both_stay_usable(device, kernel):
    stream, other = device.create_stream(), device.create_stream()
    flag = LegacyPinnedMemoryResource().allocate(8)
    memoryview(flag).cast("B")[:] = bytes(8)
    launch(other, ONE, kernel("nothing"))
    event = other.record()
    builder = stream.create_graph_builder().begin_building()
    with pytest.raises(CUDAError):
        stream.wait(event)
    builder.close()
    stream.wait(event)
    stream.sync()


def test_builder_method_in_the_wrong_state_raises(device, kernel):
    builder = device.create_graph_builder()
    for call in (
        builder.end_building,
        builder.complete,
        lambda: builder.callback(print),
        lambda: builder.split(2),
        lambda: launch(builder, ONE, kernel("nothing")) and 0,
    ):
        try:
            call()
        except RuntimeError as error:
            assert str(error)
    builder.begin_building()
    with pytest.raises(RuntimeError, match="building"):
        builder.begin_building()
    with pytest.raises(RuntimeError, match="building"):
        builder.complete()
    with pytest.raises((ValueError, TypeError)):
        builder.split(-1)
    builder.close()
    for call in (
        builder.begin_building,
        builder.end_building,
        builder.complete,
        lambda: builder.split(2),
        lambda: launch(builder, ONE, kernel("nothing")),
    ):
        with pytest.raises(RuntimeError, match="closed"):
            call()
    with pytest.raises(ValueError, match="mode"):
        device.create_graph_builder().begin_building(mode="wrong")
