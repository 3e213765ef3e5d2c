// SPDX-License-Identifier: Apache-2.0
// batch.hpp: helpers for batched memory operations.
#pragma once

#include <numeric>
#include <span>
#include <vector>

#include "cucore/buffer_ref.hpp"
#include "cucore/location.hpp"
#include "cucore/stream.hpp"

namespace cucore::detail {

/// Addresses and sizes in the layout of the driver's batch functions.
struct BatchMemory {
  explicit BatchMemory(std::span<const BufferRef> buffers) {
    for (const BufferRef& buffer : buffers) {
      addresses.push_back(buffer.handle());
      sizes.push_back(buffer.size());
    }
  }
  std::vector<CUdeviceptr> addresses;
  std::vector<std::size_t> sizes;
};

/// Returns 0, 1, 2, ...: the attribute indices if each buffer has its own set of attributes.
inline std::vector<std::size_t> each_its_own(std::size_t count) {
  std::vector<std::size_t> indices(count);
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  return indices;
}

/// Returns whether a handle denotes the legacy default stream.
[[nodiscard]] bool is_legacy_default(StreamRef stream);

/// Throws a CUDAError that explains the cause if `stream` is the legacy default stream. Drivers
/// reject batch operations in it with an unspecific error code.
void require_batch_stream(StreamRef stream, const char* function);

}  // namespace cucore::detail
