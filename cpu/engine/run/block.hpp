// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/block.hpp: the state of a resident block: its fibers, barriers and warps. Only the
// host thread that runs the block accesses it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/engine/run/block_context.hpp"
#include "cpu/engine/run/fiber.hpp"
#include "cpu/engine/run/routines.hpp"
#include "cpu/engine/run/tensor_memory.hpp"
#include "cpu/engine/schedule/random_schedule.hpp"

namespace cucpu {

struct Block;
struct Cluster;

/// The state of a fiber. All but kUnstarted, kRunning, kReady and kDone name what it waits for.
enum class Wait : std::uint8_t {
  kUnstarted,
  kRunning,
  kReady,
  kBarrier,
  kWarp,
  kWarpgroup,
  kActiveMask,
  kCluster,
  kDone
};

/// The fiber of one thread of a block, or of a whole block for block code.
struct Fiber {
  void* sp = nullptr;
  Fiber* next = nullptr;  ///< in the queue that holds the fiber
  Block* block = nullptr;
  Stack stack;
  ThreadContext thread{};
  Wait wait = Wait::kUnstarted;
  bool arriving = false;            ///< the fiber is the last to arrive at a barrier
  std::uint8_t barrier = 0;         ///< the barrier it waits at
  std::uint32_t mask = 0;           ///< the lanes it waits for
  std::uint64_t result = 0;         ///< the result of the operation it waited for
  const void* site = nullptr;       ///< activemask: the address of the call
  std::uint32_t cluster_phase = 0;  ///< the phase of the cluster barrier at which it arrived
};

/// Identifies the thread of a fiber in its grid.
schedule::ThreadId thread_id(const Fiber&);

/// An intrusive first-in first-out queue through Fiber::next.
class FiberQueue {
 public:
  [[nodiscard]] bool empty() const { return head_ == nullptr; }
  void push(Fiber* fiber) {
    fiber->next = nullptr;
    (head_ ? tail_->next : head_) = fiber;
    tail_ = fiber;
    ++size_;
  }
  Fiber* pop() {
    Fiber* fiber = head_;
    if (fiber) {
      head_ = fiber->next;
      --size_;
    }
    return fiber;
  }
  void clear() {
    head_ = nullptr;
    size_ = 0;
  }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::vector<Fiber*> all() const {
    std::vector<Fiber*> fibers;
    for (Fiber* fiber = head_; fiber; fiber = fiber->next) fibers.push_back(fiber);
    return fibers;
  }

 private:
  Fiber* head_ = nullptr;
  Fiber* tail_ = nullptr;
  std::size_t size_ = 0;
};

/// One of a block's 16 named barriers.
struct Barrier {
  std::uint32_t arrived = 0;
  std::uint32_t expected = 0;  ///< 0: every thread of the block that has not exited
  std::uint32_t set = 0;       ///< the number of true predicates, for reductions
  FiberQueue waiters;
};

/// A pending warp operation: it completes when all lanes of `mask` that have not exited arrived.
struct PendingWarpOperation {
  std::uint32_t mask = 0, arrived = 0;
  std::uint32_t kind = 0;
  std::uint64_t a[32];
  std::uint32_t b[32], c[32];
};

struct Warp {
  std::uint32_t live = 0;     ///< lanes that exist and have not exited
  std::uint32_t polling = 0;  ///< lanes that wait in activemask
  std::uint32_t used = 0;     ///< pending operations: the first entries of `open`
  std::vector<std::unique_ptr<PendingWarpOperation>> open;
};

/// A pending collective routine of four neighboring warps.
struct Warpgroup {
  static constexpr std::uint32_t kWarps = 4, kThreads = 128;
  std::uint32_t arrived = 0;
  cucpu_warpgroup_routine* routine = nullptr;
  const void* in[kThreads] = {};
  void* out[kThreads] = {};
};

struct Block {
  BlockContext context{};
  Cluster* cluster = nullptr;
  std::vector<Fiber> fibers;  ///< one per thread, or one for block code
  std::vector<Warp> warps;
  std::vector<std::unique_ptr<Warpgroup>> warpgroups;  ///< created on first use
  std::unique_ptr<TensorMemory> tensor_memory;         ///< created on first use
  Barrier barriers[16];
  std::uint32_t pending_barriers = 0;  ///< barriers at which a thread has arrived
  std::uint64_t linear = 0;            ///< linear index of the block in the grid (without clusters)
  std::uint32_t run = 0;               ///< blocks after it that the code runs in the same call
  std::uint32_t live = 0;              ///< fibers that have not ended
  std::uint32_t yielded = 0;           ///< block code: the thread of the last call of yield_block()
  std::byte* scratch = nullptr;
  std::size_t scratch_bytes = 0;
};

/// The blocks of a cluster, resident together. A grid without clusters has clusters of one block.
struct Cluster {
  std::vector<Block*> blocks;
  std::vector<std::byte*> shared;
  std::uint64_t live = 0, arrived = 0;  ///< threads
  std::uint32_t phase = 0;
  FiberQueue waiters;
  std::uint32_t blocks_left = 0;
  bool is_counted = false;     ///< as finished, while its fiber looks for the next cluster
  std::byte* arena = nullptr;  ///< shared memory of the blocks, at the end, between guard pages
  std::size_t arena_bytes = 0;
  std::byte* end = nullptr;       ///< the end of the accessible part
  std::size_t room = 0;           ///< the size of the accessible part
  std::size_t stride = 0;         ///< between the shared memory of two blocks; 0: not laid out
  std::size_t scratch_bytes = 0;  ///< of the block with the least
};

}  // namespace cucpu
