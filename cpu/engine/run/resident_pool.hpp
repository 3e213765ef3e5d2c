// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/resident_pool.hpp: the memory of resident clusters.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/engine/run/block.hpp"
#include "cpu/engine/run/grid.hpp"
#include "cpu/engine/run/shared_memory_arena.hpp"

namespace cucpu {

/// Owns the Cluster and Block objects of one host thread, their shared memory and scratch memory,
/// and keeps them from grid to grid. Not thread-safe.
class ResidentPool {
 public:
  ResidentPool() = default;
  ~ResidentPool();
  ResidentPool(const ResidentPool&) = delete;
  ResidentPool& operator=(const ResidentPool&) = delete;

  /// A cluster of `shape.cluster` blocks whose shared and scratch memory is large enough for the
  /// code. Its other state is that of an earlier use. Throws std::bad_alloc.
  [[nodiscard]] Cluster* acquire(const Code&, const LaunchShape&);
  void release(Cluster* cluster) { free_clusters_.push_back(cluster); }
  /// Whether the address belongs to the address range of shared memory, mapped or not.
  [[nodiscard]] bool is_shared_address(std::uintptr_t address) const noexcept {
    return shared_arena_.contains(address);
  }

 private:
  /// Gives a cluster its blocks, and memory to them.
  void lay_out(Cluster&, std::uint32_t count, std::size_t stride, std::size_t scratch_bytes);
  void map_shared(Cluster&, std::size_t bytes);

  SharedMemoryArena shared_arena_;
  std::vector<std::unique_ptr<Cluster>> clusters_;
  std::vector<Cluster*> free_clusters_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Block*> free_blocks_;
};

/// Static shared memory, and dynamic shared memory at its aligned offset.
inline std::uint32_t shared_bytes(const Code& code, const LaunchShape& shape) {
  if (shape.dynamic_shared_bytes == 0) return code.static_shared_bytes;
  return std::max(code.dynamic_shared_offset, code.static_shared_bytes) +
         shape.dynamic_shared_bytes;
}
/// %reserved_smem_offset_1: the offset of the reserved bytes after the block's own shared memory.
inline std::uint32_t reserved_shared_offset(const Code& code, const LaunchShape& shape) {
  // Check mode reports accesses to this gap: no variable lies there.
  constexpr std::uint32_t kAlign = 128, kGap = 4096;
  return (shared_bytes(code, shape) + kAlign - 1) / kAlign * kAlign +
         (code.make_observer ? kGap : 0);
}

}  // namespace cucpu
