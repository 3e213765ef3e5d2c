"""The kernels of the overhead benchmarks: k0, k3, ... do nothing with so many arguments (pointer, float, int, double in turn)."""

from __future__ import annotations

COUNTS = (0, 3, 8, 16, 256)


def _entry(count: int) -> str:
    kinds = (".u64", ".f32", ".u32", ".f64")
    return f".visible .entry k{count}({', '.join(f'.param {kinds[i % 4]} p{i}' for i in range(count))}) {{ ret; }}\n"


PTX = ".version 7.5\n.target sm_75\n.address_size 64\n" + "".join(_entry(n) for n in COUNTS)
