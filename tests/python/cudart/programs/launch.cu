// SPDX-License-Identifier: Apache-2.0
// Launch syntax, templates, static and dynamic shared memory, attributes and occupancy of a kernel,
// errors of launches, printf.
#include <vector>

#include "check.h"

template <class T>
__global__ void axpy(int n, T a, const T* x, T* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

__global__ void reverse(int* data) {
  extern __shared__ int tile[];
  tile[threadIdx.x] = data[threadIdx.x];
  __syncthreads();
  data[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

__global__ void hello(int value) {
  if (threadIdx.x == 1) printf("device says %d\n", value);
}

int main() {
  const int n = 1000;
  std::vector<double> x(n), y(n);
  for (int i = 0; i < n; ++i) x[i] = i, y[i] = 1;
  double *dx, *dy;
  CHECK(cudaMalloc(&dx, n * sizeof(double)));
  CHECK(cudaMalloc(&dy, n * sizeof(double)));
  CHECK(cudaMemcpy(dx, x.data(), n * sizeof(double), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(dy, y.data(), n * sizeof(double), cudaMemcpyHostToDevice));
  axpy<<<(n + 127) / 128, 128>>>(n, 2.0, dx, dy);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(y.data(), dy, n * sizeof(double), cudaMemcpyDeviceToHost));
  std::printf("axpy %g %g\n", y[1], y[n - 1]);

  std::vector<int> row(64);
  for (int i = 0; i < 64; ++i) row[i] = i;
  int* drow;
  CHECK(cudaMalloc(&drow, 64 * sizeof(int)));
  CHECK(cudaMemcpy(drow, row.data(), 64 * sizeof(int), cudaMemcpyHostToDevice));
  reverse<<<1, 64, 64 * sizeof(int)>>>(drow);
  CHECK(cudaMemcpy(row.data(), drow, 64 * sizeof(int), cudaMemcpyDeviceToHost));
  std::printf("reverse %d %d\n", row[0], row[63]);

  hello<<<1, 2>>>(42);
  CHECK(cudaDeviceSynchronize());

  void* args[] = {&drow};
  CHECK(cudaLaunchKernel(reinterpret_cast<const void*>(reverse), dim3(1), dim3(64), args, 256, 0));
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(1);
  config.blockDim = dim3(64);
  config.dynamicSmemBytes = 256;
  CHECK(cudaLaunchKernelEx(&config, reverse, drow));
  CHECK(cudaMemcpy(row.data(), drow, 64 * sizeof(int), cudaMemcpyDeviceToHost));
  std::printf("twice %d %d\n", row[0], row[63]);

  cudaFuncAttributes attributes;
  CHECK(cudaFuncGetAttributes(&attributes, axpy<double>));
  int blocks = 0, grid = 0, block = 0;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, reverse, 64, 256));
  CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, axpy<double>));
  std::printf("attributes %d occupancy %d\n", attributes.maxThreadsPerBlock >= 32,
              blocks > 0 && grid > 0 && block > 0);

  hello<<<1, 100000>>>(0);
  std::printf("%s\n", cudaGetErrorString(cudaGetLastError()));
  hello<<<0, 1>>>(0);
  std::printf("%s\n", cudaGetErrorName(cudaGetLastError()));
  std::printf("%s\n", cudaGetErrorName(cudaFuncGetAttributes(&attributes, main)));
  cudaGetLastError();
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  int version = 0;
  CHECK(cudaRuntimeGetVersion(&version));
  std::printf("warp %d version %d\n", properties.warpSize, version == CUDART_VERSION);
  hello<<<1, 1>>>(0);  // still in flight when the process ends
  return 0;
}
