# SPDX-License-Identifier: Apache-2.0
"""The most important programs give the same results with every number of lanes, with the scalar path and with baseline code.

`make test-widths` runs the whole PTX suite in these modes.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest
import test_block_kernels as block  # skips this file too if NVRTC is not installed
import test_language_kernels as language
import test_numeric_kernels as numeric
import test_warp_kernels as warp
from ptxsuite import bundles_scalar, bundles_special  # noqa: F401  each registers its bundles, in this order
from ptxsuite.bundle import BUNDLES as ALL_BUNDLES
from ptxsuite.bundle import Bundle
from ptxsuite.program import Program

if os.environ.get("CUCORE_DEVICE") == "gpu":
    pytest.skip("about the CPU device's code", allow_module_level=True)

# The excluded programs always use 32 lanes (matrix products) or do not depend on the width.
BUNDLES = [
    b for b in ALL_BUNDLES if not any(word in b.name for word in ("griddepcontrol", "video", "tensor-core", "Hopper"))
]
KERNELS: list[Callable[[], None]] = [
    block.test_cub_block_scan_and_reduce_match_numpy,
    block.test_tiled_matrix_product_in_dynamic_shared_memory_matches_numpy,
    block.test_histogram_with_shared_atomics_matches_numpy,
    block.test_barrier_reductions_match_numpy,
    warp.test_cooperative_groups_tiles_match_numpy,
    warp.test_threads_of_one_warp_take_a_spin_lock_in_turn,
    numeric.test_fast_math_is_within_its_error_bounds,
    language.test_divergent_switch_and_loops_compute_the_result,
    language.test_every_launch_shape_computes_the_result,
    language.test_threads_keep_values_of_the_iteration_before_their_last,
    block.test_bitonic_sort_with_barriers_matches_numpy,
]


@pytest.mark.parametrize("bundle", [pytest.param(b, id=b.name) for b in BUNDLES])
def test_bundle_computes_the_result_with_every_width(bundle: Bundle, forced_width: str) -> None:
    bundle.check(Program(bundle.source, *bundle.options, arch=bundle.arch))


@pytest.mark.parametrize("kernel", [pytest.param(k, id=k.__name__.removeprefix("test_")) for k in KERNELS])
def test_kernel_computes_the_result_with_every_width(kernel: Callable[[], None], forced_width: str) -> None:
    kernel()


def test_report_shows_the_forced_width(
    forced_width: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUCORE_CPU_REPORT", "1")
    monkeypatch.setenv("CUCORE_CPU_CACHE", "0")
    data = np.arange(96, dtype=np.int32)
    Program('extern "C" __global__ void twice(int* a) { a[threadIdx.x] *= 2; }').run("twice", 1, 96, data)
    assert data.tolist() == list(range(0, 192, 2))
    report = capfd.readouterr().err
    said = {"1": "scalar, loop over threads", "baseline": "vector, baseline: "}
    assert said.get(forced_width, f"W={forced_width} ") in report, report
