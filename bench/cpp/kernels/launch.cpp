// SPDX-License-Identifier: Apache-2.0
// bench/cpp/kernels/launch.cpp: launches in a C++ loop, so that only the launch is measured, not
// the overhead of Python.
#include <cstddef>

extern "C" {

using CudaLaunch = int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                           unsigned, void*, void**, void**);
using CudaWait = int (*)();

int cuda_launches(CudaLaunch launch, CudaWait wait, void* function, const unsigned* grid,
                  const unsigned* block, void** arguments, int count, int wait_each) {
  for (int i = 0; i < count; ++i) {
    if (int code = launch(function, grid[0], grid[1], grid[2], block[0], block[1], block[2], 0,
                          nullptr, arguments, nullptr))
      return code;
    if (wait_each)
      if (int code = wait()) return code;
  }
  return wait();
}

using ClEnqueue = int (*)(void*, void*, unsigned, const std::size_t*, const std::size_t*,
                          const std::size_t*, unsigned, const void*, void*);
using ClFinish = int (*)(void*);

int opencl_launches(ClEnqueue enqueue, ClFinish finish, void* queue, void* kernel, int dimensions,
                    const std::size_t* everywhere, const std::size_t* block, int count,
                    int wait_each) {
  for (int i = 0; i < count; ++i) {
    if (int code =
            enqueue(queue, kernel, dimensions, nullptr, everywhere, block, 0, nullptr, nullptr))
      return code;
    if (wait_each)
      if (int code = finish(queue)) return code;
  }
  return finish(queue);
}

/// Parallel regions that do nothing: what OpenMP takes to start and end work on all threads.
void openmp_regions(int count, int threads) {
  for (int i = 0; i < count; ++i) {
#pragma omp parallel num_threads(threads)
    { asm volatile("" ::: "memory"); }
  }
}

/// Parallel regions of one chain of additions for each thread, as the kernel `chain` has for each
/// block.
void openmp_chains(float* out, int steps, int count, int threads) {
  constexpr int kLanes = 32;
  for (int i = 0; i < count; ++i) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int block = 0; block < threads; ++block) {
      float x[kLanes];
      for (int lane = 0; lane < kLanes; ++lane) x[lane] = static_cast<float>(lane);
      for (int step = 0; step < steps; ++step)
        for (float& value : x) value = value * 0.75F + 1.0F;
      for (int lane = 0; lane < kLanes; ++lane) out[block * kLanes + lane] = x[lane];
    }
  }
}

}  // extern "C"
