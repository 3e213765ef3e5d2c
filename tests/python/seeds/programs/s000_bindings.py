from cuda.bindings import driver, nvrtc, runtime

# Driver API example
driver.cuInit(0)
device_count = driver.cuDeviceGetCount()[1]
print(f"Found {device_count} CUDA devices")
device = driver.cuDeviceGet(0)[1]
name = driver.cuDeviceGetName(256, device)[1]
print(f"Device name: {name.decode()}")
# Create context
context = driver.cuCtxCreate(0, device)[1]
# Runtime API example
runtime.cudaSetDevice(0)
props = runtime.cudaGetDeviceProperties(0)[1]
print(f"Device: {props.name.decode()}")
# Allocate memory via runtime
ptr = runtime.cudaMalloc(1024)[1]
runtime.cudaMemset(ptr, 0, 1024)
runtime.cudaFree(ptr)
# NVRTC compilation
code = """extern "C" __global__ void kernel() {}"""
prog = nvrtc.nvrtcCreateProgram(code.encode(), b"kernel.cu", 0, [], [])[1]
nvrtc.nvrtcCompileProgram(prog, 0, [])
ptx_size = nvrtc.nvrtcGetPTXSize(prog)[1]
ptx = nvrtc.nvrtcGetPTX(prog, ptx_size)[1]
nvrtc.nvrtcDestroyProgram(prog)
# Clean up
driver.cuCtxDestroy(context)
assert b".entry kernel" in ptx and ptr and device_count > 0
