// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/stack_size.hpp: how much stack a fiber needs.
#pragma once

#include <algorithm>
#include <cstddef>

#include "cpu/engine/run/grid.hpp"

namespace cucpu {

/// What the compiler found; for recursive code, cudaLimitStackSize in addition. Frames of a host
/// are larger than those of a GPU, so the limit is scaled.
inline std::size_t stack_size(const Code& code, const LaunchShape& shape) {
  constexpr std::size_t kFrameFactor = 256, kLargestLimit = std::size_t{1} << 22;
  if (!code.recursive) return code.stack_bytes;
  return code.stack_bytes + std::min<std::size_t>(shape.stack_limit, kLargestLimit) * kFrameFactor;
}

}  // namespace cucpu
