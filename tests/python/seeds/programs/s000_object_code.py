import pathlib

from cuda.core import Device, ObjectCode, Program, ProgramOptions

dev = Device()
dev.set_current()
source = """
extern "C" __global__ void vector_add(const float* a, const float* b, float* c, size_t n) {
    size_t i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) c[i] = a[i] + b[i];
}
__global__ void kernel_name(float*, float*, unsigned long) {}
"""
program = Program(source, code_type="c++", options=ProgramOptions(arch=f"sm_{dev.arch}"))
pathlib.Path("kernel.cubin").write_bytes(program.compile("cubin").code)
ptx_source = program.compile("ptx").code
# Load cubin from file
obj = ObjectCode.from_cubin("kernel.cubin")
# Load from bytes
with open("kernel.cubin", "rb") as f:
    cubin_data = f.read()
obj = ObjectCode.from_cubin(cubin_data, name="my_kernels")
# Load from PTX, as bytes and as text
for text in (ptx_source, ptx_source.decode()):
    mapped = ObjectCode.from_ptx(
        text,
        symbol_mapping={
            "kernel_name": "_Z11kernel_namePfS_m",  # Map names to mangled symbols
        },
    )
    assert mapped.get_kernel("kernel_name") is not None
# Other formats
library = ObjectCode.from_library(cubin_data)
assert library.get_kernel("vector_add") is not None
# Get kernel from object code
kernel = obj.get_kernel("vector_add")
# Kernel attributes
attrs = kernel.attributes
print(f"Max threads per block: {attrs.max_threads_per_block()}")
print(f"Shared memory: {attrs.shared_size_bytes()} bytes")
print(f"Registers per thread: {attrs.num_regs()}")
print(f"Local memory: {attrs.local_size_bytes()} bytes")
# Kernel occupancy calculations
occ = kernel.occupancy
max_blocks = occ.max_active_blocks_per_multiprocessor(block_size=256, dynamic_shared_memory_size=0)
print(f"Max blocks per SM: {max_blocks}")
# Get optimal block size
result = occ.max_potential_block_size(
    dynamic_shared_memory_needed=0,
    block_size_limit=0,  # 0 = no limit
)
print(f"Optimal grid: {result.min_grid_size}, block: {result.max_block_size}")
# Object code properties
print(f"Code type: {obj.code_type}")
print(f"Name: {obj.name}")
print(f"Handle: {obj.handle}")
assert max_blocks > 0 and result.max_block_size > 0 and obj.name == "my_kernels"
