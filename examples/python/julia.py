"""Draw a Julia set and write it as PNG, with the standard library alone.

python examples/python/julia.py [julia.png]
"""

from __future__ import annotations

import ctypes
import struct
import sys
import zlib

from cuda.core import Device, EventOptions, LaunchConfig, Program, ProgramOptions, launch

SOURCE = r"""
extern "C" __global__ void julia(uchar3* pixels, int width, int height, float2 c) {
  const int px = threadIdx.x + blockIdx.x * blockDim.x, py = threadIdx.y + blockIdx.y * blockDim.y;
  if (px >= width || py >= height) return;
  float x = 3.2f * (px - 0.5f * width) / width, y = 3.2f * (py - 0.5f * height) / width;
  int step = 0;
  for (; step < 256 && x * x + y * y < 16.0f; ++step) {
    const float next = x * x - y * y + c.x;
    y = 2.0f * x * y + c.y;
    x = next;
  }
  // A smooth count of steps, and a palette of three shifted waves.
  const float smooth = step == 256 ? 0.0f : (step + 1 - log2f(0.5f * log2f(x * x + y * y))) / 64.0f;
  const auto wave = [&](float shift) {
    return static_cast<unsigned char>(step == 256 ? 0 : 127.5f - 127.5f * cospif(2.0f * (smooth + shift)));
  };
  pixels[py * width + px] = make_uchar3(wave(0.05f), wave(0.0f), wave(-0.1f));
}
"""


class float2(ctypes.Structure):
    _fields_ = [("x", ctypes.c_float), ("y", ctypes.c_float)]


def png(width: int, height: int, rgb: bytes) -> bytes:
    """A PNG file: signature, header, the rows (each with filter 0 in front) compressed, end."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + rgb[3 * width * y : 3 * width * (y + 1)] for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def main() -> None:
    path = sys.argv[1] if len(sys.argv) > 1 else "julia.png"
    width, height = 640, 400
    device = Device()
    device.set_current()
    stream = device.create_stream()
    kernel = (
        Program(SOURCE, "c++", ProgramOptions(std="c++17", arch=f"sm_{device.arch}"))
        .compile("cubin")
        .get_kernel("julia")
    )

    pixels = bytearray(3 * width * height)
    config = LaunchConfig(grid=((width + 31) // 32, (height + 7) // 8), block=(32, 8))
    arguments = (ctypes.c_int(width), ctypes.c_int(height), float2(-0.79, 0.15))
    timed = EventOptions(timing_enabled=True)
    with device.allocate(len(pixels), stream=stream) as buffer:
        launch(stream, config, kernel, buffer, *arguments)  # the first launch makes machine code
        start = stream.record(options=timed)
        launch(stream, config, kernel, buffer, *arguments)
        end = stream.record(options=timed)
        buffer.copy_to(pixels, stream=stream)
        stream.sync()

    assert len(set(pixels)) > 100, "a picture, not a flat colour"
    with open(path, "wb") as file:
        file.write(png(width, height, bytes(pixels)))
    print(f"{device.name}: {path}, {width} x {height}, computed in {end - start:.2f} ms")


if __name__ == "__main__":
    main()
