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

}  // namespace

std::uint32_t shared_bytes(const Code& code, const LaunchShape& shape) {
  if (shape.dynamic_shared_bytes == 0) return code.static_shared_bytes;
  return std::max(code.dynamic_shared_offset, code.static_shared_bytes) +
         shape.dynamic_shared_bytes;
}

std::uint32_t reserved_shared_offset(const Code& code, const LaunchShape& shape) {
  // Check mode reports accesses to this gap: no variable lies there.
  constexpr std::size_t kGap = 4096;
  return static_cast<std::uint32_t>(round_up(shared_bytes(code, shape), 128) +
                                    (code.make_observer ? kGap : 0));
}

ResidentPool::~ResidentPool() {
  for (auto& block : blocks_) std::free(block->scratch);
}

Cluster* ResidentPool::acquire(const Code& code, const LaunchShape& shape) {
  const auto count = static_cast<std::uint32_t>(shape.cluster.volume());
  if (free_clusters_.empty()) {
    clusters_.push_back(std::make_unique<Cluster>());
    free_clusters_.push_back(clusters_.back().get());
  }
  Cluster* cluster = free_clusters_.back();
  while (cluster->blocks.size() > count) {
    free_blocks_.push_back(cluster->blocks.back());
    cluster->blocks.pop_back();
  }
  while (cluster->blocks.size() < count) {
    if (free_blocks_.empty()) {
      blocks_.push_back(std::make_unique<Block>());
      free_blocks_.push_back(blocks_.back().get());
    }
    cluster->blocks.push_back(free_blocks_.back());
    free_blocks_.pop_back();
  }
  // Shared memory ends close to a guard page, so that an access far out of bounds faults. The
  // reserved bytes serve as padding too.
  static_assert(kReserved >= kSharedPadding);
  const std::size_t stride =
      round_up(reserved_shared_offset(code, shape) + kReserved + kSharedPadding, kAlign);
  const std::size_t bytes = stride * count;
  if (cluster->room < bytes) map_shared(*cluster, bytes);
  std::byte* const base = cluster->end - bytes;
  if (cluster->shared.size() != count) cluster->shared.resize(count);
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    Block& block = *cluster->blocks[rank];
    block.cluster = cluster;
    cluster->shared[rank] = base + rank * stride + kSharedPadding;
    if (block.scratch_bytes < code.scratch_bytes) {
      std::free(block.scratch);
      block.scratch_bytes = 0;
      block.scratch =
          static_cast<std::byte*>(std::aligned_alloc(64, round_up(code.scratch_bytes, 64)));
      if (!block.scratch) throw std::bad_alloc{};
      block.scratch_bytes = code.scratch_bytes;
    }
  }
  free_clusters_.pop_back();
  return cluster;
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
