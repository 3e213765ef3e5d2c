// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/fiber.cpp
#include "cpu/engine/run/fiber.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "cpu/engine/run/fiber_switch.hpp"
#include "protection.hpp"

namespace cucpu {

std::size_t page_size() {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

void* prepare_fiber(const Stack& stack, FiberEntry* entry, void* argument, unsigned color) {
  auto top = reinterpret_cast<std::uintptr_t>(stack.base + stack.size);
  top -= 64 + (color % 16) * 192;
  top &= ~std::uintptr_t{63};
#if defined(__aarch64__)
  constexpr std::size_t kFrame = 160;
  auto* frame = reinterpret_cast<std::uint64_t*>(top - kFrame);
  std::memset(frame, 0, kFrame);
  frame[0] = reinterpret_cast<std::uint64_t>(entry);
  frame[1] = reinterpret_cast<std::uint64_t>(argument);
  frame[11] = reinterpret_cast<std::uint64_t>(&cucpu_fiber_entry);
#else
  constexpr std::size_t kFrame =
      7 * 8;  // r15 r14 r13 r12 rbx rbp return; the entry runs with a 16-byte aligned stack
  auto* frame = reinterpret_cast<std::uint64_t*>(top - kFrame);
  std::memset(frame, 0, kFrame);
  frame[2] = reinterpret_cast<std::uint64_t>(argument);
  frame[3] = reinterpret_cast<std::uint64_t>(entry);
  frame[6] = reinterpret_cast<std::uint64_t>(&cucpu_fiber_entry);
#endif
  return frame;
}

StackPool::~StackPool() { unmap_all(); }

void StackPool::unmap_all() noexcept {
  for (const Slab& slab : slabs_) munmap(slab.address, slab.bytes);
  slabs_.clear();
  free_.clear();
  mapped_ = stacks_ = 0;
}

void StackPool::reconfigure(std::size_t size, bool guarded) {
  configured_ = size;
  size = std::bit_ceil(std::max<std::size_t>(size, 64 * 1024));
  if (size <= size_ && size_ <= 4 * size && (guarded_ || !guarded))
    return;  // keep the mapped stacks
  unmap_all();
  size_ = size;
  guarded_ = guarded;
}

Stack StackPool::acquire() {
  if (free_.empty()) {
    const std::size_t stride = size_ + page_size();
    const std::size_t count = std::clamp<std::size_t>((std::size_t{4} << 20) / stride, 1, 32);
    slabs_.reserve(slabs_.size() + 1);
    free_.reserve(stacks_ + count);  // release() must not allocate
    void* memory = mmap(nullptr, stride * count, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc{};
    auto* base = static_cast<std::byte*>(memory);
    slabs_.push_back({base, stride * count});
    mapped_ += stride * count;
    stacks_ += count;
    for (std::size_t i = count; i-- > 0;) {
      // Without a guard page (the process is out of mappings) the stack is not used.
      if ((guarded_ || i == 0) && CUCORE_PROTECTION("guard-page-below-stack") &&
          mprotect(base + i * stride, page_size(), PROT_NONE) != 0)
        throw std::bad_alloc{};
      free_.push_back({base + i * stride + page_size(), size_});
    }
  }
  Stack stack = free_.back();
  free_.pop_back();
  unpoison_stack(stack);
  return stack;
}

void StackPool::release(Stack stack) noexcept { free_.push_back(stack); }

}  // namespace cucpu
