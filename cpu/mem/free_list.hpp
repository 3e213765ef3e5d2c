// SPDX-License-Identifier: Apache-2.0
// cpu/mem/free_list.hpp: free lists for the small objects of a launch. The calling thread allocates
// them and the thread that runs the work frees them, thousands of times a second; general
// allocators are slow at this pattern.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace cucpu {

/// A block of at least this many bytes, aligned to 64. Throws std::bad_alloc.
[[nodiscard]] void* allocate_from_free_list(std::size_t bytes);
/// Frees a block, on any thread; `bytes` as in allocate_from_free_list().
void return_to_free_list(void* block, std::size_t bytes) noexcept;

/// Base of short-lived classes. A destructor called through a base must be virtual.
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

/// An allocator for containers over the same free lists.
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
