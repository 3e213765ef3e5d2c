// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/block_scheduler.cpp
#include "cpu/engine/run/block_scheduler.hpp"

#include <algorithm>
#include <utility>

#include "cpu/engine/run/block_iteration.hpp"
#include "cpu/engine/run/fiber_switch.hpp"
#include "cpu/engine/run/scheduler_loop.hpp"
#include "cpu/engine/run/stack_size.hpp"
#include "cpu/engine/run/worker.hpp"

namespace cucpu {

void BlockScheduler::configure_stacks(const Code& code) {
  constexpr std::size_t kLeast = 256 * 1024;
  stacks_.configure(std::max(stack_size(code, worker_.grid().shape()), kLeast), true);
}

bool BlockScheduler::reuses_fiber() const { return worker_.grid().shape().cluster.volume() == 1; }

CUCPU_NO_SANITIZE_THREAD void BlockScheduler::block_main(void* scheduler) {
  auto& self = *static_cast<BlockScheduler*>(static_cast<Scheduler*>(scheduler));
  Worker& worker = self.worker_;
  finish_first_switch(worker.host_stack());
  Block& block = *self.current_->block;
  self.run_block(block);
  if (self.reuses_fiber()) {
    std::uint64_t index = 0;
    for (;;) {
      worker.claims().finish(1);
      block.cluster->is_counted = true;
      if (worker.grid().stopped() || &worker.code() != &worker.grid().latest_code() ||
          !worker.claims().next(index))
        break;
      block.cluster->is_counted = false;
      self.advance(block, index);
      self.run_block(block);
    }
  }
  self.exit_block();
}

/// Runs a block, and all other claimed blocks if the code iterates over blocks.
void BlockScheduler::run_block(Block& block) {
  constexpr std::uint32_t kObserved = 255;  // observers show the progress of a grid
  const Code& code = worker_.code();
  GridObserver* const observer = worker_.grid().observer();
  if (code.iterates_blocks && reuses_fiber()) {
    block.run = worker_.claims().take_following(observer ? kObserved : ~0U);
    block.context.blocks_left = block.run;
  }
  if (observer) observer->block_starts(worker_, block);
  code.block(&block.context);
  worker_.claims().finish(block.run);
  block.linear += block.run;
  block.run = 0;
}

void BlockScheduler::advance(Block& block, std::uint64_t index) {
  if (index == block.linear) return;
  if (index != block.linear + 1) return place(block, index, 0);
  block.linear = index;
  increment_index(block.context);
}

void BlockScheduler::yield_block() {
  // All lane groups call this in every iteration; one yield per iteration is enough.
  Block& block = *current_->block;
  const std::uint32_t thread = block.context.current_thread;
  const bool new_iteration = thread <= std::exchange(block.yielded, thread);
  if (new_iteration) yield();
}

void BlockScheduler::cluster_wait() {
  while (join_cluster_waiters()) suspend(Wait::kCluster);
}

CUCPU_NO_SANITIZE_THREAD void BlockScheduler::exit_block() {
  Block& block = *current_->block;
  --block.live;
  --live_fibers_;
  leave_cluster(*block.cluster, block.context.block_threads);
  fiber_ended(block);
  exit_fiber();
}

template class SchedulerLoop<BlockScheduler>;

}  // namespace cucpu
