"""All devices of the machine share one job: a thread per device takes part after part until none is left.

    CUCORE_CPU_DEVICES=4 python examples/python/many_devices.py     # four CPU devices, on any machine

The result is compared with that of one device alone.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Sequence

import numpy as np
from cuda.core import Device, LaunchConfig, ObjectCode, PinnedMemoryResource, Program, ProgramOptions, launch

SOURCE = r"""
// How many steps a point of the complex plane takes to leave the circle of radius 2.
extern "C" __global__ void escape_times(int* out, int first_row, int width, int height, int limit) {
    int x = threadIdx.x + blockIdx.x * blockDim.x, y = blockIdx.y;
    if (x >= width) return;
    float cx = 3.0f * x / width - 2.25f, cy = 2.5f * (y + first_row) / height - 1.25f, zx = 0, zy = 0;
    int steps = 0;
    for (; steps < limit && zx * zx + zy * zy < 4; ++steps) {
        float next = zx * zx - zy * zy + cx;
        zy = 2 * zx * zy + cy;
        zx = next;
    }
    out[y * width + x] = steps;
}
"""
LIMIT = 200


class Progress:
    """One line that changes on a terminal; elsewhere one line at the end."""

    def __init__(self, total: int) -> None:
        self.lock, self.total, self.done = threading.Lock(), total, 0
        self.by_device: dict[int, int] = {}

    def add(self, device: int) -> None:
        with self.lock:
            self.done += 1
            self.by_device[device] = self.by_device.get(device, 0) + 1
            last = self.done == self.total
            if sys.stdout.isatty() or last:
                shares = ", ".join(f"device {d}: {n}" for d, n in sorted(self.by_device.items()))
                line = f"{100 * self.done // self.total:3d} % of {self.total} parts ({shares})"
                print(f"\r\033[K{line}" if sys.stdout.isatty() else line, end="\n" if last else "", flush=True)


def compute(devices: Sequence[Device], code: ObjectCode, width: int, height: int, rows: int) -> np.ndarray:
    """The whole image. Its parts are in pinned memory, which every device writes in place."""
    starts = list(range(0, height, rows))
    numbers, progress = itertools.count(), Progress(len(starts))  # count() hands each number to one thread
    image = PinnedMemoryResource().allocate(4 * width * height, stream=devices[0].default_stream)
    devices[0].default_stream.sync()

    def work(device: Device) -> None:
        device.set_current()  # for this thread
        stream, kernel = device.create_stream(), code.get_kernel("escape_times")
        part = device.allocate(4 * width * rows, stream=stream)
        pixels = np.from_dlpack(image).view(np.int32).reshape(height, width)
        while (number := next(numbers)) < len(starts):
            first = starts[number]
            count = min(rows, height - first)
            config = LaunchConfig(grid=((width + 127) // 128, count), block=128)
            launch(stream, config, kernel, part, *map(np.int32, (first, width, height, LIMIT)))
            block = np.empty((rows, width), np.int32)
            part.copy_to(block, stream=stream)
            stream.sync()
            pixels[first : first + count] = block[:count]
            progress.add(device.device_id)

    threads = [threading.Thread(target=work, args=(device,)) for device in devices]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return np.from_dlpack(image).view(np.int32).reshape(height, width).copy()


def main(width: int = 640, height: int = 480, rows: int = 16) -> None:
    devices = Device.get_all_devices()
    devices[0].set_current()
    code = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{devices[0].arch}")).compile("cubin")
    together = compute(devices, code, width, height, rows)
    alone = compute(devices[:1], code, width, height, rows)
    assert np.array_equal(together, alone) and together.max() == LIMIT and together.min() < 3
    print(f"{len(devices)} devices and one device agree on {width} x {height} points")


if __name__ == "__main__":
    main()
