# needs: cupy
import cupy as cp
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

dev = Device()
dev.set_current()
stream = dev.create_stream()
# Compile kernel
code = """
extern "C" __global__ void saxpy(float a, const float* x, const float* y, float* out, size_t N) {
    unsigned int tid = threadIdx.x + blockIdx.x * blockDim.x;
    if (tid < N) { out[tid] = a * x[tid] + y[tid]; }
}
"""
prog = Program(code, code_type="c++", options=ProgramOptions(arch=f"sm_{dev.arch}"))
obj = prog.compile("cubin")
kernel = obj.get_kernel("saxpy")
# Prepare data
N = 10000
a = 2.0
x = cp.random.random(N, dtype=cp.float32)
y = cp.random.random(N, dtype=cp.float32)
out = cp.empty(N, dtype=cp.float32)
dev.sync()
# Configure launch
block_size = 256
grid_size = (N + block_size - 1) // block_size
config = LaunchConfig(
    grid=grid_size,  # Number of blocks (can be int or tuple)
    block=block_size,  # Threads per block (can be int or tuple)
    shmem_size=0,  # Dynamic shared memory in bytes
)
# Launch kernel
launch(
    stream,
    config,
    kernel,
    cp.float32(a),  # Scalar argument
    x.data.ptr,  # Device pointer (from CuPy)
    y.data.ptr,
    out.data.ptr,
    cp.uint64(N),
)
stream.sync()
assert cp.allclose(out, cp.float32(a) * x + y)
# Multi-dimensional grid/block
config_3d = LaunchConfig(
    grid=(16, 16, 1),  # 3D grid of blocks
    block=(8, 8, 4),  # 3D block of threads
)
# Thread Block Clusters (Hopper+ GPUs, sm_90+)
config_cluster = LaunchConfig(
    grid=(4, 4, 1),  # Grid of clusters
    cluster=(2, 2, 1),  # Blocks per cluster
    block=(128, 1, 1),  # Threads per block
)
# Cooperative kernel launch
config_coop = LaunchConfig(
    grid=grid_size,
    block=block_size,
    cooperative_launch=True,  # Enable cooperative groups
)
stream.close()
assert config_coop.is_cooperative and config_coop.cooperative_launch
