// cpu/engine/run/shared_memory_arena.cpp
#include "cpu/engine/run/shared_memory_arena.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <new>

namespace cucpu {
namespace {

constexpr std::size_t kUsable = std::size_t{4} << 30;
constexpr std::size_t kReach = std::size_t{4} << 30;  // of a 32-bit offset

// One range after the other from here on, where there is room: device memory lies below
// (cpu/mem/address_space), and the sum of two such addresses is still an address on x86-64. A
// shared access with a global address faults there, and the fault says where. A wish only.
constexpr std::uintptr_t kPlace = std::uintptr_t{1} << 45;

void* reserve(std::size_t bytes) {
  static std::atomic<std::uintptr_t> next{0};
  const std::uintptr_t step = (bytes + kReach - 1) / kReach * kReach;
  const std::uintptr_t place = kPlace + next.fetch_add(step, std::memory_order_relaxed) % kPlace;
  return mmap(reinterpret_cast<void*>(place), bytes, PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

}  // namespace

SharedSpace::~SharedSpace() {
  if (base_) munmap(base_, kUsable + kReach);
  for (const Piece& piece : single_) munmap(piece.address, piece.bytes);
}

std::byte* SharedSpace::take(std::size_t bytes) {
  if (!tried_) {
    tried_ = true;
    void* const range = reserve(kUsable + kReach);
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
  single_.push_back({static_cast<std::byte*>(alone), bytes});
  return single_.back().address;
}

bool SharedSpace::holds(std::uintptr_t address) const noexcept {
  const auto in = [address](const std::byte* from, std::size_t bytes) {
    return from && address - reinterpret_cast<std::uintptr_t>(from) < bytes;
  };
  return in(base_, kUsable + kReach) ||
         std::any_of(single_.begin(), single_.end(),
                     [&](const Piece& piece) { return in(piece.address, piece.bytes); });
}

void SharedSpace::give(std::byte* address, std::size_t bytes) noexcept {
  const auto alone = std::find_if(single_.begin(), single_.end(),
                                  [&](const Piece& piece) { return piece.address == address; });
  if (alone != single_.end()) {
    munmap(address, alone->bytes);
    single_.erase(alone);
    return;
  }
  mmap(address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  try {
    free_.push_back({address, bytes});
  } catch (const std::bad_alloc&) {
  }  // addresses are plenty
}

}  // namespace cucpu
