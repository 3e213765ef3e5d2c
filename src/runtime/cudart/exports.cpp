// SPDX-License-Identifier: Apache-2.0
// exports.cpp: functions of libcudart that call the runtime table. Compiled once per major version,
// CUCORE_CUDART_MAJOR. cudaRuntimeGetVersion returns CUCORE_CUDART_VERSION.
#include <algorithm>

#include "runtime/cudart/export.hpp"

using cucore::runtime;
using cucore::cudart::per_thread;

#if CUCORE_CUDART_MAJOR == 13
static_assert(CUCORE_CUDART_VERSION == CUDART_VERSION);
#endif

namespace {

/// Returns the latest version of driver functions that programs linked to this library may use. The
/// signatures match the CUDA headers that the program was compiled with. A driver rejects versions
/// later than its own.
unsigned entry_point_version() {
  int driver = 0;
  runtime().cudaDriverGetVersion(&driver);
  return static_cast<unsigned>(driver > 0 ? std::min(driver, CUCORE_CUDART_VERSION)
                                          : CUCORE_CUDART_VERSION);
}

unsigned long long per_thread_flags(unsigned long long flags) {
  if (flags != cudaEnableDefault) return flags;
  return cudaEnablePerThreadDefaultStream;
}

}  // namespace

extern "C" {

#if CUCORE_CUDART_MAJOR == 12
#include "cudart12.inc"
#else
#include "cudart13.inc"
#endif

cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* status) {
  return runtime().cudaGetDriverEntryPointByVersion(symbol, function, entry_point_version(), flags,
                                                    status);
}

cudaError_t cudaGetDriverEntryPoint_ptsz(const char* symbol, void** function,
                                         unsigned long long flags,
                                         cudaDriverEntryPointQueryResult* status) {
  return cudaGetDriverEntryPoint(symbol, function, per_thread_flags(flags), status);
}

cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char* symbol, void** function,
                                                  unsigned version, unsigned long long flags,
                                                  cudaDriverEntryPointQueryResult* status) {
  return runtime().cudaGetDriverEntryPointByVersion(symbol, function, version,
                                                    per_thread_flags(flags), status);
}

}  // extern "C"
