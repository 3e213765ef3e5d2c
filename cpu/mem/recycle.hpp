// cpu/mem/recycle.hpp: free lists for the small objects of a launch. The calling thread allocates
// them and the thread that runs the work frees them, thousands of times a second; general
// allocators are slow at this pattern.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace cucpu {

/// A block of at least this many bytes, aligned to 64. Throws std::bad_alloc.
[[nodiscard]] void* take_block(std::size_t bytes);
/// Frees a block, on any thread; `bytes` as in take_block().
void give_block(void* block, std::size_t bytes) noexcept;

/// Base of short-lived classes. A destructor called through a base must be virtual.
struct Recycled {
  static void* operator new(std::size_t bytes) { return take_block(bytes); }
  static void* operator new(std::size_t bytes, std::align_val_t) { return take_block(bytes); }
  static void* operator new(std::size_t, void* place) noexcept { return place; }
  static void operator delete(void* block, std::size_t bytes) noexcept { give_block(block, bytes); }
  static void operator delete(void* block, std::size_t bytes, std::align_val_t) noexcept {
    give_block(block, bytes);
  }
};

/// An allocator for containers over the same free lists.
template <class T>
struct RecyclingAllocator {
  using value_type = T;
  RecyclingAllocator() = default;
  template <class U>
  RecyclingAllocator(const RecyclingAllocator<U>&) noexcept {}
  T* allocate(std::size_t count) { return static_cast<T*>(take_block(count * sizeof(T))); }
  void deallocate(T* block, std::size_t count) noexcept { give_block(block, count * sizeof(T)); }
  friend bool operator==(const RecyclingAllocator&, const RecyclingAllocator&) { return true; }
};

/// The parameter block of a launch.
using ParamBlock = std::vector<std::byte, RecyclingAllocator<std::byte>>;

}  // namespace cucpu
