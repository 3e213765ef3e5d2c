"""What a call costs through `cuda.core` and `cuda.bindings`: run with our packages or with NVIDIA's on the path, same code."""

from __future__ import annotations

import ctypes
import warnings

import numpy as np
from timing import Suite

warnings.simplefilter("ignore")
from cuda.bindings import driver, runtime  # noqa: E402
from cuda.core import Device, EventOptions, LaunchConfig, Program, ProgramOptions, launch  # noqa: E402

suite = Suite()
dev = Device(0)
dev.set_current()
stream = dev.create_stream()
other = dev.create_stream()
drain = stream.sync

MIXED = "const float* p{0}, float f{1}, int i{2}, double d{3}"

def kernel_source(count: int) -> str:
    kinds = ("float* p{}", "float f{}", "int i{}", "double d{}")
    parameters = ", ".join(kinds[i % 4].format(i) for i in range(count))
    return f'extern "C" __global__ void k{count}({parameters}) {{}}\n'

COUNTS = (0, 3, 8, 16, 256)
source = "".join(kernel_source(n) for n in COUNTS)
options = ProgramOptions(std="c++17", arch=f"sm_{dev.arch}")
code = Program(source, code_type="c++", options=options).compile("cubin")
kernels = {n: code.get_kernel(f"k{n}") for n in COUNTS}
buffer = dev.allocate(1 << 20, stream=stream)
small = dev.allocate(4096, stream=stream)
config = LaunchConfig(grid=1, block=32)
host_4 = np.zeros(1, np.float32)
host_1m = np.zeros(1 << 18, np.float32)
pointer = int(buffer.handle)

def arguments(count: int) -> tuple[object, ...]:
    values = (buffer, np.float32(1), np.int32(2), np.float64(3))
    return tuple(values[i % 4] for i in range(count))

# cuda.core
suite.run("device", lambda: lambda: Device(0))
suite.run("set_current", lambda: dev.set_current)
for count in COUNTS:
    args = arguments(count)
    kernel = kernels[count]
    suite.run(f"launch_{count}", lambda: lambda: launch(stream, config, kernel, *args), drain, batch=400)
suite.run("launch_config", lambda: lambda: LaunchConfig(grid=1, block=32))
suite.run("get_kernel", lambda: lambda: code.get_kernel("k3"))
suite.run("stream_create_close", lambda: lambda: dev.create_stream().close(), batch=100)
event = dev.create_event()
suite.run("event_create_close", lambda: lambda: dev.create_event().close(), batch=300)
suite.run("event_record", lambda: lambda: stream.record(event), drain, batch=500)
suite.run("stream_wait", lambda: lambda: other.wait(event), other.sync, batch=500)
suite.run("event_is_done", lambda: lambda: event.is_done)
start, end = stream.record(options=EventOptions(timing_enabled=True)), stream.record(options=EventOptions(timing_enabled=True))
end.sync()
suite.run("event_elapsed", lambda: lambda: end - start)
for name, size in (("4k", 4096), ("1m", 1 << 20)):
    suite.run(f"alloc_free_{name}", lambda: lambda: dev.allocate(size, stream=stream).close(stream), drain, batch=300)
suite.run("fill_4k", lambda: lambda: small.fill(0, stream=stream), drain, batch=300)

def make_graph() -> object:
    builder = stream.create_graph_builder()
    builder.begin_building()
    for _ in range(20):
        launch(builder, config, kernels[0])
    return builder.end_building().complete()

suite.run("graph_build_20", lambda: lambda: make_graph().close(), drain, batch=10)
graph = make_graph()
suite.run("graph_launch_20", lambda: lambda: graph.launch(stream), drain, batch=50)

# cuda.bindings
attribute = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_WARP_SIZE
handle = driver.CUstream(int(stream.handle))
raw_event = driver.cuEventCreate(2)[1]
suite.run("b_device_get_count", lambda: lambda: driver.cuDeviceGetCount())
suite.run("b_device_get_attribute", lambda: lambda: driver.cuDeviceGetAttribute(attribute, 0))
suite.run("b_stream_query", lambda: lambda: driver.cuStreamQuery(handle))
suite.run("b_event_record", lambda: lambda: driver.cuEventRecord(raw_event, handle), drain, batch=500)
suite.run("b_runtime_get_device", lambda: lambda: runtime.cudaGetDevice())
function = driver.cuKernelGetFunction(driver.CUkernel(int(kernels[3].handle)))[1]
params = ((pointer, 1.0, 2), (ctypes.c_void_p, ctypes.c_float, ctypes.c_int))
suite.run(
    "b_launch_ctypes",
    lambda: lambda: driver.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, handle, params, 0),
    drain,
    batch=400,
)
device_pointer = driver.CUdeviceptr(pointer)
suite.run("b_copy_4_to_device", lambda: lambda: driver.cuMemcpyHtoD(device_pointer, host_4.ctypes.data, 4), batch=200)
suite.run("b_copy_4_to_host", lambda: lambda: driver.cuMemcpyDtoH(host_4.ctypes.data, device_pointer, 4), batch=200)
suite.run("b_copy_1m_to_device", lambda: lambda: driver.cuMemcpyHtoD(device_pointer, host_1m.ctypes.data, 1 << 20), batch=20)
suite.run("b_copy_1m_to_host", lambda: lambda: driver.cuMemcpyDtoH(host_1m.ctypes.data, device_pointer, 1 << 20), batch=20)
suite.run("b_memset_4k", lambda: lambda: driver.cuMemsetD8Async(device_pointer, 0, 4096, handle), drain, batch=300)

# utils
try:
    from cuda.core.utils import StridedMemoryView

    suite.run("view_from_numpy", lambda: lambda: StridedMemoryView.from_any_interface(host_1m, stream_ptr=-1))
    suite.run("dlpack_export", lambda: lambda: buffer.__dlpack__(stream=-1))
except Exception as error:
    suite.skipped["view_from_numpy"] = str(error)
suite.finish()
