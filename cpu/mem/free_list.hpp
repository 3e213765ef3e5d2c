// cpu/mem/free_list.hpp: memory for the small objects of a launch. They are made by the
// thread that calls and freed by the one that runs the work, thousands of times a second, which is
// what an allocator does worst: blocks that were freed are kept here and handed out again.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace cucpu {

/// A block of at least this many bytes, aligned to 64. Throws std::bad_alloc.
[[nodiscard]] void* allocate_from_free_list(std::size_t bytes);
/// Takes it back, from any thread; `bytes` as it was asked for.
void return_to_free_list(void* block, std::size_t bytes) noexcept;

/// A base of classes whose objects come and go quickly. A destructor called through a base must be
/// virtual.
struct FreeListAllocated {
  static void* operator new(std::size_t bytes) { return allocate_from_free_list(bytes); }
  static void* operator new(std::size_t bytes, std::align_val_t) {
    return allocate_from_free_list(bytes);
  }
  static void* operator new(std::size_t, void* place) noexcept { return place; }
  static void operator delete(void* block, std::size_t bytes) noexcept {
    return_to_free_list(block, bytes);
  }
  static void operator delete(void* block, std::size_t bytes, std::align_val_t) noexcept {
    return_to_free_list(block, bytes);
  }
};

/// The same for containers.
template <class T>
struct FreeListAllocator {
  using value_type = T;
  FreeListAllocator() = default;
  template <class U>
  FreeListAllocator(const FreeListAllocator<U>&) noexcept {}
  T* allocate(std::size_t count) {
    return static_cast<T*>(allocate_from_free_list(count * sizeof(T)));
  }
  void deallocate(T* block, std::size_t count) noexcept {
    return_to_free_list(block, count * sizeof(T));
  }
  friend bool operator==(const FreeListAllocator&, const FreeListAllocator&) { return true; }
};

/// The parameter block of a launch.
using ParamBlock = std::vector<std::byte, FreeListAllocator<std::byte>>;

}  // namespace cucpu
