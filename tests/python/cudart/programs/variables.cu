// SPDX-License-Identifier: Apache-2.0
// __device__, __constant__ and __managed__ variables and the functions that take symbols; unified
// memory.
#include "check.h"

__constant__ float weights[4];
__constant__ int preset = 7;
__device__ int counter = 5;
__device__ int table[8];
__managed__ int total = 3;
__managed__ struct {
  int a;
  double b;
} record = {1, 2.5};

__global__ void use() {
  atomicAdd(&counter, 1);
  table[threadIdx.x] = int(weights[threadIdx.x % 4]) * preset;
  if (threadIdx.x == 0) {
    total += counter > 0;
    record.b *= 2;
  }
}

__global__ void increment(int* values, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] += i;
}

int main() {
  total += 10;  // before any call of the runtime
  const float host[4] = {1, 2, 3, 4};
  CHECK(cudaMemcpyToSymbol(weights, host, sizeof host));
  use<<<1, 8>>>();
  CHECK(cudaDeviceSynchronize());
  int count = 0, rows[8] = {};
  CHECK(cudaMemcpyFromSymbol(&count, counter, sizeof count));
  CHECK(cudaMemcpyFromSymbol(rows, table, 4 * sizeof(int), 4 * sizeof(int)));
  std::printf("counter %d table %d %d\n", count, rows[0], rows[3]);
  std::printf("managed %d %g\n", total, record.b);

  void* address = nullptr;
  size_t size = 0;
  CHECK(cudaGetSymbolAddress(&address, table));
  CHECK(cudaGetSymbolSize(&size, table));
  cudaPointerAttributes attributes;
  CHECK(cudaPointerGetAttributes(&attributes, address));
  std::printf("size %zu device %d\n", size, attributes.type == cudaMemoryTypeDevice);
  CHECK(cudaGetSymbolAddress(&address, total));
  std::printf("managed symbol %d\n", address == &total);
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  const int nine = 9;
  CHECK(cudaMemcpyToSymbolAsync(counter, &nine, sizeof nine, 0, cudaMemcpyHostToDevice, stream));
  CHECK(cudaMemcpyFromSymbolAsync(&count, counter, sizeof count, 0, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  std::printf("async %d\n", count);
  std::printf("%s\n", cudaGetErrorName(cudaMemcpyToSymbol(counter, rows, sizeof rows)));
  std::printf("%s\n", cudaGetErrorString(cudaGetSymbolAddress(&address, rows)));
  std::printf("%s\n", cudaGetErrorName(cudaMemcpyToSymbol(counter, &nine, sizeof nine, 0,
                                                          cudaMemcpyDeviceToHost)));

  int* unified;
  CHECK(cudaMallocManaged(&unified, 100 * sizeof(int)));
  for (int i = 0; i < 100; ++i) unified[i] = 1;
#if CUDART_VERSION >= 13000
  cudaMemLocation where = {};
  where.type = cudaMemLocationTypeDevice;
  CHECK(cudaMemPrefetchAsync(unified, 100 * sizeof(int), where, 0, stream));
#endif
  CHECK(cudaStreamSynchronize(stream));
  increment<<<1, 128>>>(unified, 100);
  CHECK(cudaDeviceSynchronize());
  std::printf("unified %d %d\n", unified[0], unified[99]);
  CHECK(cudaFree(unified));
  return 0;
}
