"""A kernel of your own on CuPy arrays, on CuPy's stream; no copy on the way in or out.

Needs CuPy and a GPU; says so and ends where there is none.
"""

from __future__ import annotations

import numpy as np
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

try:
    import cupy
except ImportError:
    cupy = None

SOURCE = r"""
extern "C" __global__ void hypotenuse(const float* a, const float* b, float* c, size_t n) {
  size_t i = threadIdx.x + size_t{blockIdx.x} * blockDim.x;
  if (i < n) c[i] = hypotf(a[i], b[i]);
}
"""


class CuPyStream:
    """CuPy's current stream, by the protocol that `create_stream` understands."""

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, cupy.cuda.get_current_stream().ptr


def main(n: int = 10_000) -> None:
    if cupy is None or cupy.cuda.runtime.getDeviceCount() == 0:
        print("skipped: CuPy with a GPU is not here")
        return
    device = Device()
    device.set_current()
    kernel = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin").get_kernel("hypotenuse")

    a, b = (cupy.random.rand(n, dtype=cupy.float32) for _ in range(2))
    c = cupy.empty_like(a)
    with cupy.cuda.Stream():  # any stream of CuPy's
        stream = device.create_stream(CuPyStream())
        config = LaunchConfig(grid=(n + 255) // 256, block=256)
        launch(stream, config, kernel, a.data.ptr, b.data.ptr, c.data.ptr, np.uint64(n))
        assert cupy.allclose(c, cupy.hypot(a, b))
    print(f"{device.name}: {n:,} elements, equal to CuPy's")


if __name__ == "__main__":
    main()
