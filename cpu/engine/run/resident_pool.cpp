// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/resident_pool.cpp
#include "cpu/engine/run/resident_pool.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "cpu/engine/run/fiber.hpp"

namespace cucpu {
namespace {

constexpr std::size_t kAlign = 1024;
constexpr std::size_t kReserved = 1024;  // %reserved_smem_offset_1

constexpr std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

/// The distance between the shared memory of two blocks. Shared memory ends close to a guard page,
/// so that an access far out of bounds faults. The reserved bytes serve as padding too.
std::size_t stride_of(const Code& code, const LaunchShape& shape) {
  static_assert(kReserved >= kSharedPadding);
  return round_up(reserved_shared_offset(code, shape) + kReserved + kSharedPadding, kAlign);
}

}  // namespace

ResidentPool::~ResidentPool() {
  for (auto& block : blocks_) std::free(block->scratch);
}

Cluster* ResidentPool::acquire(const Code& code, const LaunchShape& shape) {
  if (free_clusters_.empty()) {
    clusters_.push_back(std::make_unique<Cluster>());
    free_clusters_.push_back(clusters_.back().get());
  }
  Cluster* const cluster = free_clusters_.back();
  const auto count = static_cast<std::uint32_t>(shape.cluster.volume());
  const std::size_t stride = stride_of(code, shape);
  // The same layout as at its last use, in most cases.
  if (cluster->blocks.size() != count || cluster->stride != stride ||
      cluster->scratch_bytes < code.scratch_bytes)
    lay_out(*cluster, count, stride, code.scratch_bytes);
  free_clusters_.pop_back();
  return cluster;
}

void ResidentPool::lay_out(Cluster& cluster, std::uint32_t count, std::size_t stride,
                           std::size_t scratch_bytes) {
  cluster.stride = 0;  // until all is done: allocations may fail
  while (cluster.blocks.size() > count) {
    free_blocks_.push_back(cluster.blocks.back());
    cluster.blocks.pop_back();
  }
  while (cluster.blocks.size() < count) {
    if (free_blocks_.empty()) {
      blocks_.push_back(std::make_unique<Block>());
      free_blocks_.push_back(blocks_.back().get());
    }
    cluster.blocks.push_back(free_blocks_.back());
    free_blocks_.pop_back();
  }
  const std::size_t bytes = stride * count;
  if (cluster.room < bytes) map_shared(cluster, bytes);
  std::byte* const base = cluster.end - bytes;
  if (cluster.shared.size() != count) cluster.shared.resize(count);
  cluster.scratch_bytes = ~std::size_t{0};
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    Block& block = *cluster.blocks[rank];
    block.cluster = &cluster;
    cluster.shared[rank] = base + rank * stride + kSharedPadding;
    if (block.scratch_bytes < scratch_bytes) {
      std::free(block.scratch);
      block.scratch_bytes = 0;
      block.scratch = static_cast<std::byte*>(std::aligned_alloc(64, round_up(scratch_bytes, 64)));
      if (!block.scratch) throw std::bad_alloc{};
      block.scratch_bytes = scratch_bytes;
    }
    cluster.scratch_bytes = std::min(cluster.scratch_bytes, block.scratch_bytes);
  }
  cluster.stride = stride;
}

void ResidentPool::map_shared(Cluster& cluster, std::size_t bytes) {
  const std::size_t guard = std::max<std::size_t>(page_size(), 65536);
  const std::size_t room = round_up(bytes, page_size());
  if (cluster.arena) shared_arena_.release(cluster.arena, cluster.arena_bytes);
  cluster.arena = nullptr;
  cluster.arena_bytes = cluster.room = 0;
  cluster.arena = shared_arena_.allocate(room + 2 * guard);
  cluster.arena_bytes = room + 2 * guard;
  if (mprotect(cluster.arena + guard, room, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc{};
  cluster.room = room;
  cluster.end = cluster.arena + guard + room;
}

}  // namespace cucpu
