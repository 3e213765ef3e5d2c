# SPDX-License-Identifier: Apache-2.0
"""Compares instruction counts of hot paths with bench/instructions.json. Counts do not depend on the load, but on compiler,
interpreter and architecture: the tests are skipped without recorded counts for these, or without valgrind."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
HOT = ("launch_0", "launch_3", "launch_16", "event_record", "stream_wait", "alloc_free_4k", "graph_launch_20", "graph_capture_20",
       "launch_config", "b_device_get_count", "b_device_get_attribute", "b_stream_query", "b_launch_ctypes")  # fmt: skip


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "bench" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build_folder() -> Path | None:
    folders = [Path(os.environ["CUCORE_BUILD"])] if "CUCORE_BUILD" in os.environ else sorted(ROOT.glob("build/*"))
    return next((f for f in folders if (f / "bench/null_driver/libcucore_null.so").exists()), None)


def test_hot_paths_need_no_more_instructions_than_recorded(tmp_path: Path) -> None:
    instructions = load("instructions")
    recorded = json.loads((ROOT / "bench/instructions.json").read_text()).get(instructions.key())
    build = build_folder()
    if recorded is None:
        pytest.skip(f"nothing is recorded for {instructions.key()}")
    if shutil.which("valgrind") is None or build is None:
        pytest.skip("needs valgrind and a build with tests or benchmarks")
    counts, skipped = instructions.count(build, list(HOT), tmp_path)
    assert not skipped and counts.keys() == set(HOT)
    worse = {
        name: (recorded[name], round(counts[name]))
        for name in HOT
        if instructions.is_worse(recorded[name], counts[name])
    }
    assert not worse, f"more instructions than recorded (recorded, now): {worse}"


def test_cpu_device_needs_no_more_instructions_than_recorded(tmp_path: Path) -> None:
    """Launches, events, memory and graph replay, called from C: the call, the queue, and the execution."""
    if os.environ.get("CUCORE_DEVICE", "cpu") != "cpu":
        pytest.skip("is about the CPU device")
    import cucore

    instructions = load("instructions")
    recorded = json.loads((ROOT / "bench/instructions.json").read_text()).get(instructions.device_key())
    build = build_folder()
    if recorded is None:
        pytest.skip(f"nothing is recorded for {instructions.device_key()}")
    if (
        shutil.which("valgrind") is None
        or build is None
        or not (build / "bench/cpp/overhead/bench_overhead_counted").exists()
    ):
        pytest.skip("needs valgrind and a build with tests or benchmarks")
    least: dict[str, float] = {}
    worse: dict[str, tuple[int, int]] = {}
    # On a loaded machine a worker may still be awake and take part, so the minimum of three counts is compared.
    for attempt in range(3):
        rows = list(worse)  # initially empty, which means all
        folder = tmp_path / str(attempt)
        folder.mkdir()
        for name, now in instructions.count_device(
            build, cucore.CPU_DRIVER_FOLDER / "libcuda.so.1", rows, folder
        ).items():
            least[name] = min(now, least.get(name, now))
        worse = {
            name: (recorded[name], round(now))
            for name, now in least.items()
            if instructions.is_worse_on_the_device(recorded[name], now)
        }
        if not worse:
            break
    assert least.keys() == set(instructions.DEVICE_ROWS)
    assert not worse, f"more instructions than recorded (recorded, now): {worse}"


def test_tools_that_are_off_cost_nothing(tmp_path: Path) -> None:
    """Timeline, CUPTI, coverage, debug mode, check mode and random schedules each have a hook in launches, calls or operations of
    streams. With the compiler of the recorded counts, a few more tests of flags are found."""
    if os.environ.get("CUCORE_DEVICE", "cpu") != "cpu":
        pytest.skip("is about the CPU device")
    import cucore

    instructions = load("instructions")
    table = json.loads((ROOT / "bench/instructions.json").read_text())
    recorded = table.get(instructions.device_key())
    build = build_folder()
    if shutil.which("valgrind") is None or build is None:
        pytest.skip("needs valgrind and a build with tests or benchmarks")
    if recorded is None or table.get("compiler", {}).get(instructions.device_key()) != instructions.compiler(build):
        pytest.skip(f"nothing is recorded for {instructions.device_key()} and {instructions.compiler(build)}")
    library, rows = cucore.CPU_DRIVER_FOLDER / "libcuda.so.1", list(instructions.EXACT_ROWS)
    least: dict[str, float] = {}
    worse: dict[str, tuple[int, int]] = {}
    for attempt in range(8):  # a worker that is still awake adds to a launch
        folder = tmp_path / str(attempt)
        folder.mkdir()
        for name, now in instructions.count_device(build, library, rows, folder).items():
            least[name] = min(now, least.get(name, now))
        worse = {
            name: (recorded[name], round(now))
            for name, now in least.items()
            if instructions.costs_something(name, recorded[name], now)
        }
        if not worse:
            break
    assert least.keys() == set(rows)
    assert not worse, f"more instructions than recorded (recorded, now): {worse}"


def test_instruction_comparison_detects_a_regression() -> None:
    costs_something = load("instructions").costs_something
    for name, recorded, more, same in (("event_record", 390, 399, 397), ("launch_3", 3772, 3820, 3810)):
        assert costs_something(name, recorded, more, "aarch64") and not costs_something(name, recorded, same, "aarch64")
    assert costs_something("launch_3", 3772, 3900, "x86_64") and not costs_something("launch_3", 3772, 3820, "x86_64")
    is_worse = load("instructions").is_worse
    on_the_device = load("instructions").is_worse_on_the_device
    assert on_the_device(1000, 1500) and not on_the_device(1000, 1400)
    assert is_worse(1000, 1250) and not is_worse(1000, 1150) and not is_worse(100, 160) and is_worse(100, 170)
