// SPDX-License-Identifier: Apache-2.0
// A shared library with device code, which a program may load and unload.
#include <cuda_runtime.h>

__device__ int calls = 40;
__global__ void count() { ++calls; }

extern "C" int run_plugin() {
  int value = -1;
  count<<<1, 1>>>();
  return cudaMemcpyFromSymbol(&value, calls, sizeof value) == cudaSuccess ? value : -1;
}
