"""Compile a C++ template for several types and launch each: name expressions.

python examples/python/templates.py          # with a GPU, or with no GPU on the CPU device
"""

from __future__ import annotations

import ctypes
from typing import Any

from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

SOURCE = """
template <typename T>
__global__ void axpy(T a, const T* x, T* y, size_t n) {
  size_t i = threadIdx.x + size_t{blockIdx.x} * blockDim.x;
  if (i < n) y[i] += a * x[i];
}
"""


def main() -> None:
    device = Device()
    device.set_current()
    stream = device.create_stream()

    names: dict[str, Any] = {"axpy<float>": ctypes.c_float, "axpy<double>": ctypes.c_double, "axpy<int>": ctypes.c_int}
    program = Program(SOURCE, "c++", ProgramOptions(std="c++17", arch=f"sm_{device.arch}"))
    code = program.compile("cubin", name_expressions=tuple(names))

    n = 1000
    config = LaunchConfig(grid=(n + 255) // 256, block=256)
    for name, ctype in names.items():
        kernel = code.get_kernel(name)
        x, y = (ctype * n)(*range(n)), (ctype * n)()
        with (
            device.allocate(ctypes.sizeof(x), stream=stream) as x_buffer,
            device.allocate(ctypes.sizeof(y), stream=stream) as y_buffer,
        ):
            x_buffer.copy_from(x, stream=stream)
            y_buffer.copy_from(y, stream=stream)
            launch(stream, config, kernel, ctype(3), x_buffer, y_buffer, ctypes.c_size_t(n))
            y_buffer.copy_to(y, stream=stream)
            stream.sync()
        assert list(y) == [3 * i for i in range(n)]
        print(f"{name}: symbol {code.symbol_mapping[name]}, {kernel.attributes.num_regs} registers, right")
    stream.close()


if __name__ == "__main__":
    main()
