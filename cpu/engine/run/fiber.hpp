// cpu/engine/run/fiber.hpp: stacks and the switch between them. Fibers stay on the host thread that
// started them.
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

/// Memory for one fiber's stack: [base, base + size), growing down; below it an inaccessible page,
/// if the pool is guarded.
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

/// Writes the first frame of a fiber and gives the value to switch to. `color` spreads the hot
/// frames of neighbouring fibers over cache sets (stacks are equally aligned otherwise).
void* prepare_fiber(const Stack&, FiberEntry*, void* argument, unsigned color);

/// The stacks of one host thread, all of one size at a time; last used first. Not thread-safe.
class StackPool {
 public:
  StackPool() = default;
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;
  ~StackPool();

  /// Stacks taken from now on hold at least `size` bytes. Only when none is in use. Guarded: every
  /// stack has its own guard page, for code that may recurse. A guard costs two of the system's
  /// limited mappings, so stacks with a known bound go without.
  void configure(std::size_t size, bool guarded);
  [[nodiscard]] Stack acquire();  ///< throws std::bad_alloc
  void release(Stack);
  void trim();  ///< Gives memory back to the system when much is held. Only when none is in use.

 private:
  void unmap_all() noexcept;
  struct Slab {
    std::byte* address;
    std::size_t bytes;
  };
  std::size_t size_ = 0;
  bool guarded_ = false;
  std::vector<Slab> slabs_;
  std::vector<Stack> free_;
};

std::size_t page_size();

}  // namespace cucpu
