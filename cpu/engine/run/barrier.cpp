// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/barrier.cpp: the barriers of a block for threads on fibers, and the routines for
// barriers, yields and the end of a thread.
#include "cpu/engine/run/routines.hpp"
#include "cpu/engine/run/worker.hpp"

namespace cucpu {

void ThreadScheduler::complete_barrier(Block& block, Barrier& barrier) {
  --block.pending_barriers;
  if (GridObserver* const observer = worker_.grid().observer()) {
    std::vector<Fiber*> together = barrier.waiters.all();
    if (current_ && current_->block == &block && current_->wait == Wait::kRunning &&
        current_->arriving)
      together.push_back(current_);  // the last to arrive does not wait
    observer->barrier_completes(worker_, block, together, barrier.expected == 0);
  }
  const std::uint64_t result = barrier.set | std::uint64_t{barrier.arrived} << 32;
  barrier.arrived = barrier.set = barrier.expected = 0;
  while (Fiber* fiber = barrier.waiters.pop()) {
    fiber->result = result;
    make_ready(fiber);
  }
}

void ThreadScheduler::leave_barriers(Block& block) {
  if (block.pending_barriers == 0) return;
  for (Barrier& barrier : block.barriers) {
    if (barrier.arrived != 0 && barrier.expected == 0 && barrier.arrived >= block.live)
      complete_barrier(block, barrier);
  }
}

std::uint64_t ThreadScheduler::barrier(std::uint32_t id, std::uint32_t threads, bool predicate,
                                       bool waits, const void* pc) {
  Fiber& self = *current_;
  Block& block = *self.block;
  id %= 16;  // as on an H200: barrier 17 is barrier 1
  if (threads % 32 != 0)
    worker_.trap(
        715, nullptr,
        "a barrier of " + std::to_string(threads) + " threads: not a multiple of the warp size");
  Barrier& barrier = block.barriers[id];
  if (GridObserver* const observer = worker_.grid().observer())
    observer->barrier_arrives(worker_, pc);
  if (barrier.arrived == 0) ++block.pending_barriers;
  if (threads != 0) barrier.expected = threads;
  ++barrier.arrived;
  barrier.set += predicate ? 1 : 0;
  const std::uint32_t expected = barrier.expected ? barrier.expected : block.live;
  if (barrier.arrived >= expected) {
    const std::uint64_t result = barrier.set | std::uint64_t{barrier.arrived} << 32;
    self.arriving = waits;
    complete_barrier(block, barrier);
    self.arriving = false;
    if (worker_.current_fault().code != 0) abandon_fiber();
    return result;
  }
  if (!waits) return 0;
  self.barrier = static_cast<std::uint8_t>(id);
  barrier.waiters.push(&self);
  wait(Wait::kBarrier);
  return self.result;
}

}  // namespace cucpu

using namespace cucpu;

static ThreadScheduler& thread_scheduler() { return Worker::running()->thread_scheduler(); }

extern "C" {

void cucpu_rt_barrier_sync(std::uint32_t id, std::uint32_t threads) {
  thread_scheduler().barrier(id, threads, false, true, __builtin_return_address(0));
}

void cucpu_rt_barrier_arrive(std::uint32_t id, std::uint32_t threads) {
  thread_scheduler().barrier(id, threads, false, false, __builtin_return_address(0));
}

std::uint32_t cucpu_rt_barrier_red_popc(std::uint32_t id, std::uint32_t threads, bool predicate) {
  return static_cast<std::uint32_t>(
      thread_scheduler().barrier(id, threads, predicate, true, __builtin_return_address(0)));
}

bool cucpu_rt_barrier_red_and(std::uint32_t id, std::uint32_t threads, bool predicate) {
  const std::uint64_t result =
      thread_scheduler().barrier(id, threads, predicate, true, __builtin_return_address(0));
  return static_cast<std::uint32_t>(result) == result >> 32;
}

bool cucpu_rt_barrier_red_or(std::uint32_t id, std::uint32_t threads, bool predicate) {
  return static_cast<std::uint32_t>(thread_scheduler().barrier(id, threads, predicate, true,
                                                               __builtin_return_address(0))) != 0;
}

void cucpu_rt_cluster_arrive() { thread_scheduler().cluster_arrive(1); }
void cucpu_rt_cluster_wait() { thread_scheduler().cluster_wait(); }
void cucpu_rt_block_cluster_arrive(BlockContext* context) {
  Worker::running()->block_scheduler().cluster_arrive(context->block_threads);
}
void cucpu_rt_block_cluster_wait(BlockContext*) {
  Worker::running()->block_scheduler().cluster_wait();
}

void cucpu_rt_yield() { Worker::running()->scheduler().yield(); }
void cucpu_rt_nanosleep(std::uint32_t nanoseconds) {
  Worker::running()->scheduler().sleep(nanoseconds);
}

void cucpu_rt_yield_block() {
  Worker& worker = *Worker::running();
  if (worker.code().block) return worker.block_scheduler().yield_block();
  worker.thread_scheduler().yield_block();
}

void cucpu_rt_exit() { thread_scheduler().exit_thread(); }

void cucpu_rt_trap(std::uint32_t code) {
  Worker::running()->trap(static_cast<int>(code), __builtin_return_address(0));
}

void cucpu_rt_misaligned(std::uint64_t address) {
  Worker& worker = *Worker::running();
  worker.current_fault().address = address;
  worker.current_fault().has_address = true;
  worker.trap(716, __builtin_return_address(0));
}

void cucpu_rt_cancelled() {
  Worker& worker = *Worker::running();
  worker.current_fault().cancelled = true;
  worker.abandon();
}

void cucpu_rt_poll() {
  if (Worker::running()->grid().stopped()) cucpu_rt_cancelled();
}

ThreadContext* cucpu_rt_thread() { return &Worker::running()->current().thread; }

}  // extern "C"
