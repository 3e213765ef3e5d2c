// SPDX-License-Identifier: Apache-2.0
// Relocatable device code: functions and variables that another file defines.
#include "check.h"

extern __device__ int shared_counter;
extern __constant__ int factor;
__device__ int twice(int value);
void set_factor(int value);
int read_counter();

__managed__ int result;

__global__ void compute(int value) {
  result = twice(value) * factor;
  atomicAdd(&shared_counter, value);
}

int main() {
  set_factor(3);
  compute<<<1, 1>>>(7);
  CHECK(cudaDeviceSynchronize());
  std::printf("result %d counter %d\n", result, read_counter());
  return 0;
}
