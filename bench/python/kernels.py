"""Runs the kernel benchmark: the CPU device against native C++, in one process; prints ratios.

    python bench/python/kernels.py [--build FOLDER] [--rounds N] [kernel ...]

NVRTC comes from NVIDIA's wheel (or the toolkit), the driver library and the benchmark from the build folder.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def find_nvrtc() -> str:
    site = Path(sysconfig.get_path("purelib"))
    for pattern in ("nvidia/cu*/lib/libnvrtc.so.*", "nvidia/cuda_nvrtc/lib/libnvrtc.so.*"):
        found = sorted(path for path in site.glob(pattern) if "builtins" not in path.name and "alt" not in path.name)
        if found:
            return str(found[-1])
    return "libnvrtc.so.13"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("kernels", nargs="*", help="parts of names; all when none is given")
    arguments = parser.parse_args()
    program = arguments.build / "bench/cpp/kernels/bench_kernels"
    driver = arguments.build / "cpu/libcucore_cpu.so"
    for needed in (program, driver):
        if not needed.exists():
            print(f"{needed} is not there: build with -DCUCORE_BENCH=ON, targets bench_kernels and cucore_cpu", file=sys.stderr)
            return 2
    # Threads of OpenMP that spin between loops would take time from the other side.
    environment = dict(os.environ, KERNELS_ROUNDS=str(arguments.rounds), OMP_WAIT_POLICY="passive")
    return subprocess.run([str(program), str(driver.resolve()), find_nvrtc(), *arguments.kernels], env=environment).returncode


if __name__ == "__main__":
    raise SystemExit(main())
