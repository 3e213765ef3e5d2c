// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/shared_memory_arena.cpp
#include "cpu/engine/run/shared_memory_arena.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <new>

namespace cucpu {
namespace {

constexpr std::size_t kUsable = std::size_t{4} << 30;
constexpr std::size_t kOffsetRange = std::size_t{4} << 30;  // of a 32-bit offset

// Preferred address of the ranges, not required. Device memory lies below (cpu/mem/address_space),
// and the sum of two such addresses is a canonical address on x86-64: a shared access with a global
// address then faults with an address that identifies the mistake.
constexpr std::uintptr_t kPreferredBase = std::uintptr_t{1} << 45;

void* reserve(std::size_t bytes) {
  static std::atomic<std::uintptr_t> next{0};
  const std::uintptr_t step = (bytes + kOffsetRange - 1) / kOffsetRange * kOffsetRange;
  const std::uintptr_t place =
      kPreferredBase + next.fetch_add(step, std::memory_order_relaxed) % kPreferredBase;
  return mmap(reinterpret_cast<void*>(place), bytes, PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

}  // namespace

SharedMemoryArena::~SharedMemoryArena() {
  if (base_) munmap(base_, kUsable + kOffsetRange);
  for (const Piece& piece : separate_) munmap(piece.address, piece.bytes);
}

std::byte* SharedMemoryArena::allocate(std::size_t bytes) {
  if (!tried_) {
    tried_ = true;
    void* const range = reserve(kUsable + kOffsetRange);
    if (range != MAP_FAILED) base_ = static_cast<std::byte*>(range);
  }
  const auto found = std::find_if(free_.begin(), free_.end(),
                                  [&](const Piece& piece) { return piece.bytes >= bytes; });
  if (found != free_.end()) {
    std::byte* const address = found->address;
    found->address += bytes;
    found->bytes -= bytes;
    if (found->bytes == 0) free_.erase(found);
    return address;
  }
  if (base_ && bytes <= kUsable - used_) {
    used_ += bytes;
    return base_ + used_ - bytes;
  }
  void* const alone = reserve(bytes);
  if (alone == MAP_FAILED) throw std::bad_alloc{};
  separate_.push_back({static_cast<std::byte*>(alone), bytes});
  return separate_.back().address;
}

bool SharedMemoryArena::contains(std::uintptr_t address) const noexcept {
  const auto in = [address](const std::byte* from, std::size_t bytes) {
    return from && address - reinterpret_cast<std::uintptr_t>(from) < bytes;
  };
  return in(base_, kUsable + kOffsetRange) ||
         std::any_of(separate_.begin(), separate_.end(),
                     [&](const Piece& piece) { return in(piece.address, piece.bytes); });
}

void SharedMemoryArena::release(std::byte* address, std::size_t bytes) noexcept {
  const auto alone = std::find_if(separate_.begin(), separate_.end(),
                                  [&](const Piece& piece) { return piece.address == address; });
  if (alone != separate_.end()) {
    munmap(address, alone->bytes);
    separate_.erase(alone);
    return;
  }
  if (mmap(address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
           0) == MAP_FAILED) {
    // The system's limit of mappings is reached: the pages stay mapped, but give back their memory.
    madvise(address, bytes, MADV_DONTNEED);
    mprotect(address, bytes, PROT_NONE);
  }
  try {
    free_.push_back({address, bytes});
  } catch (const std::bad_alloc&) {
  }  // the address range is lost, which is harmless
}

}  // namespace cucpu
