// SPDX-License-Identifier: Apache-2.0
// export.hpp: helpers of the functions that libcudart.so.12 and .13 export.
#pragma once
#include "cucore/runtime.hpp"

namespace cucore::cudart {

/// Returns the stream for a function with the suffix _ptsz: null means the per-thread default
/// stream.
inline cudaStream_t per_thread(cudaStream_t stream) noexcept {
  return stream == nullptr ? cudaStreamPerThread : stream;
}

}  // namespace cucore::cudart

// The symbol of a function whose CUDA 12 signature differs from the declaration in the ABI header,
// or that no header declares.
#define CUCORE_SYMBOL(name) asm(#name)
