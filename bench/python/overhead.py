# SPDX-License-Identifier: Apache-2.0
"""Measures calls of `cuda.core` and `cuda.bindings`, with cucore's packages or NVIDIA's on the path.

Names on the command line select rows. Rows have the same names in bench/cpp/overhead and bench/python/others.py.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable
from itertools import repeat
from typing import Any

from pages import large_page
from ptx import COUNTS, PTX
from timing import COUNTED, Suite

warnings.simplefilter("ignore")
from cuda.bindings import driver, nvrtc, runtime  # noqa: E402
from cuda.core import (  # noqa: E402
    Device,
    EventOptions,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    ObjectCode,
    Program,
    ProgramOptions,
    launch,
)

if not COUNTED:  # callgrind cannot read NumPy's libraries everywhere
    import numpy as np

suite = Suite()
dev = Device(0)
dev.set_current()
stream = dev.create_stream()
other = dev.create_stream()
quiet = dev.create_stream()  # never used otherwise: the time of a query depends on the stream's history
drain = stream.sync
code = ObjectCode.from_ptx(PTX.encode())
kernels = {n: code.get_kernel(f"k{n}") for n in COUNTS}
small = dev.allocate(4096, stream=stream)
large = dev.allocate(1 << 20, stream=stream)
config = LaunchConfig(grid=1, block=32)
host_4 = (ctypes.c_float * 1)() if COUNTED else np.zeros(1, np.float32)
host_1m = (ctypes.c_float * (1 << 18))() if COUNTED else np.zeros(1 << 18, np.float32)
SOURCE = 'extern "C" __global__ void scale(float* p, float f, int n) { int i = threadIdx.x; if (i < n) p[i] *= f; }'


def launch_call(count: int) -> Callable[[], Any]:
    """lambda: launch(stream, config, kernel, a0, a1, ...), as a user would write it."""
    values: tuple[object, ...] = (large, 1.0, 2, 3.0) if COUNTED else (large, np.float32(1), np.int32(2), np.float64(3))
    names = {f"a{i}": values[i % 4] for i in range(count)}
    if count > 16:  # passed as a tuple: loading so many names would dominate the measurement
        kernel, together = kernels[count], tuple(names.values())
        return lambda: launch(stream, config, kernel, *together)
    text = f"lambda: launch({', '.join(['stream', 'config', 'kernel', *names])})"
    return eval(text, {"launch": launch, "stream": stream, "config": config, "kernel": kernels[count], **names})


# ---- devices, streams, events, kernels
suite.run("device", lambda: lambda: Device(0))
suite.run("device_current", lambda: lambda: Device())
suite.run("set_current", lambda: lambda: dev.set_current())
for count in COUNTS:
    suite.run(f"launch_{count}", lambda: launch_call(count), drain, batch=400)
suite.run("launch_config", lambda: lambda: LaunchConfig(grid=1, block=32))
suite.run("launch_config_3d", lambda: lambda: LaunchConfig(grid=(8, 8, 1), block=(32, 4, 1), shmem_size=1024))
suite.run("get_kernel", lambda: lambda: code.get_kernel("k3"))
suite.run("module_load", lambda: lambda: ObjectCode.from_ptx(PTX.encode()).get_kernel("k0"), batch=1)
suite.run("stream_create_close", lambda: lambda: dev.create_stream().close(), batch=100)
suite.run("stream_sync", lambda: lambda: stream.sync())
event = dev.create_event()
suite.run("event_create_close", lambda: lambda: dev.create_event().close(), batch=300)
suite.run("event_record", lambda: lambda: stream.record(event), drain, batch=500)
suite.run("stream_wait", lambda: lambda: other.wait(event), other.sync, batch=500)
suite.run("event_is_done", lambda: lambda: event.is_done)
timed = EventOptions(timing_enabled=True)
start, end = stream.record(options=timed), stream.record(options=timed)
end.sync()
suite.run("event_elapsed", lambda: lambda: end - start)

# ---- memory
suite.run("alloc_free_4k", lambda: lambda: dev.allocate(4096, stream=stream).close(stream), drain, batch=300)
suite.run("alloc_free_1m", lambda: lambda: dev.allocate(1 << 20, stream=stream).close(stream), drain, batch=300)
suite.run("fill_4k", lambda: lambda: small.fill(0, stream=stream), drain, batch=300)
pinned = LegacyPinnedMemoryResource()


def copy_call(size: int, to_device: bool) -> Callable[[], Any]:
    host, device = pinned.allocate(size, stream=stream), dev.allocate(size, stream=stream)
    if to_device:
        return lambda: device.copy_from(host, stream=stream)
    return lambda: device.copy_to(host, stream=stream)


suite.run("copy_4_to_device", lambda: copy_call(4, True), drain, batch=300)
suite.run("copy_4_to_host", lambda: copy_call(4, False), drain, batch=300)
suite.run("copy_1m_to_device", lambda: copy_call(1 << 20, True), drain, batch=20)
suite.run("copy_1m_to_host", lambda: copy_call(1 << 20, False), drain, batch=20)


# ---- graphs
def captured(launches: int = 20) -> Any:
    builder = stream.create_graph_builder()
    builder.begin_building()
    for _ in repeat(None, launches):
        launch(builder, config, kernels[0])
    return builder.end_building()


suite.run("graph_build_20", lambda: lambda: captured().complete().close(), drain, batch=10)
suite.run("graph_capture_20", lambda: lambda: captured().close(), drain, batch=10)


def instantiate_call() -> Callable[[], Any]:
    builder = captured()
    return lambda: builder.complete().close()


def update_call(launches: int = 20) -> Callable[[], Any]:
    builder, whole = captured(launches), captured(launches).complete()
    return lambda: whole.update(builder)


def graph_launch_call(launches: int = 20) -> Callable[[], Any]:
    graph = captured(launches).complete()
    return lambda: graph.launch(stream)


suite.run("graph_instantiate_20", instantiate_call, drain, batch=10)
suite.run("graph_update_20", update_call, drain, batch=10)
suite.run("graph_launch_20", graph_launch_call, drain, batch=50)
if not COUNTED:
    suite.run("graph_capture_1000", lambda: lambda: captured(1000).close(), drain, batch=1)
    suite.run("graph_update_1000", lambda: update_call(1000), drain, batch=1)
    suite.run("graph_launch_1000", lambda: graph_launch_call(1000), drain, batch=1)

# ---- cuda.bindings: one row for every kind of argument and result
attribute = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_WARP_SIZE
handle, quiet_handle = driver.CUstream(int(stream.handle)), driver.CUstream(int(quiet.handle))
raw_event = driver.cuEventCreate(2)[1]
pointer = int(large.handle)
device_pointer = driver.CUdeviceptr(pointer)
suite.run("b_device_get_count", lambda: lambda: driver.cuDeviceGetCount())
get_count = driver.cuDeviceGetCount  # the call alone, without the module's attribute
suite.run("b_device_get_count_alone", lambda: lambda: get_count())
suite.run("b_device_get_attribute", lambda: lambda: driver.cuDeviceGetAttribute(attribute, 0))
suite.run("b_device_get_name", lambda: lambda: driver.cuDeviceGetName(64, 0))
suite.run("b_ctx_get_current", lambda: lambda: driver.cuCtxGetCurrent())
suite.run("b_stream_query", lambda: lambda: driver.cuStreamQuery(quiet_handle))
suite.run("b_event_record", lambda: lambda: driver.cuEventRecord(raw_event, handle), drain, batch=500)
suite.run("b_runtime_get_device", lambda: lambda: runtime.cudaGetDevice())
runtime.cudaSetDevice(0)
runtime_stream = runtime.cudaStream_t(int(quiet.handle))
suite.run("b_runtime_stream_query", lambda: lambda: runtime.cudaStreamQuery(runtime_stream))
if not COUNTED:
    suite.run("b_nvrtc_version", lambda: lambda: nvrtc.nvrtcVersion())
library = driver.cuLibraryLoadData(PTX.encode(), None, None, 0, None, None, 0)[1]
suite.run("b_library_get_kernel", lambda: lambda: driver.cuLibraryGetKernel(library, b"k3"))


def bindings_alloc() -> None:
    _, address = driver.cuMemAllocAsync(4096, handle)
    driver.cuMemFreeAsync(address, handle)


suite.run("b_alloc_free_4k", lambda: bindings_alloc, drain, batch=300)
function = driver.cuKernelGetFunction(driver.cuLibraryGetKernel(library, b"k3")[1])[1]
params = ((pointer, 1.0, 2), (ctypes.c_void_p, ctypes.c_float, ctypes.c_int))
suite.run(
    "b_launch_ctypes",
    lambda: lambda: driver.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, handle, params, 0),
    drain,
    batch=400,
)
held = (ctypes.c_uint64(pointer), ctypes.c_float(1), ctypes.c_int(2))
addresses = (ctypes.c_void_p * 3)(*(ctypes.addressof(value) for value in held))
packed = ctypes.addressof(addresses)
suite.run(
    "b_launch_pointer",
    lambda: lambda: driver.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, handle, packed, 0),
    drain,
    batch=400,
)
address_4 = address_1m = large_page()
suite.run("b_copy_4_to_device", lambda: lambda: driver.cuMemcpyHtoD(device_pointer, address_4, 4), batch=200)
suite.run("b_copy_4_to_host", lambda: lambda: driver.cuMemcpyDtoH(address_4, device_pointer, 4), batch=200)
suite.run("b_copy_1m_to_device", lambda: lambda: driver.cuMemcpyHtoD(device_pointer, address_1m, 1 << 20), batch=20)
suite.run("b_copy_1m_to_host", lambda: lambda: driver.cuMemcpyDtoH(address_1m, device_pointer, 1 << 20), batch=20)
suite.run("b_copy_array", lambda: lambda: driver.cuMemcpyHtoD(device_pointer, host_4, 4), batch=200)
suite.run("b_memset_4k", lambda: lambda: driver.cuMemsetD8Async(device_pointer, 0, 4096, handle), drain, batch=300)


def struct_call() -> Callable[[], Any]:
    shape = driver.CUlaunchConfig()

    def fill() -> None:
        shape.gridDimX = 1
        shape.blockDimX = 32
        shape.hStream = handle

    return fill


suite.run("b_struct_fields", struct_call)

# ---- arrays of other libraries
from cuda.core.utils import StridedMemoryView  # noqa: E402

suite.run("dlpack_export", lambda: lambda: large.__dlpack__(stream=-1))


def cupy_view() -> Callable[[], Any]:
    import cupy  # type: ignore[import-not-found]

    array = cupy.zeros(16, cupy.float32)
    return lambda: StridedMemoryView.from_any_interface(array, stream_ptr=-1)


def torch_view() -> Callable[[], Any]:
    import torch  # type: ignore[import-not-found]

    tensor = torch.zeros(16, device="cuda")
    return lambda: StridedMemoryView.from_any_interface(tensor, stream_ptr=-1)


# ---- compilation
def compile_call(cached: bool) -> Callable[[], Any]:
    options = ProgramOptions(arch=f"compute_{dev.arch}")
    if not cached:
        return lambda: Program(SOURCE, code_type="c++", options=options).compile("ptx")
    from cuda.core.utils import InMemoryProgramCache

    cache = InMemoryProgramCache()
    return lambda: Program(SOURCE, code_type="c++", options=options).compile("ptx", cache=cache)


if not COUNTED:
    suite.run("view_from_numpy", lambda: lambda: StridedMemoryView.from_any_interface(host_1m, stream_ptr=-1))
    suite.run_late("view_from_cupy", cupy_view)
    suite.run_late("view_from_torch", torch_view)
    suite.run("compile", lambda: compile_call(False), batch=1)
    suite.run("compile_cached", lambda: compile_call(True), batch=50)
suite.finish()
