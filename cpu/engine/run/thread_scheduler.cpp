// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/thread_scheduler.cpp
#include "cpu/engine/run/thread_scheduler.hpp"

#include <algorithm>
#include <utility>

#include "cpu/engine/run/fiber_switch.hpp"
#include "cpu/engine/run/scheduler_loop.hpp"
#include "cpu/engine/run/stack_size.hpp"
#include "cpu/engine/run/worker.hpp"

namespace cucpu {

void ThreadScheduler::configure_stacks(const Code& code) {
  stacks_.configure(stack_size(code, worker_.grid().shape()), code.recursive);
}

void ThreadScheduler::begin_block(Block& block) {
  block.pending_barriers = 0;
  for (Barrier& barrier : block.barriers) barrier = Barrier{};
  const std::uint32_t threads = block.context.block_threads;
  const std::uint32_t warps = (threads + 31) / 32;
  if (block.warps.size() < warps) block.warps.resize(warps);
  block.warpgroups.clear();
  if (block.tensor_memory) block.tensor_memory->reset();
  for (std::uint32_t w = 0; w < warps; ++w) {
    Warp& warp = block.warps[w];
    const std::uint32_t lanes = std::min(threads - w * 32, 32U);
    warp.live = lanes == 32 ? ~0U : (1U << lanes) - 1;
    warp.polling = warp.used = 0;
  }
}

void ThreadScheduler::wait(Wait why) {
  Fiber& self = *current_;
  self.wait = why;
  const std::uint32_t w = self.thread.linear / 32;
  if (self.block->warps[w].polling) try_activemask(*self.block, self.block->warps[w], w);
  switch_away();
}

void ThreadScheduler::yield_block() {
  stop_if_cancelled();
  if (++block_yields_ <= live_fibers_) return;
  all_yielded_ = true;
  Fiber* self = current_;
  self->wait = Wait::kReady;
  ready_.push(self);
  leave_to_host(self);
}

void ThreadScheduler::cluster_wait() {
  while (join_cluster_waiters()) wait(Wait::kCluster);
}

CUCPU_NO_SANITIZE_THREAD void ThreadScheduler::exit_thread() {
  retire(*current_);
  exit_fiber();
}

void ThreadScheduler::retire(Fiber& fiber) {
  Block& block = *fiber.block;
  if (auto* const schedule = worker_.grid().schedule()) {
    const Cluster& cluster = *block.cluster;
    schedule->end(thread_id(fiber), {cluster.arena, cluster.arena_bytes});
  }
  const std::uint32_t threads = 1 + std::exchange(fiber.thread.more, 0);
  if (threads > 1) yields_ = 0;
  block.live -= threads;
  live_fibers_ -= threads;
  leave_barriers(block);
  leave_warp(fiber);
  leave_cluster(*block.cluster, threads);
  fiber_ended(block);
}

CUCPU_NO_SANITIZE_THREAD void ThreadScheduler::thread_main(void* scheduler) {
  auto& self = *static_cast<ThreadScheduler*>(static_cast<Scheduler*>(scheduler));
  finish_first_switch(self.worker_.host_stack());
  ThreadFunction* code = self.worker_.code().thread;
  for (;;) {
    code(&self.current_->thread);
    // A thread that has not started runs on this stack next, unless a ready fiber waits.
    Fiber* done = self.current_;
    if (!self.ready_.empty() || self.unstarted_.empty()) self.exit_thread();
    self.retire(*done);
    done->wait = Wait::kDone;
    const Stack stack = std::exchange(done->stack, {});
    if (self.ended_ || !self.ready_.empty() || self.unstarted_.empty()) {
      if (self.exited_stack_) self.stacks_.release(self.exited_stack_);
      self.exited_stack_ = stack;
      if (Fiber* next = self.ended_ ? nullptr : self.ready_.pop()) {
        self.switch_to(done, next);
      } else {
        self.leave_to_host(done);
      }
      __builtin_unreachable();
    }
    Fiber* next = self.start_fiber_on(stack);
    next->wait = Wait::kRunning;
    self.current_ = next;
  }
}

template class SchedulerLoop<ThreadScheduler>;

}  // namespace cucpu
