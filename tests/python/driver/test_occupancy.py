# SPDX-License-Identifier: Apache-2.0
"""Occupancy equals that of an H200, scaled to the number of multiprocessors."""

from __future__ import annotations

import ctypes
import json
import lzma
from pathlib import Path

import cucore
import pytest

from .occupancy import collect, collect_clusters

pytestmark = pytest.mark.cpu_only


def recorded(name: str) -> dict[str, list[int]]:
    return json.loads(lzma.decompress((Path(__file__).parent / f"h200/{name}.json.xz").read_bytes()))  # type: ignore[no-any-return]


RECORDED, CLUSTERS = recorded("occupancy"), recorded("clusters")
H200_MULTIPROCESSORS = 132


@pytest.fixture(scope="module")
def library() -> str:
    return str(Path(cucore.CPU_DRIVER_FOLDER) / "libcuda.so.1")


@pytest.fixture(scope="module")
def answers(library: str) -> dict[str, list[int]]:
    return collect(library)


@pytest.mark.parametrize("query", [" blocks ", " available ", " cluster size "])
def test_active_blocks_per_multiprocessor_equal_those_of_an_h200(answers: dict[str, list[int]], query: str) -> None:
    assert {k: v for k, v in answers.items() if query in k} == {k: v for k, v in RECORDED.items() if query in k}


def test_potential_block_size_equals_that_of_an_h200(answers: dict[str, list[int]], library: str) -> None:
    cuda, count = ctypes.CDLL(library), ctypes.c_int()
    assert cuda.cuDeviceGetAttribute(ctypes.byref(count), 16, 0) == 0  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
    for name, (code, grid, size) in ((k, v) for k, v in RECORDED.items() if " potential " in k):
        assert answers[name] == [code, grid // H200_MULTIPROCESSORS * count.value, size], name


# GPC sizes of the recorded H200: a cluster cannot span two GPCs.
H200_GROUPS = (16, 16, 16, 16, 16, 18, 18, 8, 2, 2, 2, 2)


def test_cluster_occupancy_rule_matches_the_recorded_h200() -> None:
    """A GPC with one multiprocessor per block of a cluster holds at most eight cluster blocks per multiprocessor."""
    asked = 0
    for name, (code, count) in CLUSTERS.items():
        *kernel, what, x, y, z = name.rsplit(" ", 4) if " clusters " in name else (name, "", 0, 0, 0)
        if what != "clusters" or code != 0:
            continue
        size, blocks = int(x) * int(y) * int(z), CLUSTERS[f"{kernel[0]} blocks"][1]
        assert count == (
            sum(group * min(blocks, 8) // size for group in H200_GROUPS if group >= size) if blocks else 0
        ), name
        asked += 1
    assert asked > 2000


def test_cluster_occupancy_equals_that_of_an_h200(library: str) -> None:
    ours = collect_clusters(library)
    assert {name: answer[0] for name, answer in ours.items()} == {name: answer[0] for name, answer in CLUSTERS.items()}
    for name, (code, count) in CLUSTERS.items():
        if name.endswith((" blocks", " potential")):
            assert ours[name] == [code, count], name
        elif " 17 1 1" not in name:  # no launch here uses it
            assert (ours[name][1] > 0) == (count > 0), name
