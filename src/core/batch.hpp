// SPDX-License-Identifier: Apache-2.0
// batch.hpp: what calls with many pieces of memory have in common.
#pragma once

#include <numeric>
#include <span>
#include <vector>

#include "cucore/buffer_ref.hpp"
#include "cucore/location.hpp"
#include "cucore/stream.hpp"

namespace cucore::detail {

/// Addresses and sizes as the driver takes them.
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

/// 0, 1, 2, ...: one set of attributes per piece.
inline std::vector<std::size_t> each_its_own(std::size_t count) {
  std::vector<std::size_t> indices(count);
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  return indices;
}

/// Whether a handle names the legacy default stream.
[[nodiscard]] bool is_legacy_default(StreamRef stream);

/// Drivers refuse batches in the legacy default stream without saying why: throws CUDAError that
/// does.
void require_batch_stream(StreamRef stream, const char* function);

}  // namespace cucore::detail
