// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/shared_memory_arena.hpp: the reserved address range for the shared memory of the
// blocks of a host thread. It is so large that a shared address (a 32-bit offset) stays inside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cucpu {

/// Not thread-safe: one per worker.
class SharedMemoryArena {
 public:
  SharedMemoryArena() = default;
  ~SharedMemoryArena();
  SharedMemoryArena(const SharedMemoryArena&) = delete;
  SharedMemoryArena& operator=(const SharedMemoryArena&) = delete;

  /// Allocates whole inaccessible pages. Throws std::bad_alloc.
  std::byte* allocate(std::size_t bytes);
  void release(std::byte* address, std::size_t bytes) noexcept;
  /// Whether the address belongs to the reserved range or to a separate mapping.
  [[nodiscard]] bool contains(std::uintptr_t address) const noexcept;

 private:
  struct Piece {
    std::byte* address;
    std::size_t bytes;
  };
  std::byte* base_ = nullptr;
  std::size_t used_ = 0;
  bool tried_ = false;
  std::vector<Piece> free_;      ///< of the range
  std::vector<Piece> separate_;  ///< mapped separately: the range is full or could not be reserved
};

}  // namespace cucpu
