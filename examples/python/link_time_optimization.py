"""Compile two sources apart and link them: relocatable code, and LTO-IR where nvJitLink is installed.

python examples/python/link_time_optimization.py
"""

from __future__ import annotations

import ctypes

from cuda.core import Device, LaunchConfig, Linker, LinkerOptions, ObjectCode, Program, ProgramOptions, launch

LIBRARY = "__device__ float shape(float x) { return x * x + 1.0f; }"
PROGRAM = """
__device__ float shape(float x);
extern "C" __global__ void apply(float* data, size_t n) {
  size_t i = threadIdx.x + size_t{blockIdx.x} * blockDim.x;
  if (i < n) data[i] = shape(data[i]);
}
"""


def build(device: Device, target: str) -> ObjectCode:
    arch = f"sm_{device.arch}"
    options = ProgramOptions(arch=arch, relocatable_device_code=True)
    parts = [Program(source, "c++", options).compile(target) for source in (LIBRARY, PROGRAM)]
    linker = Linker(*parts, options=LinkerOptions(arch=arch, link_time_optimization=target == "ltoir"))
    code = linker.link("cubin")
    print(f"{target}: {sum(len(part.code) for part in parts)} bytes linked by {linker.backend}")
    linker.close()
    return code


def main() -> None:
    device = Device()
    device.set_current()
    stream = device.create_stream()
    targets = ["cubin", "ltoir"] if Linker.which_backend() == "nvJitLink" else ["cubin"]
    for target in targets:
        kernel = build(device, target).get_kernel("apply")
        data = (ctypes.c_float * 4)(1, 2, 3, 4)
        with device.allocate(ctypes.sizeof(data), stream=stream) as buffer:
            buffer.copy_from(data, stream=stream)
            launch(stream, LaunchConfig(grid=1, block=32), kernel, buffer, ctypes.c_size_t(4))
            buffer.copy_to(data, stream=stream)
            stream.sync()
        assert list(data) == [2, 5, 10, 17]
    print("right")
    stream.close()


if __name__ == "__main__":
    main()
