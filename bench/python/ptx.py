# SPDX-License-Identifier: Apache-2.0
"""The empty kernels of the overhead benchmarks: k<n> has n arguments (pointer, float, int, double, repeated)."""

from __future__ import annotations

COUNTS = (0, 3, 8, 16, 256)


def _entry(count: int) -> str:
    kinds = (".u64", ".f32", ".u32", ".f64")
    return f".visible .entry k{count}({', '.join(f'.param {kinds[i % 4]} p{i}' for i in range(count))}) {{ ret; }}\n"


PTX = ".version 7.5\n.target sm_75\n.address_size 64\n" + "".join(_entry(n) for n in COUNTS)
