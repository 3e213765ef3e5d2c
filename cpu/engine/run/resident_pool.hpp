// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/resident_pool.hpp: the memory of resident clusters.
#pragma once

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
  void map_shared(Cluster&, std::size_t bytes);

  SharedMemoryArena shared_arena_;
  std::vector<std::unique_ptr<Cluster>> clusters_;
  std::vector<Cluster*> free_clusters_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Block*> free_blocks_;
};

/// Static shared memory, and dynamic shared memory at its aligned offset.
std::uint32_t shared_bytes(const Code&, const LaunchShape&);
/// %reserved_smem_offset_1: the offset of the reserved bytes after the block's own shared memory.
std::uint32_t reserved_shared_offset(const Code&, const LaunchShape&);

}  // namespace cucpu
