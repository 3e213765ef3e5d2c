import numpy as np
from cuda.core import Device, LaunchConfig, Linker, LinkerOptions, PinnedMemoryResource, Program, ProgramOptions, launch

dev = Device()
dev.set_current()
# Compile separate modules with relocatable device code
code_a = """
extern "C" __device__ float helper_func(float x) { return x * x; }
"""
code_b = """
extern "C" __device__ float helper_func(float x);
extern "C" __global__ void main_kernel(float* data, size_t N) {
    unsigned int tid = threadIdx.x + blockIdx.x * blockDim.x;
    if (tid < N) data[tid] = helper_func(data[tid]);
}
"""
options = ProgramOptions(
    arch=f"sm_{dev.arch}",
    relocatable_device_code=True,  # Required for separate compilation
)
prog_a = Program(code_a, code_type="c++", options=options)
obj_a = prog_a.compile("cubin")
prog_b = Program(code_b, code_type="c++", options=options)
obj_b = prog_b.compile("cubin")
# Link object codes together
linker_options = LinkerOptions(
    name="linked_program",
    arch=f"sm_{dev.arch}",
    link_time_optimization=False,
    debug=False,
)
linker = Linker(obj_a, obj_b, options=linker_options)
linked_obj = linker.link(target_type="cubin")
# Get logs
print(f"Info log: {linker.get_info_log()}")
print(f"Error log: {linker.get_error_log()}")
print(f"Backend: {linker.backend}")  # "nvJitLink" or "driver"
assert linker.backend in ("nvJitLink", "driver")
# Get kernel from linked code
kernel = linked_obj.get_kernel("main_kernel")
linker.close()

stream = dev.create_stream()
buffer = PinnedMemoryResource().allocate(40, stream=stream)
data = np.from_dlpack(buffer).view(np.float32)
stream.sync()
data[:] = np.arange(10)
launch(stream, LaunchConfig(grid=1, block=32), kernel, buffer, np.uint64(10))
stream.sync()
assert data.tolist() == [float(i * i) for i in range(10)]
