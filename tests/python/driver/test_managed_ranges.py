# SPDX-License-Identifier: Apache-2.0
"""Memory advice and prefetches apply to pages; a range attribute is that of the first page, as on an H200."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from cuda.bindings import driver as d

# A GPU may use larger pages than the host.
PIECE, PIECES = 2 << 20, 8
ASK = d.CUmem_range_attribute
CPU, NOWHERE = -1, -2


@pytest.fixture
def memory(context: Any, check: Any) -> Iterator[int]:
    if not check(d.cuDeviceGetAttribute(d.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 0)):
        pytest.skip("managed memory does not move here")
    flags = d.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL
    address = check(d.cuMemAllocManaged((PIECES + 1) * PIECE, flags))
    yield -(-int(address) // PIECE) * PIECE
    check(d.cuMemFree(address))


def place(kind: str) -> Any:
    location = d.CUmemLocation()
    location.type, location.id = getattr(d.CUmemLocationType, f"CU_MEM_LOCATION_TYPE_{kind}"), 0
    return location


@pytest.fixture
def ask(memory: int, check: Any) -> Any:
    def ask(attribute: str, first: int, count: int, size: int = 4) -> Any:
        name = getattr(ASK, f"CU_MEM_RANGE_ATTRIBUTE_{attribute}")
        return check(d.cuMemRangeGetAttribute(size, name, memory + first * PIECE, count * PIECE))

    return ask


@pytest.fixture
def advise(memory: int, check: Any) -> Any:
    def advise(advice: str, first: int, count: int, kind: str = "DEVICE") -> None:
        name = getattr(d.CUmem_advise, f"CU_MEM_ADVISE_{advice}")
        check(d.cuMemAdvise(memory + first * PIECE, count * PIECE, name, place(kind)))

    return advise


def test_read_mostly_of_a_range_is_that_of_its_first_page(ask: Any, advise: Any) -> None:
    advise("SET_READ_MOSTLY", 2, 4)
    pieces = ((2, 4), (3, 1), (1, 2), (5, 2), (0, PIECES))
    assert [ask("READ_MOSTLY", first, count) for first, count in pieces] == [1, 1, 0, 1, 0]
    advise("UNSET_READ_MOSTLY", 3, 1)
    assert [ask("READ_MOSTLY", piece, 1) for piece in range(PIECES)] == [0, 0, 1, 0, 1, 1, 0, 0]


def test_preferred_location_of_a_range_is_that_of_its_first_page(ask: Any, advise: Any) -> None:
    advise("SET_PREFERRED_LOCATION", 0, 4)
    advise("SET_PREFERRED_LOCATION", 4, 2, "HOST")
    told = [ask("PREFERRED_LOCATION", first, count) for first, count in ((0, 4), (4, 2), (3, 2), (5, 2), (6, 2))]
    assert told == [0, CPU, 0, CPU, NOWHERE]


def test_accessed_by_of_a_range_is_that_of_its_first_page(ask: Any, advise: Any) -> None:
    advise("SET_ACCESSED_BY", 0, 4)
    assert list(ask("ACCESSED_BY", 0, 4, 8)) == [0, NOWHERE]
    assert list(ask("ACCESSED_BY", 3, 2, 8)) == [0, NOWHERE]
    assert list(ask("ACCESSED_BY", 4, 2, 8)) == [NOWHERE, NOWHERE]


def test_last_prefetch_location_is_per_page(memory: int, ask: Any, check: Any, stream: Any) -> None:
    for first, kind in ((0, "DEVICE"), (4, "HOST")):
        check(d.cuMemPrefetchAsync(memory + first * PIECE, 4 * PIECE, place(kind), 0, stream))
    check(d.cuStreamSynchronize(stream))
    told = [ask("LAST_PREFETCH_LOCATION", first, count) for first, count in ((0, 4), (4, 4), (3, 2))]
    assert told == [0, CPU, 0]


@pytest.fixture
def prefetch(memory: int, check: Any, stream: Any) -> Any:
    """Prefetches pieces in one batch, those from starts[k] on to places[k], waits, and returns the error code."""

    def prefetch(pieces: list[int], places: list[Any], starts: list[int]) -> Any:
        count = len(pieces)
        code = d.cuMemPrefetchBatchAsync(pieces, [PIECE] * count, count, places, starts, len(starts), 0, stream)[0]
        check(d.cuStreamSynchronize(stream))
        return code

    return prefetch


@pytest.fixture
def pieces(memory: int) -> list[int]:
    return [memory + piece * PIECE for piece in range(3)]


def test_prefetch_batch_uses_one_location_per_part(pieces: list[int], ask: Any, prefetch: Any) -> None:
    assert prefetch(pieces, [place("DEVICE"), place("HOST")], [0, 2]) == d.CUresult.CUDA_SUCCESS
    assert [ask("LAST_PREFETCH_LOCATION", piece, 1) for piece in range(3)] == [0, 0, CPU]


@pytest.mark.parametrize("starts", [[1], [0, 3]])
def test_prefetch_batch_with_wrong_starts_returns_an_error(
    pieces: list[int], ask: Any, prefetch: Any, starts: list[int]
) -> None:
    assert prefetch(pieces, [place("DEVICE")] * len(starts), starts) == d.CUresult.CUDA_ERROR_INVALID_VALUE
    assert [ask("LAST_PREFETCH_LOCATION", piece, 1) for piece in range(3)] == [NOWHERE] * 3


@pytest.mark.parametrize(
    ("starts", "went"),
    [([0, 0], [0, 0, 0]), ([0, 2, 1], [0, 0, CPU]), ([0, 1, 1], [0, CPU, CPU]), ([0, 1, 0], [0, CPU, CPU]), ([0, 0, 2], [0, 0, 0])],
)  # fmt: skip
def test_prefetch_batch_part_begins_at_its_start_index(
    pieces: list[int], ask: Any, prefetch: Any, starts: list[int], went: list[int]
) -> None:
    """Unordered starts have no effect; an H200 accepts them too."""
    places = [place("HOST" if part % 2 else "DEVICE") for part in range(len(starts))]
    assert prefetch(pieces, places, starts) == d.CUresult.CUDA_SUCCESS
    assert [ask("LAST_PREFETCH_LOCATION", piece, 1) for piece in range(3)] == went


def no_device() -> Any:
    location = place("DEVICE")
    location.id = 99
    return location


@pytest.mark.parametrize("starts", [[0, 1], [0, 0]])
def test_prefetch_batch_with_an_invalid_location_prefetches_nothing(
    pieces: list[int], ask: Any, prefetch: Any, starts: list[int]
) -> None:
    assert prefetch(pieces, [place("DEVICE"), no_device()], starts) == d.CUresult.CUDA_ERROR_INVALID_VALUE
    assert [ask("LAST_PREFETCH_LOCATION", piece, 1) for piece in range(3)] == [NOWHERE] * 3


def test_prefetch_batch_on_the_legacy_default_stream_returns_an_error(memory: int, ask: Any, check: Any) -> None:
    for stream in (0, d.CU_STREAM_LEGACY):
        where: Any = ([place("DEVICE")], [0], 1)
        assert [
            d.cuMemPrefetchBatchAsync([memory], [PIECE], 1, *where, 0, stream)[0],
            d.cuMemDiscardAndPrefetchBatchAsync([memory], [PIECE], 1, *where, 0, stream)[0],
            d.cuMemDiscardBatchAsync([memory], [PIECE], 1, 0, stream)[0],
        ] == [d.CUresult.CUDA_ERROR_INVALID_VALUE] * 3
    check(d.cuCtxSynchronize())
    assert ask("LAST_PREFETCH_LOCATION", 0, 1) == NOWHERE


def test_ranges_before_an_invalid_range_of_a_batch_are_prefetched(memory: int, ask: Any, prefetch: Any) -> None:
    assert prefetch([memory, 4096], [place("DEVICE")], [0]) == d.CUresult.CUDA_ERROR_INVALID_VALUE
    assert ask("LAST_PREFETCH_LOCATION", 0, 1) == 0
