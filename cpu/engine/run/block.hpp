// cpu/engine/run/block.hpp: the state of one resident block: its threads, barriers and warps.
// Touched only by the host thread that runs it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/engine/run/block_context.hpp"
#include "cpu/engine/run/fiber.hpp"
#include "cpu/engine/run/routines.hpp"

namespace cucpu {

struct Block;
struct Cluster;

/// What a fiber is doing; everything but kReady and kRunning names what it waits for.
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

/// One thread of a block (or a whole block, when its code is block code).
struct Fiber {
  void* sp = nullptr;
  Fiber* next = nullptr;  ///< in the ready queue, or among the waiters of a barrier
  Block* block = nullptr;
  Stack stack;
  ThreadContext thread{};
  Wait wait = Wait::kUnstarted;
  bool arriving = false;            ///< is the last to come to a barrier
  std::uint8_t barrier = 0;         ///< which barrier it waits at
  std::uint32_t mask = 0;           ///< which lanes it waits for
  std::uint64_t result = 0;         ///< what the operation it waited in gave it
  const void* site = nullptr;       ///< activemask: where it was called
  std::uint32_t cluster_phase = 0;  ///< the cluster barrier phase it has arrived in
};

/// A first-in first-out list of fibers through Fiber::next.
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
  std::uint32_t set = 0;       ///< predicates that were true, for the reductions
  FiberQueue waiters;
};

/// A warp operation under way: lanes of `mask` gather until all that still live are there.
struct Rendezvous {
  std::uint32_t mask = 0, arrived = 0;
  std::uint32_t kind = 0;
  std::uint64_t a[32];
  std::uint32_t b[32], c[32];
};

struct Warp {
  std::uint32_t live = 0;     ///< lanes that exist and have not exited
  std::uint32_t polling = 0;  ///< lanes that wait in activemask
  std::uint32_t used = 0;     ///< open rendezvous, in front of `open`
  std::vector<std::unique_ptr<Rendezvous>> open;
};

/// Four neighbouring warps that gather for a collective routine.
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
  std::vector<std::unique_ptr<Warpgroup>> warpgroups;  ///< made when first needed
  Barrier barriers[16];
  std::uint32_t pending_barriers = 0;  ///< barriers some thread has arrived at
  std::uint64_t linear = 0;            ///< linear index of the block in the grid (without clusters)
  std::uint32_t run = 0;               ///< blocks behind it that the code runs in the same call
  std::uint32_t started = 0;           ///< fibers[0, started) have run
  std::uint32_t live = 0;              ///< threads that have not exited
  std::uint32_t turned = 0;            ///< block code: the thread that came to a turn last
  std::byte* scratch = nullptr;
  std::size_t scratch_bytes = 0;
};

/// Blocks that are resident together; without clusters, one block.
struct Cluster {
  std::vector<Block*> blocks;
  std::vector<std::byte*> shared;
  std::uint64_t live = 0, arrived = 0;  ///< threads
  std::uint32_t phase = 0;
  FiberQueue waiters;
  std::uint32_t blocks_left = 0;
  std::byte* arena = nullptr;  ///< the blocks' shared memory between guard pages, one stride after
                               ///< the other, at the end
  std::size_t arena_bytes = 0;
  std::byte* end = nullptr;  ///< of what can be used
  std::size_t room = 0;      ///< how much that is
};

}  // namespace cucpu
