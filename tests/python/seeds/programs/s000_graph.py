# needs: cupy
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

dev = Device()
dev.set_current()
stream = dev.create_stream()
# Compile kernels
code = """
extern "C" __global__ void kernel_a(float* data, size_t N) {
    unsigned int tid = threadIdx.x + blockIdx.x * blockDim.x;
    if (tid < N) data[tid] += 1.0f;
}
extern "C" __global__ void kernel_b(float* data, size_t N) {
    unsigned int tid = threadIdx.x + blockIdx.x * blockDim.x;
    if (tid < N) data[tid] *= 2.0f;
}
"""
prog = Program(code, code_type="c++", options=ProgramOptions(arch=f"sm_{dev.arch}"))
obj = prog.compile("cubin")
kernel_a = obj.get_kernel("kernel_a")
kernel_b = obj.get_kernel("kernel_b")
# Allocate memory
import cupy as cp  # noqa: E402

data = cp.zeros(1000, dtype=cp.float32)
dev.sync()
N = cp.uint64(data.size)
config = LaunchConfig(grid=4, block=256)
# Create graph builder from stream
graph_builder = stream.create_graph_builder()
# Or from device: graph_builder = dev.create_graph_builder()
# Begin capturing operations
graph_builder.begin_building()
# Add operations to graph
launch(graph_builder, config, kernel_a, data.data.ptr, N)
launch(graph_builder, config, kernel_b, data.data.ptr, N)
# Memory operations can also be captured
buf = dev.allocate(1024, stream=graph_builder)
buf.fill(0, stream=graph_builder)
# Complete and instantiate graph
graph_def = graph_builder.end_building()
graph = graph_def.complete()
# Upload graph to stream (optional optimization)
graph.upload(stream)
# Execute graph (replay all captured operations)
for _ in range(100):  # Efficient repeated execution
    graph.launch(stream)
stream.sync()
# Debug: print graph structure
from cuda.core.graph import GraphDebugPrintOptions  # noqa: E402

debug_opts = GraphDebugPrintOptions(
    verbose=True,
    kernel_node_params=True,
)
graph_def.debug_print(options=debug_opts)
# Clean up
buf.close(stream)
graph.close()
graph_builder.close()
stream.close()
expected = 0.0
for _ in range(100):
    expected = float(cp.float32((cp.float32(expected) + cp.float32(1)) * cp.float32(2)))
assert float(data[0]) == float(data[999]) == expected
