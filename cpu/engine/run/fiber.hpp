// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/fiber.hpp: stacks of fibers and the context switch. A fiber stays on the host
// thread that started it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

extern "C" {
void cucpu_fiber_switch(void** save, void* to);
void cucpu_fiber_resume();
void cucpu_fiber_entry();
}

namespace cucpu {

/// The stack of one fiber: [base, base + size), growing down. If the pool is guarded, the page
/// below it is inaccessible.
struct Stack {
  std::byte* base = nullptr;
  std::size_t size = 0;
  explicit operator bool() const { return base != nullptr; }
  [[nodiscard]] bool guard_contains(std::uintptr_t address, std::size_t page) const {
    auto low = reinterpret_cast<std::uintptr_t>(base);
    return address >= low - page && address < low;
  }
};

using FiberEntry = void(void*);  ///< must not return

/// Writes the first frame of a fiber and returns its stack pointer, to switch to. `color`
/// distributes the first frames of neighboring fibers over cache sets (all stacks have the same
/// alignment).
void* prepare_fiber(const Stack&, FiberEntry*, void* argument, unsigned color);

/// Stacks of one host thread, all of the same size; the last one released is acquired first. Not
/// thread-safe.
class StackPool {
 public:
  StackPool() = default;
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;
  ~StackPool();

  /// Sets the size of stacks, at least `size` bytes. No stack may be in use. Guarded: every stack
  /// has a guard page, for code that may recurse. A guard page costs two of the limited number of
  /// mappings of a process, so stacks with a known bound have none.
  void configure(std::size_t size, bool guarded) {
    if (size != configured_ || (guarded && !guarded_)) reconfigure(size, guarded);
  }
  [[nodiscard]] Stack acquire();  ///< Throws std::bad_alloc.
  void release(Stack) noexcept;
  /// Unmaps all stacks if they are large in total. No stack may be in use.
  void trim() {
    constexpr std::size_t kKeep = std::size_t{1} << 30;  // of address space; a stack uses a page or
                                                         // two of it
    if (mapped_ > kKeep) unmap_all();
  }

 private:
  void reconfigure(std::size_t size, bool guarded);
  void unmap_all() noexcept;
  struct Slab {
    std::byte* address;
    std::size_t bytes;
  };
  std::size_t size_ = 0;
  std::size_t configured_ = ~std::size_t{0};  ///< the size that `size_` was chosen for
  std::size_t mapped_ = 0;                    ///< bytes of all slabs
  std::size_t stacks_ = 0;                    ///< number of stacks in all slabs
  bool guarded_ = false;
  std::vector<Slab> slabs_;
  std::vector<Stack> free_;
};

std::size_t page_size();

}  // namespace cucpu
