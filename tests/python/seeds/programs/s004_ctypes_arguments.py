import ctypes
import warnings

import numpy as np

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from cuda import cuda, cudart, nvrtc


def checkCudaErrors(result):
    if result[0].value:
        raise RuntimeError(f"CUDA error {result[0]}")
    return None if len(result) == 1 else result[1] if len(result) == 2 else result[1:]


kernel_string = """
typedef struct {
    int value;
} testStruct;

extern "C" __global__
void testkernel(int i, int *pi,
                float f, float *pf,
                testStruct s, testStruct *ps)
{
    *pi = i;
    *pf = f;
    ps->value = s.value;
}
"""
checkCudaErrors(cudart.cudaFree(0))
major = checkCudaErrors(cudart.cudaDeviceGetAttribute(cudart.cudaDeviceAttr.cudaDevAttrComputeCapabilityMajor, 0))
prog = checkCudaErrors(nvrtc.nvrtcCreateProgram(kernel_string.encode(), b"test.cu", 0, [], []))
checkCudaErrors(nvrtc.nvrtcCompileProgram(prog, 1, [f"--gpu-architecture=compute_{major}0".encode()]))
ptx = b" " * checkCudaErrors(nvrtc.nvrtcGetPTXSize(prog))
checkCudaErrors(nvrtc.nvrtcGetPTX(prog, ptx))
module = checkCudaErrors(cuda.cuModuleLoadData(ptx))
kernel = checkCudaErrors(cuda.cuModuleGetFunction(module, b"testkernel"))
stream = checkCudaErrors(cuda.cuStreamCreate(0))


def read(pointer, dtype):
    checkCudaErrors(cuda.cuStreamSynchronize(stream))
    host = np.zeros(1, dtype)
    checkCudaErrors(
        cudart.cudaMemcpy(host.ctypes.data, pointer, host.itemsize, cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost)
    )
    return host[0]


# Define a custom type
class testStruct(ctypes.Structure):
    _fields_ = [("value", ctypes.c_int)]


# Allocate device memory
pInt = checkCudaErrors(cudart.cudaMalloc(ctypes.sizeof(ctypes.c_int)))
pFloat = checkCudaErrors(cudart.cudaMalloc(ctypes.sizeof(ctypes.c_float)))
pStruct = checkCudaErrors(cudart.cudaMalloc(ctypes.sizeof(testStruct)))

# Collect all input kernel arguments into a single tuple for further processing
kernelValues = (
    1,
    pInt,
    123.456,
    pFloat,
    testStruct(5),
    pStruct,
)
kernelTypes = (
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_float,
    ctypes.c_void_p,
    None,
    ctypes.c_void_p,
)
checkCudaErrors(
    cuda.cuLaunchKernel(
        kernel,
        1, 1, 1,  # grid dim
        1, 1, 1,  # block dim
        0, stream,  # shared mem and stream
        kernelParams=(kernelValues, kernelTypes),
        extra=0,
    )
)  # fmt: skip
assert (read(pInt, np.int32), read(pFloat, np.float32), read(pStruct, np.int32)) == (1, np.float32(123.456), 5)
