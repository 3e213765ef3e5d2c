import sys

from cuda.core import Device, Program, ProgramOptions

dev = Device()
dev.set_current()
# CUDA C++ kernel source
cuda_code = """
template<typename T>
__global__ void vector_add(const T* A, const T* B, T* C, size_t N) {
    const unsigned int tid = threadIdx.x + blockIdx.x * blockDim.x;
    for (size_t i = tid; i < N; i += gridDim.x * blockDim.x) {
        C[i] = A[i] + B[i];
    }
}
"""
# Configure compilation options
options = ProgramOptions(
    name="vector_add_program",
    arch=f"sm_{dev.arch}",  # Target architecture
    std="c++17",  # C++ standard
    relocatable_device_code=False,  # Enable for separate compilation
    debug=False,  # Debug symbols
    lineinfo=False,  # Line number info
    ftz=False,  # Flush denormals to zero
    prec_sqrt=True,  # Precise sqrt
    prec_div=True,  # Precise division
    fma=True,  # Fused multiply-add
    use_fast_math=False,  # Fast but less precise math
    max_register_count=None,  # Limit registers per thread
    define_macro=[  # Preprocessor defines
        "DEBUG",
        ("VERSION", "2"),
    ],
    include_path=["/path/to/headers"],
)
# Create program from C++ source
prog = Program(cuda_code, code_type="c++", options=options)
# Compile to different target types
# "cubin" - GPU binary, "ptx" - Parallel Thread Execution, "ltoir" - LTO IR
object_code = prog.compile(
    target_type="cubin",
    name_expressions=("vector_add<float>", "vector_add<double>"),  # Template instantiations
    logs=sys.stdout,  # Optional: capture compilation logs
)
print(f"Backend used: {prog.backend}")  # "NVRTC", "NVVM", or linker backend
assert object_code.get_kernel("vector_add<float>") is not None
# Compile PTX source directly
ptx_code = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry simple_kernel(.param .u64 ptr) { ret; }
"""
ptx_prog = Program(ptx_code, code_type="ptx")
ptx_obj = ptx_prog.link("cubin")
assert ptx_obj.get_kernel("simple_kernel") is not None
# NVVM IR compilation: the text as documented is not a whole module; the compiler's own message is the error
nvvm_code = """
target datalayout = "e-p:64:64:64-i1:8:8-..."
target triple = "nvptx64-nvidia-cuda"
define void @simple_kernel() { ret void }
"""
try:
    nvvm_prog = Program(nvvm_code, code_type="nvvm", options=ProgramOptions(use_libdevice=True))
    nvvm_obj = nvvm_prog.compile("ptx")
except Exception as error:
    assert "NVVM" in str(error) or "nvvm" in str(error), error
# Clean up
prog.close()
