// SPDX-License-Identifier: Apache-2.0
// cucore/runtime.hpp: the CUDA runtime API, written over the driver table: no libcudart is needed.
#pragma once

#include "cucore/abi/runtime.h"
#include "cucore/export.hpp"

namespace cucore {

/// Every function of the runtime API. One that is not there yet returns cudaErrorNotSupported.
/// Semantics are CUDA's: primary contexts are made on demand, each thread has a current device and
/// a last error. A kernel (`const void *func`) is a cudaKernel_t, cudaFunction_t, CUkernel or
/// CUfunction.
struct RuntimeTable {
#define CUCORE_RT(name) decltype(&::name) name = nullptr;
#include "runtime_table.inc"
#undef CUCORE_RT
};

/// Never throws: without a driver the functions return cudaErrorInsufficientDriver.
[[nodiscard]] CUCORE_EXPORT const RuntimeTable& runtime() noexcept;

/// Text of what the last failed call on this thread could not say with its code ("no CUDA driver
/// ... tried ..."); may be "".
[[nodiscard]] CUCORE_EXPORT const char* runtime_error_detail() noexcept;

}  // namespace cucore
