// SPDX-License-Identifier: Apache-2.0
// cucore/runtime.hpp: the CUDA runtime API, implemented on the driver API without libcudart.
#pragma once

#include "cucore/abi/runtime.h"
#include "cucore/export.hpp"

namespace cucore {

/// The functions of the runtime API. Functions that are not implemented return
/// cudaErrorNotSupported. Semantics are CUDA's: primary contexts are initialized on first use, and
/// each thread has a current device and a last error. A kernel (`const void *func`) is a
/// cudaKernel_t, cudaFunction_t, CUkernel or CUfunction.
struct RuntimeTable {
#define CUCORE_RT(name) decltype(&::name) name = nullptr;
#include "runtime_table.inc"
#undef CUCORE_RT
};

/// Returns the function table. Without a driver the functions return cudaErrorInsufficientDriver.
[[nodiscard]] CUCORE_EXPORT const RuntimeTable& runtime() noexcept;

/// Returns the reason why the driver could not be loaded ("no CUDA driver ... tried ..."), from the
/// last runtime call on the calling thread that failed for it, or "" if there is none.
[[nodiscard]] CUCORE_EXPORT const char* runtime_error_detail() noexcept;

}  // namespace cucore
