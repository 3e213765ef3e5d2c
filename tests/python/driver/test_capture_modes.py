# SPDX-License-Identifier: Apache-2.0
"""Stream capture modes: the calls that each mode rejects, and the errors of invalidated captures."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from cuda.bindings import driver as d

GLOBAL, THREAD_LOCAL, RELAXED = (
    getattr(d.CUstreamCaptureMode, f"CU_STREAM_CAPTURE_MODE_{m}") for m in ("GLOBAL", "THREAD_LOCAL", "RELAXED")
)
UNSUPPORTED, INVALIDATED, UNMATCHED, UNJOINED, ISOLATION, IMPLICIT, WRONG_THREAD = 900, 901, 903, 904, 905, 906, 908


def elsewhere(context: Any, f: Callable[[], int]) -> int:
    """The result of a call in another thread."""
    answers: list[int] = []

    def run() -> None:
        d.cuCtxSetCurrent(context)
        answers.append(f())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return answers[0]


def allocate() -> int:
    """An allocation, which is documented as potentially unsafe."""
    code, address = d.cuMemAlloc(64)
    if code == 0:
        assert d.cuMemFree(address)[0] == 0
    return int(code)


@pytest.mark.parametrize(
    ("mode", "here", "there"),
    [(GLOBAL, UNSUPPORTED, UNSUPPORTED), (THREAD_LOCAL, UNSUPPORTED, 0), (RELAXED, 0, 0)],
    ids=["global", "thread_local", "relaxed"],
)
def test_unsafe_call_is_rejected_by_the_capture_mode(
    context: Any, check: Any, stream: Any, mode: Any, here: int, there: int
) -> None:
    for call, wanted in ((allocate, here), (lambda: elsewhere(context, allocate), there)):
        check(d.cuStreamBeginCapture(stream, mode))
        assert call() == wanted
        code, graph = d.cuStreamEndCapture(stream)
        assert int(code) == (INVALIDATED if wanted else 0)
        if code == 0:
            check(d.cuGraphDestroy(graph))
        assert check(d.cuStreamIsCapturing(stream)) == d.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE
        assert allocate() == 0


def test_thread_exchanges_its_capture_mode(context: Any, check: Any, stream: Any) -> None:
    check(d.cuStreamBeginCapture(stream, GLOBAL))
    assert check(d.cuThreadExchangeStreamCaptureMode(RELAXED)) == GLOBAL
    assert allocate() == 0
    assert check(d.cuThreadExchangeStreamCaptureMode(GLOBAL)) == RELAXED
    check(d.cuGraphDestroy(check(d.cuStreamEndCapture(stream))))


def test_capture_ends_in_its_thread_unless_it_is_relaxed(context: Any, check: Any, stream: Any) -> None:
    for mode in (GLOBAL, THREAD_LOCAL):
        check(d.cuStreamBeginCapture(stream, mode))
        assert elsewhere(context, lambda: int(d.cuStreamEndCapture(stream)[0])) == WRONG_THREAD
        code, graph = d.cuStreamEndCapture(stream)
        if code == 0:
            check(d.cuGraphDestroy(graph))
    check(d.cuStreamBeginCapture(stream, RELAXED))
    assert elsewhere(context, lambda: int(d.cuStreamEndCapture(stream)[0])) == 0


def test_synchronizing_a_captured_stream_or_event_invalidates_the_capture(
    context: Any, check: Any, stream: Any
) -> None:
    event = check(d.cuEventCreate(0))
    for call in (lambda: d.cuStreamSynchronize(stream), lambda: d.cuStreamQuery(stream)):
        check(d.cuStreamBeginCapture(stream, RELAXED))
        assert int(call()[0]) == UNSUPPORTED
        assert int(d.cuStreamEndCapture(stream)[0]) == INVALIDATED
    for wait in (d.cuEventSynchronize, d.cuEventQuery):
        check(d.cuStreamBeginCapture(stream, RELAXED))
        check(d.cuEventRecord(event, stream))
        assert int(wait(event)[0]) == 907  # captured event
        d.cuStreamEndCapture(stream)
    check(d.cuEventDestroy(event))


@pytest.mark.parametrize("how", ["never joined", "ended elsewhere"])
def test_unjoined_branch_invalidates_the_capture(context: Any, check: Any, stream: Any, how: str) -> None:
    other, event, memory = check(d.cuStreamCreate(1)), check(d.cuEventCreate(0)), check(d.cuMemAlloc(64))
    check(d.cuStreamBeginCapture(stream, RELAXED))
    check(d.cuEventRecord(event, stream))
    check(d.cuStreamWaitEvent(other, event, 0))
    check(d.cuMemsetD32Async(memory, 1, 4, other))
    if how == "ended elsewhere":
        assert int(d.cuStreamEndCapture(other)[0]) == UNMATCHED
        assert int(d.cuMemsetD32Async(memory, 1, 4, other)[0]) == INVALIDATED
    assert int(d.cuStreamEndCapture(stream)[0]) == (UNJOINED if how == "never joined" else INVALIDATED)
    assert check(d.cuStreamIsCapturing(other)) == d.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE
    check(d.cuMemFree(memory))
    check(d.cuEventDestroy(event))
    check(d.cuStreamDestroy(other))


def test_wait_between_captures_returns_an_error(context: Any, check: Any, stream: Any) -> None:
    """An event of one capture cannot be waited for in another, nor one recorded before the capture."""
    other = check(d.cuStreamCreate(1))
    event = check(d.cuEventCreate(0))
    check(d.cuStreamBeginCapture(stream, RELAXED))
    check(d.cuStreamBeginCapture(other, RELAXED))
    check(d.cuEventRecord(event, stream))
    assert int(d.cuStreamWaitEvent(other, event, 0)[0]) == 902  # merge
    d.cuStreamEndCapture(stream)
    d.cuStreamEndCapture(other)
    check(d.cuEventRecord(event, other))
    check(d.cuStreamBeginCapture(stream, RELAXED))
    assert int(d.cuStreamWaitEvent(stream, event, 0)[0]) == ISOLATION
    d.cuStreamEndCapture(stream)
    check(d.cuEventDestroy(event))
    check(d.cuStreamDestroy(other))


@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL, RELAXED])
def test_legacy_stream_cannot_be_captured_or_mixed_with_a_capture(context: Any, check: Any, mode: Any) -> None:
    legacy = d.CUstream(d.CU_STREAM_LEGACY)
    assert int(d.cuStreamBeginCapture(legacy, mode)[0]) == UNSUPPORTED
    blocking, memory = check(d.cuStreamCreate(0)), check(d.cuMemAlloc(64))
    check(d.cuStreamBeginCapture(blocking, mode))
    mixed = int(d.cuMemsetD8Async(memory, 0, 64, legacy)[0])
    ended = int(d.cuStreamEndCapture(blocking)[0])
    check(d.cuMemFree(memory))
    check(d.cuStreamDestroy(blocking))
    assert (mixed, ended) == (IMPLICIT, INVALIDATED)
