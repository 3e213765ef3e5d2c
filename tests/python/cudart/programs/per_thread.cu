// SPDX-License-Identifier: Apache-2.0
// Compiled with --default-stream per-thread: every thread has a default stream of its own.
#include <thread>
#include <vector>

#include "check.h"

__constant__ int scale;
__global__ void add(int* p, int n) { atomicAdd(p, n * scale); }

int main() {
  const int two = 2;
  CHECK(cudaMemcpyToSymbol(scale, &two, sizeof two));
  std::vector<std::thread> threads;
  std::vector<int> values(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t, &values] {
      int* p;
      CHECK(cudaMalloc(&p, sizeof(int)));
      CHECK(cudaMemset(p, 0, sizeof(int)));
      for (int i = 0; i < 5; ++i) add<<<1, 2>>>(p, t);
      CHECK(cudaMemcpy(&values[t], p, sizeof(int), cudaMemcpyDeviceToHost));
      CHECK(cudaFree(p));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("%d %d %d %d\n", values[0], values[1], values[2], values[3]);
  return 0;
}
