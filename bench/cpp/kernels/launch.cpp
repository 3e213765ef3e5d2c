// SPDX-License-Identifier: Apache-2.0
// bench/cpp/kernels/launch.cpp: launches in a C++ loop, so that only the launch is measured, not
// the overhead of Python.
#include <chrono>
#include <cstddef>
#include <cstdint>

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

/// As the kernel `recorded_chain`: one chain for each thread, and how long each took.
void openmp_recorded_chains(std::int64_t* records, int length, int steps, int count, int threads) {
  using Clock = std::chrono::steady_clock;
  for (int i = 0; i < count; ++i) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int block = 0; block < threads; ++block) {
      const Clock::time_point start = Clock::now();
      float x = static_cast<float>(block);
      for (int step = 0; step < steps; ++step) x = x * 0.75F + 1.0F;
      std::int64_t* const row = records + static_cast<std::ptrdiff_t>(block) * length;
      row[1] = static_cast<std::int64_t>(x);
      asm volatile("" ::: "memory");  // the chain ends before the clock is read
      const std::chrono::nanoseconds duration = Clock::now() - start;
      row[2 + row[0]] = duration.count();
      ++row[0];
    }
  }
}

}  // extern "C"
