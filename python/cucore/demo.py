# SPDX-License-Identifier: Apache-2.0
"""`cucore demo`: compiles and runs a kernel, verifies the result and reports each step."""

from __future__ import annotations

import importlib.util
import sys
import time
import warnings
from typing import Any

from . import mixed, terminal

SOURCE = r"""
extern "C" __global__ void saxpy(float a, const float* x, const float* y, float* out, size_t n) {
    size_t i = threadIdx.x + size_t{blockIdx.x} * blockDim.x;
    if (i < n) out[i] = a * x[i] + y[i];
}
"""
INSTALL = 'pip install "cucore[cu13]"'


class Report:
    """Prints lines as they are reported, or one JSON object at the end."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.values: dict[str, Any] = {}

    def begin(self, title: str) -> None:
        if not self.as_json and sys.stdout.isatty():
            print(f"  {title} ...", end="\r", flush=True)

    def add(self, title: str, text: str, **values: Any) -> None:
        self.values.update(values)
        if not self.as_json:
            terminal.row(f"  {title}", text, column=19)

    def end(self, status: int, error: str = "") -> int:
        if error:
            terminal.complain("demo", error)
        if self.as_json:
            terminal.print_json({"ok": status == 0, **({"error": error} if error else {}), **self.values})
        return status


def missing() -> str:
    """Returns the missing components with the command that installs them; empty if there are none."""
    if importlib.util.find_spec("numpy") is None:
        return f"NumPy is not installed: {INSTALL}"
    return ""


def first_sentence(error: BaseException) -> str:
    """Returns an error in one line. For a list of places searched: the line above it, or why the last place failed."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    if not lines[0].endswith("Tried:"):
        return lines[0]
    above = lines[0].removesuffix(" Tried:").rstrip(".")
    return above if lines[-1].startswith("Set ") else lines[-1]  # the list may end with advice


def demo(n: int = 1 << 22, as_json: bool = False) -> int:
    report = Report(as_json)
    if reason := missing():
        return report.end(1, reason)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the report names the CPU device
        try:
            from cuda.core import Device

            device = Device()
            device.set_current()
        except Exception as error:
            reason = mixed.summary() if isinstance(error, ImportError) else ""
            reason = reason or f"no device can be used: {first_sentence(error)}"
            return report.end(1, f"{reason} (cucore doctor says what to do)")
    from cuda.pathfinder import DynamicLibNotFoundError

    try:
        return saxpy(device, n, report)
    except DynamicLibNotFoundError as error:
        return report.end(1, f"{first_sentence(error)}")


def saxpy(device: Any, n: int, report: Report) -> int:
    import numpy as np
    from cuda.core import EventOptions, LaunchConfig, PinnedMemoryResource, Program, ProgramOptions, launch

    if not report.as_json:
        print("saxpy: out = a * x + y, in CUDA C++")
    capability = ".".join(map(str, device.compute_capability))
    text = f"{device.name}, compute capability {capability}"
    report.add("device", text, device=device.name, compute_capability=capability)

    report.begin("compiling")
    start = time.perf_counter()
    options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
    kernel = Program(SOURCE, code_type="c++", options=options).compile("cubin").get_kernel("saxpy")
    milliseconds = (time.perf_counter() - start) * 1e3
    report.add("compiled in", f"{milliseconds:.1f} ms", compile_ms=milliseconds)

    stream = device.create_stream()
    random = np.random.default_rng(1)
    nbytes = n * 4
    pinned = PinnedMemoryResource()
    host = [pinned.allocate(nbytes, stream=stream) for _ in range(3)]
    stream.sync()
    x, y, result = (np.frombuffer(memoryview(buffer), np.float32) for buffer in host)
    x[:] = random.random(n, dtype=np.float32)
    y[:] = random.random(n, dtype=np.float32)
    buffers = [device.allocate(nbytes, stream=stream) for _ in range(3)]
    for buffer, data in zip(buffers[:2], host[:2], strict=True):
        buffer.copy_from(data, stream=stream)

    config = LaunchConfig(grid=(n + 255) // 256, block=256)
    arguments = (np.float32(2.5), *buffers, np.uint64(n))
    report.begin("first launch (machine code is made now)")
    start = time.perf_counter()
    launch(stream, config, kernel, *arguments)
    stream.sync()
    milliseconds = (time.perf_counter() - start) * 1e3
    report.add("first launch", f"{milliseconds:.1f} ms, machine code included", first_launch_ms=milliseconds)

    repeats = 20
    timing = EventOptions(timing_enabled=True)
    begin = stream.record(options=timing)
    for _ in range(repeats):
        launch(stream, config, kernel, *arguments)
    end = stream.record(options=timing)
    end.sync()
    milliseconds = (end - begin) / repeats
    report.add("kernel time", f"{milliseconds:.3f} ms for {n:,} elements", kernel_ms=milliseconds, elements=n)
    bandwidth = 3 * nbytes / milliseconds / 1e6
    report.add("bandwidth", f"{bandwidth:.1f} GB/s", gigabytes_per_second=bandwidth)

    buffers[2].copy_to(host[2], stream=stream)
    stream.sync()
    expected = np.float32(2.5) * x + y
    right = bool(np.allclose(result, expected, rtol=1e-6))
    report.add("against NumPy", "✓ equal" if right else "✗ DIFFERENT", equal=right)
    return report.end(0 if right else 1)
