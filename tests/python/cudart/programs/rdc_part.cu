// SPDX-License-Identifier: Apache-2.0
// The second file of rdc_main.cu.
#include "check.h"

__device__ int shared_counter = 100;
__constant__ int factor;

__device__ int twice(int value) { return 2 * value; }

__global__ void bump() { ++shared_counter; }

void set_factor(int value) { CHECK(cudaMemcpyToSymbol(factor, &value, sizeof value)); }

int read_counter() {
  bump<<<1, 1>>>();
  int value = 0;
  CHECK(cudaMemcpyFromSymbol(&value, shared_counter, sizeof value));
  return value;
}
