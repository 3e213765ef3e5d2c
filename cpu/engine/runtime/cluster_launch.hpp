// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/cluster_launch.hpp: the response of clusterlaunchcontrol.try_cancel, shared by
// the translator and cluster_launch.cpp.
#pragma once

#include <cstdint>

namespace cucpu {

/// 16 bytes of shared memory. The layout is this project's: programs pass it to
/// clusterlaunchcontrol.query_cancel only.
struct CancelResponse {
  std::uint32_t first_block[3];  ///< ctaid of the first block of the cancelled cluster
  std::uint32_t cancelled;       ///< 1; 0: no cluster was left, and first_block has no meaning
};

}  // namespace cucpu
