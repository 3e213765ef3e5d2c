"""Occupancy is what an H200 calculates, for its own number of multiprocessors."""

from __future__ import annotations

import ctypes
import json
import lzma
from pathlib import Path

import cucore
import pytest

from .occupancy import collect

pytestmark = pytest.mark.cpu_only

RECORDED: dict[str, list[int]] = json.loads(
    lzma.decompress((Path(__file__).parent / "h200/occupancy.json.xz").read_bytes())
)
H200_MULTIPROCESSORS = 132


@pytest.fixture(scope="module")
def library() -> str:
    return str(Path(cucore.CPU_DRIVER_FOLDER) / "libcuda.so.1")


@pytest.fixture(scope="module")
def answers(library: str) -> dict[str, list[int]]:
    return collect(library)


@pytest.mark.parametrize("query", [" blocks ", " available ", " cluster size "])
def test_per_multiprocessor(answers: dict[str, list[int]], query: str) -> None:
    assert {k: v for k, v in answers.items() if query in k} == {k: v for k, v in RECORDED.items() if query in k}


def test_the_best_block_size(answers: dict[str, list[int]], library: str) -> None:
    cuda, count = ctypes.CDLL(library), ctypes.c_int()
    assert cuda.cuDeviceGetAttribute(ctypes.byref(count), 16, 0) == 0  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
    for name, (code, grid, size) in ((k, v) for k, v in RECORDED.items() if " potential " in k):
        assert answers[name] == [code, grid // H200_MULTIPROCESSORS * count.value, size], name


def test_clusters_that_are_too_large_are_none(answers: dict[str, list[int]]) -> None:
    none = [name for name, answer in RECORDED.items() if " clusters " in name and answer == [0, 0]]
    assert none and all(answers[name] == [0, 0] for name in none)
