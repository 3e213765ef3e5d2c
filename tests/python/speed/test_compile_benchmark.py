# SPDX-License-Identifier: Apache-2.0
"""The compile benchmark: extraction of single kernels, and the goals in its table."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).parents[3] / "bench/python"

PTX = """.version 8.0
.target sm_90
.address_size 64
\t// .globl\tfirst
.global .align 4 .u32 kept;

.visible .entry first(
\t.param .u64 first_param_0
)
{
\t.reg .b32 %r<2>;
\tmov.u32 %r1, %tid.x;
\tret;
}
\t// .globl\tsecond
.visible .entry second(
\t.param .u64 second_param_0,
\t.param .f32 second_param_1,
\t.param .u64 .ptr .global .align 4 second_param_2
)
{
\tret;
}
"""


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("numpy")
    monkeypatch.syspath_prepend(str(BENCH))
    yield importlib.import_module
    for name in [name for name in sys.modules if name.partition(".")[0] == "kernel_bench"]:
        del sys.modules[name]


def test_single_kernel_is_extracted_from_a_ptx_file(bench: Any) -> None:
    compiling = bench("kernel_bench.compiling")
    first, second = (compiling.alone(PTX, name) for name in ("first", "second"))
    assert first.startswith(".version 8.0\n.target sm_90") and second.startswith(".version 8.0\n.target sm_90")
    assert ".entry first(" in first and ".entry second(" not in first
    assert ".entry second(" in second and ".entry first(" not in second
    assert compiling.instructions(first) == 2 and compiling.instructions(second) == 1
    with pytest.raises(AssertionError):
        compiling.alone(PTX, "third")


def test_parameter_types_are_read_from_ptx(bench: Any) -> None:
    first_launch = bench("kernel_bench.first_launch")
    assert first_launch.parameters(PTX, "first") == ["u64"]
    assert first_launch.parameters(PTX, "second") == ["u64", "f32", "u64"]


def test_table_marks_goals_as_met_or_missed(bench: Any) -> None:
    row, table = bench("kernel_bench.compiling").Compiling, bench("kernel_bench.page").compiled
    lines = table(
        [row("saxpy", 20, 15e6, 12e6, 12e6, 3e6, 0), row("large", 300, 100e6, 250e6, 400e6, 5e6, 2)],
    ).splitlines()
    assert lines[2] == "| saxpy, 20 instructions | 15 ms | 0.80 met | nothing met | 0.25 | 0.80 |"
    assert lines[3] == "| large, 300 instructions | 100 ms | 2.50 missed | 2 times missed | 0.02 | 4.00 |"
