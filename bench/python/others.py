# SPDX-License-Identifier: Apache-2.0
"""Measures the same rows with other packages: others.py CuPy|Triton|numba-cuda [NAME...]. One package per process.

Exits with status 3 and the reason on standard error if the package cannot be used.
"""

from __future__ import annotations

import ctypes
import os
import site
import sys
import warnings
from collections.abc import Callable
from typing import Any

from ptx import PTX

warnings.simplefilter("ignore")

SOURCE = 'extern "C" __global__ void k{}({}) {{}}'
KINDS = ("float* p{}", "float f{}", "int i{}", "double d{}")
COUNTS = (0, 3, 8, 16)
SMALL = 'extern "C" __global__ void scale(float* p, float f, int n) { int i = threadIdx.x; if (i < n) p[i] *= f; }'


def spelled_out(text: str, count: int, values: tuple[object, ...], names: dict[str, Any]) -> Callable[[], Any]:
    """lambda: <text with its arguments>, as a user would write it."""
    arguments = {f"a{i}": values[i % 4] for i in range(count)}
    return eval("lambda: " + text.format(", ".join(arguments)), {**names, **arguments})


def cupy_rows(suite: Any) -> None:
    import cupy  # type: ignore[import-not-found]
    import numpy as np

    stream, other = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    drain = stream.synchronize
    array = cupy.zeros(1 << 18, cupy.float32)
    values = (array, np.float32(1), np.int32(2), np.float64(3))
    stream.use()
    for count in COUNTS:
        parameters = ", ".join(KINDS[i % 4].format(i) for i in range(count))
        kernel = cupy.RawKernel(SOURCE.format(count, parameters), f"k{count}")
        call = spelled_out("k((1,), (32,), ({}))", count, values, {"k": kernel})
        suite.run(f"launch_{count}", lambda call=call: call, drain, batch=400)

    def module() -> Any:
        made = cupy.cuda.function.Module()
        made.load(PTX.encode())
        return made

    def get_kernel_call() -> Callable[[], Any]:
        loaded = module()
        return lambda: loaded.get_function("k3")

    def launch_256_call() -> Callable[[], Any]:
        function = module().get_function("k256")
        together = tuple(values[i % 4] for i in range(256))
        return lambda: function((1,), (32,), together, stream=stream)

    suite.run("get_kernel", get_kernel_call)
    suite.run("module_load", lambda: lambda: module().get_function("k0"), batch=1)
    suite.run("launch_256", launch_256_call, drain, batch=400)
    compiler = cupy.cuda.compiler.compile_using_nvrtc
    suite.run("compile", lambda: lambda: compiler(SMALL, (), None, "default_program.cu"), batch=1)
    event = cupy.cuda.Event(disable_timing=True)
    suite.run("device", lambda: lambda: cupy.cuda.Device(0))
    suite.run("event_create_close", lambda: lambda: cupy.cuda.Event(disable_timing=True), batch=300)
    suite.run("stream_create_close", lambda: lambda: cupy.cuda.Stream(non_blocking=True), batch=100)
    suite.run("device_current", lambda: lambda: cupy.cuda.Device())
    suite.run("set_current", lambda: lambda: cupy.cuda.Device(0).use())
    suite.run("stream_sync", lambda: drain)
    suite.run("event_record", lambda: lambda: event.record(stream), drain, batch=500)
    suite.run("stream_wait", lambda: lambda: other.wait_event(event), other.synchronize, batch=500)
    suite.run("event_is_done", lambda: lambda: event.done)
    first, last = cupy.cuda.Event(), cupy.cuda.Event()
    first.record(stream)
    last.record(stream)
    drain()
    suite.run("event_elapsed", lambda: lambda: cupy.cuda.get_elapsed_time(first, last))
    for name, size in (("4k", 4096), ("1m", 1 << 20)):
        suite.run(f"alloc_free_{name}", lambda size=size: lambda: cupy.cuda.alloc(size), drain, batch=300)
    small = cupy.cuda.alloc(4096)
    suite.run("fill_4k", lambda: lambda: small.memset_async(0, 4096, stream), drain, batch=300)
    suite.run("dlpack_export", lambda: lambda: array.__dlpack__(stream=-1))

    kept: list[Any] = []

    def copy_call(size: int, to_device: bool) -> Callable[[], Any]:
        host, device = cupy.cuda.alloc_pinned_memory(size), cupy.cuda.alloc(size)
        address = ctypes.c_void_p(host.ptr)
        kept.append(host)
        if to_device:
            return lambda: device.copy_from_host_async(address, size, stream)
        return lambda: device.copy_to_host_async(address, size, stream)

    for name, size, batch in (("4", 4, 300), ("1m", 1 << 20, 20)):
        suite.run(f"copy_{name}_to_device", lambda size=size: copy_call(size, True), drain, batch)
        suite.run(f"copy_{name}_to_host", lambda size=size: copy_call(size, False), drain, batch)

    nothing = cupy.RawKernel(SOURCE.format(0, ""), "k0")

    def captured() -> Any:
        stream.begin_capture()
        for _ in range(20):
            nothing((1,), (32,), ())
        return stream.end_capture()  # instantiated too

    def graph_call() -> Callable[[], Any]:
        graph = captured()
        return lambda: graph.launch(stream)

    suite.run("graph_build_20", lambda: captured, drain, batch=10)
    suite.run("graph_launch_20", graph_call, drain, batch=50)


def triton_rows(suite: Any) -> None:
    import torch  # type: ignore[import-not-found]
    from triton_kernels import KERNELS

    tensor = torch.zeros(1 << 18, device="cuda")
    drain = torch.cuda.synchronize
    for count, kernel in KERNELS.items():
        call = spelled_out("k[(1,)]({})", count, (tensor, 1.0, 2, 3.0), {"k": kernel})
        suite.run(f"launch_{count}", lambda call=call: call, drain, batch=400)


def numba_rows(suite: Any) -> None:
    import numpy as np
    from numba import cuda  # type: ignore[import-not-found]

    stream = cuda.stream()
    drain = stream.synchronize
    array = cuda.to_device(np.zeros(1 << 18, np.float32))
    values = (array, np.float32(1), np.int32(2), np.float64(3))
    for count in COUNTS:
        names = ", ".join(f"a{i}" for i in range(count))
        space: dict[str, Any] = {}
        exec(f"def k({names}):\n    pass\n", space)
        kernel = cuda.jit(space["k"])[1, 32, stream]
        call = spelled_out("k({})", count, values, {"k": kernel})
        suite.run(f"launch_{count}", lambda call=call: call, drain, batch=400)
    event = cuda.event(timing=False)
    suite.run("device_current", lambda: cuda.get_current_device)
    suite.run("set_current", lambda: lambda: cuda.select_device(0))
    suite.run("stream_sync", lambda: drain)
    suite.run("event_record", lambda: lambda: event.record(stream), drain, batch=500)
    suite.run("stream_wait", lambda: lambda: event.wait(stream), drain, batch=500)
    suite.run("event_is_done", lambda: event.query)
    first, last = cuda.event(), cuda.event()
    first.record(stream)
    last.record(stream)
    drain()
    suite.run("event_elapsed", lambda: lambda: cuda.event_elapsed_time(first, last))
    for name, size in (("4k", 4096), ("1m", 1 << 20)):
        suite.run(
            f"alloc_free_{name}",
            lambda size=size: lambda: cuda.device_array(size, np.uint8, stream=stream),
            drain,
            batch=300,
        )

    def copy_call(size: int, to_device: bool) -> Callable[[], Any]:
        host, device = cuda.pinned_array(size, np.uint8), cuda.device_array(size, np.uint8)
        if to_device:
            return lambda: device.copy_to_device(host, stream=stream)
        return lambda: device.copy_to_host(host, stream=stream)

    for name, size, batch in (("4", 4, 300), ("1m", 1 << 20, 20)):
        suite.run(f"copy_{name}_to_device", lambda size=size: copy_call(size, True), drain, batch)
        suite.run(f"copy_{name}_to_host", lambda size=size: copy_call(size, False), drain, batch)
    suite.run("stream_create_close", lambda: cuda.stream, batch=100)
    suite.run("event_create_close", lambda: lambda: cuda.event(timing=False), batch=300)


ROWS = {"CuPy": cupy_rows, "Triton": triton_rows, "numba-cuda": numba_rows}


def main() -> int:
    side = sys.argv.pop(1)
    try:
        if side == "CuPy":
            import cupy  # noqa: F401
        elif side == "Triton":
            import torch  # noqa: F401
            import triton  # noqa: F401
        else:
            if folder := os.environ.get("CUCORE_TEST_OTHERS"):
                site.addsitedir(folder)  # its .pth file replaces numba.cuda of numba with numba-cuda
            from numba import cuda  # noqa: F401
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 3
    from timing import Suite

    suite = Suite()
    ROWS[side](suite)
    suite.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
