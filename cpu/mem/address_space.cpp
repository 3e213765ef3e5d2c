// SPDX-License-Identifier: Apache-2.0
// The reserved address range.
#include "cpu/mem/address_space.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>

namespace cucpu::driver {
namespace {
constexpr std::uintptr_t align_up(std::uintptr_t value, std::size_t align) {
  return (value + align - 1) & ~static_cast<std::uintptr_t>(align - 1);
}
// The preferred base is low: the sum of it and an address in shared memory
// (engine/run/shared_memory_arena) is still a canonical address on x86-64, so a fault there reports
// the address. Only a hint to mmap.
#if defined(__SANITIZE_ADDRESS__)
// The sanitizer's shadow memory ends 2 GiB above 1 << 44; less is reserved then (below).
constexpr std::uintptr_t kPlace = (std::uintptr_t{1} << 44) + (std::uintptr_t{1} << 40);
#else
constexpr std::uintptr_t kPlace = std::uintptr_t{1} << 44;
#endif
void* reserve(std::size_t bytes) {
  return mmap(reinterpret_cast<void*>(kPlace), bytes, PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}
}  // namespace

AddressSpace& AddressSpace::instance() {
  static AddressSpace& space =
      *new AddressSpace;  // never destroyed: memory outlives every static destructor
  return space;
}

AddressSpace::AddressSpace() : page_{static_cast<std::size_t>(sysconf(_SC_PAGESIZE))} {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  std::size_t bytes = std::size_t{1} << 38;  // shadow memory is proportional
#else
  std::size_t bytes = std::size_t{1} << 44;
#endif
  void* p = reserve(bytes);
  while (p == MAP_FAILED && bytes > (std::size_t{1} << 30))
    p = reserve(bytes /= 2);  // a limit on address space
  if (p == MAP_FAILED) throw std::bad_alloc{};
  base_ = next_ = reinterpret_cast<std::uintptr_t>(p);
  bytes_ = bytes;
}

std::uintptr_t AddressSpace::take(std::size_t bytes, std::size_t align, std::uintptr_t wished) {
  align = std::max(align, page_);
  const std::lock_guard lock{mutex_};
  const std::uintptr_t end = base_ + bytes_;
  const auto carve = [&](std::map<std::uintptr_t, std::size_t>::iterator at, std::uintptr_t start) {
    const auto [from, size] = *at;
    if (start + bytes < from + size)  // may throw, so it comes before any change
      free_.emplace(start + bytes, from + size - (start + bytes));
    if (start > from)
      at->second = start - from;
    else
      free_.erase(at);
    return start;
  };
  if (wished != 0 && wished % align == 0 && contains(wished)) {
    if (wished >= next_ && bytes <= end - wished) {
      if (wished > next_) free_.emplace(next_, wished - next_);
      next_ = wished + bytes;
      return wished;
    }
    if (auto at = free_.upper_bound(wished); at != free_.begin()) {
      --at;
      if (at->first + at->second >= wished + bytes) return carve(at, wished);
    }
  }
  if (const std::uintptr_t start = align_up(next_, align); start < end && bytes <= end - start) {
    if (start > next_) free_.emplace(next_, start - next_);
    next_ = start + bytes;
    return start;
  }
  for (auto at = free_.begin(); at != free_.end(); ++at) {
    const std::uintptr_t start = align_up(at->first, align);
    if (start + bytes <= at->first + at->second) return carve(at, start);
  }
  throw std::bad_alloc{};
}

void AddressSpace::give(std::uintptr_t start, std::size_t bytes) noexcept {
  decommit(start, bytes);
  const std::lock_guard lock{mutex_};
  auto next = free_.lower_bound(start);
  if (next != free_.end() && start + bytes == next->first) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    if (auto before = std::prev(next); before->first + before->second == start) {
      before->second += bytes;
      return;
    }
  }
  try {
    free_.emplace(start, bytes);
  } catch (
      const std::bad_alloc&) {  // the range at the end needs no entry; other ranges are not reused
    if (start + bytes == next_) next_ = start;
  }
}

void AddressSpace::commit(std::uintptr_t start, std::size_t bytes) {
  if (mprotect(reinterpret_cast<void*>(start), bytes, PROT_READ | PROT_WRITE) != 0)
    throw std::bad_alloc{};
#ifdef MADV_HUGEPAGE
  if (bytes >= (std::size_t{2} << 20))
    madvise(reinterpret_cast<void*>(start), bytes, MADV_HUGEPAGE);
#endif
}

void AddressSpace::decommit(std::uintptr_t start, std::size_t bytes) noexcept {
  void* const at = reinterpret_cast<void*>(start);
  if (mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) !=
      MAP_FAILED)
    return;
  // The system's limit of mappings is reached: the pages stay mapped, but give back their memory.
  madvise(at, bytes, MADV_DONTNEED);
  mprotect(at, bytes, PROT_NONE);
}

}  // namespace cucpu::driver
