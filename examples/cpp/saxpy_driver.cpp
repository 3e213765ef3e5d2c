// SAXPY through the driver's C functions, one by one: cucore::driver() is the table of all of them,
// loaded from a GPU's driver or from the CPU device.
#include <cstdio>
#include <numeric>
#include <vector>

#include "cucore/cucore.hpp"

constexpr const char* kSource = R"(
extern "C" __global__ void saxpy(float a, const float* x, float* y, size_t n) {
  size_t i = threadIdx.x + size_t{blockIdx.x} * blockDim.x;
  if (i < n) y[i] += a * x[i];
}
)";

int main() try {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUCORE_CALL(cuDeviceGet(&device, 0));  // the table's first use has called cuInit
  CUCORE_CALL(cuDevicePrimaryCtxRetain(&context, device));
  CUCORE_CALL(cuCtxSetCurrent(context));
  cucore::Program program{kSource, cucore::SourceType::cxx};
  const std::string ptx{program.compile(cucore::CodeType::ptx).code()};
  CUmodule module = nullptr;
  CUfunction saxpy = nullptr;
  CUCORE_CALL(cuModuleLoadData(&module, ptx.c_str()));
  CUCORE_CALL(cuModuleGetFunction(&saxpy, module, "saxpy"));
  CUstream stream = nullptr;
  CUCORE_CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));

  std::size_t n = 4096;
  float a = 2.0F;
  std::vector<float> x(n);
  std::vector<float> y(n, 1.0F);
  std::iota(x.begin(), x.end(), 0.0F);
  const std::size_t bytes = n * sizeof(float);
  CUdeviceptr x_dev = 0;
  CUdeviceptr y_dev = 0;
  CUCORE_CALL(cuMemAlloc(&x_dev, bytes));
  CUCORE_CALL(cuMemAlloc(&y_dev, bytes));
  CUCORE_CALL(cuMemcpyHtoDAsync(x_dev, x.data(), bytes, stream));
  CUCORE_CALL(cuMemcpyHtoDAsync(y_dev, y.data(), bytes, stream));
  void* arguments[] = {&a, &x_dev, &y_dev, &n};
  CUCORE_CALL(
      cuLaunchKernel(saxpy, (n + 255) / 256, 1, 1, 256, 1, 1, 0, stream, arguments, nullptr));
  CUCORE_CALL(cuMemcpyDtoHAsync(y.data(), y_dev, bytes, stream));
  CUCORE_CALL(cuStreamSynchronize(stream));

  for (std::size_t i = 0; i < n; ++i)
    if (y[i] != a * x[i] + 1.0F) return 1;
  std::printf("%zu elements, as computed here\n", n);
  for (const CUdeviceptr address : {x_dev, y_dev}) CUCORE_CALL(cuMemFree(address));
  CUCORE_CALL(cuStreamDestroy(stream));
  CUCORE_CALL(cuModuleUnload(module));
  CUCORE_CALL(cuDevicePrimaryCtxRelease(device));
  return 0;
} catch (const std::exception& error) {  // the failed call by name, its code, and the driver's text
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
