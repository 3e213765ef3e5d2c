import numpy as np
from cuda.core import Device, LaunchConfig, PinnedMemoryResource, Program, ProgramOptions, launch

dev = Device()  # device 0 by default; Device(1) selects another GPU
dev.set_current()  # initialize CUDA and make this device current
print(dev.name)  # e.g. 'NVIDIA GB10'
print(dev.compute_capability)  # ComputeCapability(major=12, minor=1)
print(dev.arch)  # '121' (handy for building kernels below)

code = r"""
extern "C" __global__
void scale(float* data, float factor, size_t n) {
    size_t i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n)
        data[i] *= factor;
}
"""
opts = ProgramOptions(std="c++17", arch=f"sm_{dev.arch}")
prog = Program(code, code_type="c++", options=opts)
mod = prog.compile("cubin")  # "cubin" | "ptx" | "ltoir"
scale = mod.get_kernel("scale")

bad = r'extern "C" __global__ void k() { not_a_real_symbol; }'
try:
    Program(bad, code_type="c++", options=opts).compile("cubin")
except Exception as e:
    assert 'error: identifier "not_a_real_symbol" is undefined' in str(e), e
else:
    raise AssertionError("the bad program compiled")

stream = dev.create_stream()
n = 1024
nbytes = n * np.dtype(np.float32).itemsize
pinned = PinnedMemoryResource()
host = pinned.allocate(nbytes, stream=stream)  # host-accessible buffer
dbuf = dev.allocate(nbytes, stream=stream)  # device buffer
print(host.size, host.is_host_accessible)  # 4096 True
print(dbuf.is_device_accessible)  # True
assert (host.size, host.is_host_accessible, dbuf.is_device_accessible) == (4096, True, True)

host_np = np.from_dlpack(host).view(np.float32)  # writable view, zero-copy
host_np[:] = np.arange(n, dtype=np.float32)

dbuf.copy_from(host, stream=stream)  # H2D
block = 256
grid = (n + block - 1) // block
config = LaunchConfig(grid=grid, block=block)
launch(stream, config, scale, dbuf, np.float32(3.0), np.uint64(n))
dbuf.copy_to(host, stream=stream)  # D2H
stream.sync()  # wait for all of the above
assert np.array_equal(host_np, np.arange(n, dtype=np.float32) * 3.0)

start = dev.create_event({"timing_enabled": True})
end = dev.create_event({"timing_enabled": True})
stream.record(start)
for _ in range(100):
    launch(stream, config, scale, dbuf, np.float32(1.0), np.uint64(n))
stream.record(end)
end.sync()
print(f"100 launches took {end - start:.4f} ms")

stream_a = dev.create_stream()
stream_b = dev.create_stream()
buf_a = dev.allocate(nbytes, stream=stream_a)
buf_b = dev.allocate(nbytes, stream=stream_b)
host_np[:] = np.arange(n, dtype=np.float32)  # known input
buf_a.copy_from(host, stream=stream_a)
buf_b.copy_from(host, stream=stream_b)
# Independent work on each stream: free to run concurrently.
launch(stream_a, config, scale, buf_a, np.float32(2.0), np.uint64(n))
launch(stream_b, config, scale, buf_b, np.float32(5.0), np.uint64(n))
# stream_b now needs stream_a's result, so it waits before reading it.
stream_b.wait(stream_a)
buf_b.copy_from(buf_a, stream=stream_b)  # safe: buf_a is ready
buf_b.copy_to(host, stream=stream_b)
stream_b.sync()
assert np.array_equal(host_np, np.arange(n, dtype=np.float32) * 2.0)

gb = stream.create_graph_builder()
gb.begin_building()
launch(gb, config, scale, dbuf, np.float32(1.0), np.uint64(n))
launch(gb, config, scale, dbuf, np.float32(1.0), np.uint64(n))
graph = gb.end_building().complete()
graph.upload(stream)
graph.launch(stream)  # replay the whole sequence in one shot
stream.sync()

# or scope a buffer with a with-statement:
with dev.allocate(nbytes, stream=stream) as tmp:
    ...  # tmp is freed at the end of the block
graph.close()
gb.close()
dbuf.close(stream=stream)
host.close(stream=stream)
stream.close()
