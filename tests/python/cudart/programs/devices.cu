// SPDX-License-Identifier: Apache-2.0
// Several devices: each has its own variables, and threads choose theirs.
#include <thread>

#include "check.h"

__device__ int number = 1;
__global__ void add(int value) { number += value; }

int read() {
  int value = 0;
  CHECK(cudaMemcpyFromSymbol(&value, number, sizeof value));
  return value;
}

int main() {
  int count = 0;
  CHECK(cudaGetDeviceCount(&count));
  std::printf("devices %d\n", count);
  CHECK(cudaSetDevice(1));
  add<<<1, 1>>>(10);
  int other = 0;
  std::thread([&] {  // starts with device 0
    add<<<1, 1>>>(5);
    other = read();
  }).join();
  std::printf("device 1: %d, device 0: %d\n", read(), other);
  CHECK(cudaDeviceReset());
  std::printf("after the reset: %d\n", read());
  return 0;
}
