// cpu/engine/run/shared_memory_arena.hpp: where a host thread keeps the shared memory of its
// blocks: a range so large that a shared address (32 bits from the block's base) cannot lead out of
// it.
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

  /// Whole pages, inaccessible, behind everything taken before. Throws std::bad_alloc.
  std::byte* allocate(std::size_t bytes);
  void release(std::byte* address, std::size_t bytes) noexcept;
  /// Whether nothing else can be there: an address of the range, or of a piece mapped alone.
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
  std::vector<Piece> separate_;  ///< mapped alone: the range is full, or the system refused it
};

}  // namespace cucpu
