"""Keep compiled programs on disk, so that the next start need not compile.

python examples/python/program_cache.py [folder]
"""

from __future__ import annotations

import sys
import tempfile
import time

from cuda.core import Program, ProgramOptions
from cuda.core.utils import FileStreamProgramCache

SOURCE = """
template <int N> __global__ void power(double* p) {
  double x = 1;
  for (int i = 0; i < N; ++i) x *= p[threadIdx.x];
  p[threadIdx.x] = x;
}
"""


def main() -> None:
    folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp() + "/programs"
    names = tuple(f"power<{n}>" for n in range(1, 20))
    codes = []
    with FileStreamProgramCache(folder, max_size_bytes=100_000_000) as cache:
        for turn in ("first", "second"):
            start = time.perf_counter()
            program = Program(SOURCE, "c++", ProgramOptions(arch="sm_90"))
            codes.append(program.compile("cubin", name_expressions=names, cache=cache))
            print(f"{turn} time: {(time.perf_counter() - start) * 1e3:.1f} ms, {len(cache)} entries in {folder}")
    assert codes[0].code == codes[1].code
    assert codes[0].symbol_mapping == codes[1].symbol_mapping


if __name__ == "__main__":
    main()
