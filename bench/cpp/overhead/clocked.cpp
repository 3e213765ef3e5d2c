// SPDX-License-Identifier: Apache-2.0
// clocked.cpp: wraps the driver in CUCORE_BENCH_DRIVER and measures the time inside its allocation
// and free calls, independent of the caller; also makes the same two calls in a C loop. For
// bench/python/allocate.py.
#include <dlfcn.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "cucore/abi/driver.h"

#define CUCORE_SHOWN __attribute__((visibility("default")))

namespace {

using Find = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
using Clock = std::chrono::steady_clock;

void* behind() {
  static void* const library = dlopen(std::getenv("CUCORE_BENCH_DRIVER"), RTLD_NOW);
  return library;
}
template <class Function>
Function of(const char* name) {
  return reinterpret_cast<Function>(dlsym(behind(), name));
}

/// Ticks of the processor's counter, which is cheap to read.
std::uint64_t now() {
#ifdef __x86_64__
  return __builtin_ia32_rdtsc();
#else
  std::uint64_t ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#endif
}

struct Spent {
  std::uint64_t ticks = 0, calls = 0;
  template <class Call>
  CUresult add(Call call) {
    const std::uint64_t start = now();
    const CUresult code = call();
    ticks += now() - start;
    ++calls;
    return code;
  }
};
Spent allocating, freeing;
decltype(&::cuMemAllocFromPoolAsync) real_allocate = nullptr;
decltype(&::cuMemFreeAsync) real_free = nullptr;

CUresult clocked_allocate(CUdeviceptr* ptr, std::size_t size, CUmemoryPool pool, CUstream stream) {
  return allocating.add([&] { return real_allocate(ptr, size, pool, stream); });
}
CUresult clocked_free(CUdeviceptr ptr, CUstream stream) {
  return freeing.add([&] { return real_free(ptr, stream); });
}

double nanoseconds_per_tick() {
  const auto start = Clock::now();
  const std::uint64_t first = now();
  while (Clock::now() - start < std::chrono::milliseconds{20}) {
  }
  const std::chrono::duration<double, std::nano> passed = Clock::now() - start;
  return passed.count() / static_cast<double>(now() - first);
}

}  // namespace

extern "C" {

CUCORE_SHOWN CUresult cuInit(unsigned flags) { return of<decltype(&::cuInit)>("cuInit")(flags); }
CUCORE_SHOWN CUresult cuDeviceGetCount(int* count) {
  return of<decltype(&::cuDeviceGetCount)>("cuDeviceGetCount")(count);
}
CUCORE_SHOWN CUresult cuGetProcAddress_v2(const char* name, void** found, int version,
                                          cuuint64_t flags, CUdriverProcAddressQueryResult* why) {
  const CUresult code = of<Find>("cuGetProcAddress_v2")(name, found, version, flags, why);
  if (code != CUDA_SUCCESS || *found == nullptr) return code;
  if (std::strcmp(name, "cuMemAllocFromPoolAsync") == 0)
    real_allocate = reinterpret_cast<decltype(real_allocate)>(
        std::exchange(*found, reinterpret_cast<void*>(&clocked_allocate)));
  if (std::strcmp(name, "cuMemFreeAsync") == 0)
    real_free = reinterpret_cast<decltype(real_free)>(
        std::exchange(*found, reinterpret_cast<void*>(&clocked_free)));
  return code;
}

/// Nanoseconds per call since the last query: allocation, free.
CUCORE_SHOWN void cucoreClockedSpent(double* out) {
  static const double scale = nanoseconds_per_tick();
  for (Spent* spent : {&allocating, &freeing}) {
    *out++ = spent->calls != 0
                 ? scale * static_cast<double>(spent->ticks) / static_cast<double>(spent->calls)
                 : 0;
    *spent = {};
  }
}

/// Nanoseconds of an allocation and its free called from C; `clocked`: also measured inside the
/// driver.
CUCORE_SHOWN double cucoreClockedLoop(int turns, std::size_t size, CUmemoryPool pool,
                                      CUstream stream, int clocked) {
  const auto make = clocked != 0 ? &clocked_allocate : real_allocate;
  const auto take = clocked != 0 ? &clocked_free : real_free;
  const auto start = Clock::now();
  for (int i = 0; i < turns; ++i) {
    CUdeviceptr ptr = 0;
    if (make(&ptr, size, pool, stream) != CUDA_SUCCESS || take(ptr, stream) != CUDA_SUCCESS)
      return -1;
  }
  const std::chrono::duration<double, std::nano> spent = Clock::now() - start;
  return spent.count() / turns;
}

}  // extern "C"
