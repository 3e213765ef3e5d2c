// SPDX-License-Identifier: Apache-2.0
// Free lists by block size. Every thread has a short list; blocks beyond its limit go to a shared
// list. A thread with an empty list takes the whole shared list at once, which avoids the ABA
// problem without a counter.
#include "cpu/mem/free_list.hpp"

#include <atomic>
#include <cstdint>
#include <new>

#include "cpu/mem/per_thread.hpp"
#include "cpu/mem/sanitizer.hpp"

namespace cucpu {
namespace {

// With the address sanitizer a freed block must stay poisoned.
#if defined(CUCPU_ASAN)
constexpr bool kRecycles = false;
#else
constexpr bool kRecycles = true;
#endif

constexpr std::size_t kStep = 64;   // block sizes and alignment are multiples of it
constexpr std::size_t kSizes = 16;  // up to 1,024 bytes; the system allocates larger blocks
constexpr unsigned kMostOwn = 64;   // blocks per size in a thread's list
/// Limit in bytes of one size in the shared list: enough for some thousand queued launches. Blocks
/// beyond it are freed.
constexpr std::size_t kMostShared = std::size_t{2} << 20;

struct Block {
  Block* next;
};

struct alignas(kStep) Shared {
  std::atomic<Block*> first{nullptr};
  std::atomic<unsigned> count{0};  // about
};
constinit Shared shared[kSizes];

void push(Shared& list, Block* block) noexcept {
  Block* first = list.first.load(std::memory_order_relaxed);
  do {
    block->next = first;
  } while (!list.first.compare_exchange_weak(first, block, std::memory_order_release,
                                             std::memory_order_relaxed));
  list.count.fetch_add(1, std::memory_order_relaxed);
}

struct Own {
  struct List {
    Block* first = nullptr;
    unsigned count = 0;
  };
  List lists[kSizes];
  ~Own() {  // gives the blocks of an ending thread to the shared list
    for (std::size_t i = 0; i < kSizes; ++i) {
      while (Block* block = lists[i].first) {
        lists[i].first = block->next;
        push(shared[i], block);
      }
    }
  }
};

/// Null where there is no memory for it: registering a thread_local object would end the process
/// then.
[[gnu::noinline]] Own* first_own() noexcept {
  try {
    return &PerThread<Own>::get();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
Own* own_of_this_thread() noexcept {
  Own* const own = PerThread<Own>::peek();
  return own != nullptr ? own : first_own();
}

void* from_system(std::size_t bytes) { return ::operator new (bytes, std::align_val_t{kStep}); }
void to_system(void* block) noexcept { ::operator delete (block, std::align_val_t{kStep}); }

}  // namespace

void* allocate_from_free_list(std::size_t bytes) {
  const std::size_t size = (bytes - 1) / kStep;
  if (!kRecycles || size >= kSizes) return from_system(bytes);
  Own* const own = own_of_this_thread();
  if (own == nullptr) return from_system((size + 1) * kStep);
  Own::List& list = own->lists[size];
  if (list.first == nullptr) {
    Shared& all = shared[size];
    if (all.first.load(std::memory_order_relaxed) == nullptr)
      return from_system((size + 1) * kStep);
    list.first = all.first.exchange(nullptr, std::memory_order_acquire);
    list.count += all.count.exchange(0, std::memory_order_relaxed);
    if (list.first == nullptr) return from_system((size + 1) * kStep);
  }
  Block* const block = list.first;
  list.first = block->next;
  if (list.count > 0) --list.count;
  return block;
}

void return_to_free_list(void* block, std::size_t bytes) noexcept {
  const std::size_t size = (bytes - 1) / kStep;
  if (!kRecycles || size >= kSizes) return to_system(block);
  auto* const freed = static_cast<Block*>(block);
  if (Own* const own = own_of_this_thread(); own != nullptr && own->lists[size].count < kMostOwn) {
    Own::List& list = own->lists[size];
    freed->next = list.first;
    list.first = freed;
    ++list.count;
    return;
  }
  Shared& all = shared[size];
  if (all.count.load(std::memory_order_relaxed) < kMostShared / ((size + 1) * kStep))
    return push(all, freed);
  to_system(freed);
}

}  // namespace cucpu
