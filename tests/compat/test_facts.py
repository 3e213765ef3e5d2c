# SPDX-License-Identifier: Apache-2.0
"""Every function, enum value, constant and struct field of NVIDIA's Python surface is in the tables of api/."""

from __future__ import annotations

from pathlib import Path

import compare
import pytest
from factfile import Facts, read_facts

API = Path(__file__).resolve().parent.parent.parent / "api"


def deviations(library: str) -> Facts:
    rows: Facts = read_facts(API / "deviations.json").get(f"cuda.bindings.{library}", {})
    return rows


@pytest.mark.parametrize("library", compare.LIBRARIES)
def test_every_fact_of_the_surface_is_in_the_table_or_a_deviation(library: str) -> None:
    known = deviations(library)
    missing = compare.missing(library)
    for name in missing:
        if name in known:
            print(f"cuda.bindings.{library}: {name}: {known[name]}")  # shown with pytest -rP
    assert [name for name in missing if name not in known] == []


@pytest.mark.parametrize("library", compare.LIBRARIES)
def test_every_listed_deviation_exists(library: str) -> None:
    assert sorted(set(deviations(library)) - set(compare.missing(library))) == []


@pytest.mark.parametrize("library", compare.LIBRARIES)
def test_every_deviation_has_a_reason(library: str) -> None:
    assert all(len(reason) > 20 for reason in deviations(library).values())


def test_missing_fact_is_detected() -> None:
    table = compare.facts.load("nvrtc")
    surface = compare.surface("nvrtc")
    surface["functions"]["nvrtcMadeUp"] = "(prog)"
    surface["functions"]["nvrtcGetPTX"] = "(prog, ptx, other)"
    surface["enums"]["nvrtcResult"]["NVRTC_MADE_UP"] = 99
    surface["classes"]["nvrtcBundledHeadersInfo"]["properties"].append("madeUp")
    assert list(compare.functions(table, surface)) == [
        "nvrtcGetPTX(prog)",
        "nvrtcGetPTX(ptx)",
        "nvrtcGetPTX(other)",
        "nvrtcMadeUp",
    ]
    assert list(compare.c_enums(table, surface)) == ["nvrtcResult.NVRTC_MADE_UP"]
    assert list(compare.c_classes(table, surface)) == ["nvrtcBundledHeadersInfo.madeUp"]


def test_the_surface_is_not_empty() -> None:
    """A comparison with an empty surface would always pass."""
    sizes = {library: len(compare.surface(library)["functions"]) for library in compare.LIBRARIES}
    assert sizes["driver"] > 500
    assert sizes["runtime"] > 300
    assert sizes["nvml"] > 300
    assert min(sizes.values()) > 10
