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


# A texel of each of the six faces of a cube, by the direction it is looked at from the middle.
simpleCubemapTexture = """\
extern "C"
__global__ void transformKernel(float *g_odata, int width, cudaTextureObject_t tex)
{
    unsigned int x = blockIdx.x*blockDim.x + threadIdx.x;
    unsigned int y = blockIdx.y*blockDim.y + threadIdx.y;
    float u = ((x+0.5f) / (float) width) * 2.f - 1.f;
    float v = ((y+0.5f) / (float) width) * 2.f - 1.f;

    for (unsigned int face = 0; face < 6; face++)
    {
        float cx = face == 0 ? 1 : face == 1 ? -1 : face == 4 ? u : face == 5 ? -u : u;
        float cy = face == 2 ? 1 : face == 3 ? -1 : -v;
        float cz = face == 0 ? -u : face == 1 ? u : face == 2 ? v : face == 3 ? -v : face == 4 ? 1 : -1;
        g_odata[face*width*width + y*width + x] = -texCubemap<float>(tex, cx, cy, cz);
    }
}
"""


def main():
    checkCudaErrors(cudart.cudaFree(0))
    width = 64
    num_faces = 6
    size = width * width * num_faces * 4
    h_data = np.arange(width * width * num_faces, dtype=np.float32)
    d_data = checkCudaErrors(cudart.cudaMalloc(size))

    # Create a cubemap array and copy the data there
    channelDesc = checkCudaErrors(
        cudart.cudaCreateChannelDesc(32, 0, 0, 0, cudart.cudaChannelFormatKind.cudaChannelFormatKindFloat)
    )
    cu_3darray = checkCudaErrors(
        cudart.cudaMalloc3DArray(channelDesc, cudart.make_cudaExtent(width, width, num_faces), cudart.cudaArrayCubemap)
    )
    myparms = cudart.cudaMemcpy3DParms()
    myparms.srcPos = cudart.make_cudaPos(0, 0, 0)
    myparms.dstPos = cudart.make_cudaPos(0, 0, 0)
    myparms.srcPtr = cudart.make_cudaPitchedPtr(h_data, width * 4, width, width)
    myparms.dstArray = cu_3darray
    myparms.extent = cudart.make_cudaExtent(width, width, num_faces)
    myparms.kind = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
    checkCudaErrors(cudart.cudaMemcpy3D(myparms))

    texRes = cudart.cudaResourceDesc()
    texRes.resType = cudart.cudaResourceType.cudaResourceTypeArray
    texRes.res.array.array = cu_3darray
    texDescr = cudart.cudaTextureDesc()
    texDescr.normalizedCoords = True
    texDescr.filterMode = cudart.cudaTextureFilterMode.cudaFilterModePoint
    for axis in range(3):
        texDescr.addressMode[axis] = cudart.cudaTextureAddressMode.cudaAddressModeWrap
    texDescr.readMode = cudart.cudaTextureReadMode.cudaReadModeElementType
    tex = checkCudaErrors(cudart.cudaCreateTextureObject(texRes, texDescr, None))

    major = checkCudaErrors(cudart.cudaDeviceGetAttribute(cudart.cudaDeviceAttr.cudaDevAttrComputeCapabilityMajor, 0))
    prog = checkCudaErrors(nvrtc.nvrtcCreateProgram(simpleCubemapTexture.encode(), b"cube.cu", 0, [], []))
    checkCudaErrors(nvrtc.nvrtcCompileProgram(prog, 1, [f"--gpu-architecture=compute_{major}0".encode()]))
    ptx = b" " * checkCudaErrors(nvrtc.nvrtcGetPTXSize(prog))
    checkCudaErrors(nvrtc.nvrtcGetPTX(prog, ptx))
    module = checkCudaErrors(cuda.cuModuleLoadData(ptx))
    kernel = checkCudaErrors(cuda.cuModuleGetFunction(module, b"transformKernel"))

    def launched(kernelArgs):
        checkCudaErrors(cudart.cudaMemset(d_data, 0, size))
        checkCudaErrors(cuda.cuLaunchKernel(kernel, width // 8, width // 8, 1, 8, 8, 1, 0, 0, kernelArgs, 0))
        h_odata = np.zeros_like(h_data)
        checkCudaErrors(cudart.cudaMemcpy(h_odata, d_data, size, cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost))
        return h_odata

    kernelValues = (
        np.array([d_data], dtype=np.intp),
        np.array(width, dtype=np.uint32),
        np.array([int(tex)], dtype=np.intp),
    )
    kernelArgs = np.array([arg.ctypes.data for arg in kernelValues], dtype=np.intp)
    assert (launched(kernelArgs) == -h_data).all()

    kernelValues = (
        d_data,
        width,
        tex,
    )
    kernelTypes = (
        ctypes.c_void_p,
        ctypes.c_int,
        None,
    )
    kernelArgs = (kernelValues, kernelTypes)
    assert (launched(kernelArgs) == -h_data).all()

    checkCudaErrors(cudart.cudaDestroyTextureObject(tex))
    checkCudaErrors(cudart.cudaFreeArray(cu_3darray))
    checkCudaErrors(cudart.cudaFree(d_data))


main()
