// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/tensor_memory.hpp: the tensor memory of a block (tcgen05): 128 lanes of 512
// columns of 32 bits. Columns are allocated in units of 32. Only the host thread that runs the
// block accesses it, which also runs the other blocks of its cluster.
#pragma once

#include <cstdint>

namespace cucpu {

struct TensorMemory {
  static constexpr std::uint32_t kLanes = 128, kColumns = 512, kUnit = 32;
  static constexpr std::uint32_t kUnits = kColumns / kUnit;

  /// An allocation by two blocks waits for both.
  enum class Pair : std::uint8_t { none, waiting, done };

  alignas(64) std::uint32_t cells[kLanes][kColumns];
  std::uint32_t used = 0;           ///< by unit: allocated
  std::uint8_t units[kUnits] = {};  ///< by first unit of an allocation: its size in units
  bool permit = true;               ///< false after relinquish_alloc_permit
  Pair pair = Pair::none;           ///< of the allocation in progress
  std::uint32_t pair_columns = 0;   ///< waiting: its size
  std::uint32_t pair_address = 0;   ///< done: its address
  std::uint32_t pair_warp = 0;      ///< the warp that allocates

  /// For the next block; what the cells contain is undefined.
  void reset() {
    used = 0;
    for (std::uint8_t& size : units) size = 0;
    permit = true;
    pair = Pair::none;
  }
};

}  // namespace cucpu
