# SPDX-License-Identifier: Apache-2.0
"""The kernel benchmark: its cases, the recorded ratios, and the page that shows them. `make bench` measures; nothing here does."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "bench/cpp/kernels"
FAMILIES = ("ten", "more", "images", "simulation", "networks", "quantized", "primitives")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("numpy")
    monkeypatch.syspath_prepend(str(ROOT / "bench/python"))
    yield importlib.import_module
    for name in [name for name in sys.modules if name.partition(".")[0] == "kernel_bench"]:
        del sys.modules[name]


def cases(bench: Any) -> list[Any]:
    for family in FAMILIES:
        bench(f"kernel_bench.{family}")
    return list(bench("kernel_bench.case").CASES)


def test_benchmark_has_sixty_kernels_with_both_sides(bench: Any) -> None:
    kernels = set(re.findall(r"__global__ void (\w+)\(", "".join(path.read_text() for path in SOURCES.glob("*.cu"))))
    natives = set(re.findall(r"^void (\w+)\(", "".join(path.read_text() for path in SOURCES.glob("*.cpp")), re.M))
    found = cases(bench)
    assert len(found) >= 60
    assert len({make.__name__ for make in found}) == len(found)
    for make in found:
        case = make()
        arrays = bench("kernel_bench.case").namespace(dict.fromkeys(case.arrays))
        launched = {step[0] for step in case.launches(arrays)} - {"clear"}
        assert launched <= kernels, (make.__name__, launched - kernels)
        assert case.native[0] in natives, make.__name__
        assert {name for name in case.native[1:] if isinstance(name, str)} <= set(case.arrays), make.__name__


def test_page_shows_every_recorded_ratio(bench: Any) -> None:
    found = cases(bench)
    page, records = bench("kernel_bench.page"), bench("kernel_bench.records").load()
    text = (ROOT / "docs/benchmarks/kernels.md").read_text()
    assert {record.target for record in records} >= {"aarch64", "avx2", "avx512"}
    for table in (page.of_ten(records), page.of_more(records), page.slow(records)):
        assert table in text
    names = {make.__name__ for make in found}
    for record in records:
        assert set(record.ratios) <= names
        assert not record.judged or set(record.ratios) == names


def test_rows_that_miss_their_goal_have_a_reason(bench: Any) -> None:
    cases(bench)
    page, records = bench("kernel_bench.page"), bench("kernel_bench.records")
    assert "Not explained yet" not in page.slow(records.load())
    slow = records.Record("avx2", "AVX2", "", "", ratios={"histogram": {"ours": 2.01}, "saxpy": {"ours": 1.29}})
    assert "shared histogram 16M** (2.01 with AVX2)" in page.slow([slow])
    assert "2.01 missed" in page.of_ten([slow]) and "1.29 missed" not in page.of_ten([slow])


def test_a_run_keeps_recorded_ratios_that_it_has_not_measured(bench: Any, tmp_path: Path) -> None:
    records = bench("kernel_bench.records")
    old = {"saxpy": {"ours": 1.1, "PoCL": 3.0}, "scan": {"ours": 0.9}}
    records.save(records.Record("avx2", "AVX2", "5 rounds; PoCL 3.1", "2026-01-01", ratios=old), tmp_path)
    new = records.Record("avx2", "AVX2", "9 rounds", "2026-01-02", ratios={"saxpy": {"ours": 1.0}})
    both = records.completed(new, tmp_path)
    assert both.ratios == {"saxpy": {"ours": 1.0, "PoCL": 3.0}, "scan": {"ours": 0.9}}
    assert (both.about, both.date) == ("9 rounds; PoCL 3.1", "2026-01-02")
    assert records.completed(new, tmp_path / "empty").ratios == new.ratios
