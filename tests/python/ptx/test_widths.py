"""The programs that matter most, with every number of lanes forced, with the scalar path and in the baseline tier: answers do
not depend on it.

`make test-widths` runs the whole PTX suite that way.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest
import test_block_kernels as block  # where there is no NVRTC these skip, and so does this file
import test_language_kernels as language
import test_number_kernels as number
import test_warp_kernels as warp
from ptxsuite import bundles_scalar, bundles_special  # noqa: F401  each registers its bundles, in this order
from ptxsuite.bundle import BUNDLES as ALL_BUNDLES
from ptxsuite.bundle import Bundle
from ptxsuite.program import Program

if os.environ.get("CUCORE_DEVICE") == "gpu":
    pytest.skip("about the CPU device's code", allow_module_level=True)

# Of the others every program is one for 32 lanes alone (matrix products), or has nothing to do with them.
BUNDLES = [
    b for b in ALL_BUNDLES if not any(word in b.name for word in ("griddepcontrol", "video", "tensor-core", "Hopper"))
]
KERNELS: list[Callable[[], None]] = [
    block.test_cub_block_scan_and_reduce,
    block.test_tiled_matrix_product_in_dynamic_shared_memory,
    block.test_histogram_with_shared_atomics,
    block.test_block_reductions_of_the_barrier,
    warp.test_cooperative_groups_tiles,
    warp.test_threads_of_one_warp_take_a_lock_in_turn,
    number.test_fast_math,
    language.test_switch_and_loops_with_divergence,
    language.test_launch_shapes,
    language.test_threads_keep_what_was_before_their_last_turn,
    block.test_bitonic_sort_between_barriers,
]


@pytest.mark.parametrize("bundle", [pytest.param(b, id=b.name) for b in BUNDLES])
def test_a_bundle_runs(bundle: Bundle, width: str) -> None:
    bundle.check(Program(bundle.source, *bundle.options, arch=bundle.arch))


@pytest.mark.parametrize("kernel", [pytest.param(k, id=k.__name__.removeprefix("test_")) for k in KERNELS])
def test_a_kernel_runs(kernel: Callable[[], None], width: str) -> None:
    kernel()


def test_the_width_is_the_one_asked_for(
    width: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUCORE_CPU_REPORT", "1")
    monkeypatch.setenv("CUCORE_CPU_CACHE", "0")
    data = np.arange(96, dtype=np.int32)
    Program('extern "C" __global__ void twice(int* a) { a[threadIdx.x] *= 2; }').run("twice", 1, 96, data)
    assert data.tolist() == list(range(0, 192, 2))
    report = capfd.readouterr().err
    said = {"1": "scalar, loop over threads", "baseline": "vector, baseline: "}
    assert said.get(width, f"W={width} ") in report, report
