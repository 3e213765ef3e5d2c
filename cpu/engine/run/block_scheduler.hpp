// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/block_scheduler.hpp: runs block code: one function call runs all threads of a
// block.
#pragma once

#include "cpu/engine/run/scheduler.hpp"

namespace cucpu {

/// One fiber per block. Without clusters, a fiber runs one claimed block after the other, and code
/// that iterates over blocks (Code::iterates_blocks) runs all claimed blocks in one call.
///
/// Block code has no barriers and no warp operations left: the compiler lowered them. A fiber
/// leaves its stack only in yield(), sleep(), yield_block() and at the cluster barrier.
class BlockScheduler final : public SchedulerLoop<BlockScheduler> {
 public:
  explicit BlockScheduler(Worker& worker) : SchedulerLoop{worker, block_main} {}

  /// Fiber: on the back edge of a loop that waits for memory and passes a barrier in every
  /// iteration.
  void yield_block();
  /// Fiber: waits for the phase of the cluster barrier at which the block has arrived.
  void cluster_wait();

 private:
  friend class SchedulerLoop<BlockScheduler>;
  void configure_stacks(const Code&);
  static std::uint32_t fibers_of(const LaunchShape&) { return 1; }
  static void begin_block(Block& block) { block.yielded = ~0U; }
  static bool release_activemasks() { return false; }  // block code computes activemask itself

  static void block_main(void* scheduler);
  [[nodiscard]] bool reuses_fiber() const;
  void run_block(Block&);
  void advance(Block&, std::uint64_t index);
  [[noreturn]] void exit_block();
};

extern template class SchedulerLoop<BlockScheduler>;

}  // namespace cucpu
