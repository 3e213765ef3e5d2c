// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/scheduler.cpp
#include "cpu/engine/run/scheduler.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "cpu/engine/run/clock.hpp"
#include "cpu/engine/run/fiber_switch.hpp"
#include "cpu/engine/run/worker.hpp"
#include "protection.hpp"

namespace cucpu {

schedule::ThreadId thread_id(const Fiber& fiber) {
  const BlockContext& c = fiber.block->context;
  return {
      c.index[0] + std::uint64_t{c.grid[0]} * (c.index[1] + std::uint64_t{c.grid[1]} * c.index[2]),
      fiber.thread.linear};
}

void Scheduler::begin(std::uint32_t fibers_per_block) {
  fibers_per_block_ = fibers_per_block;
  ready_.set_indexed(worker_.grid().schedule() != nullptr);
  yields_ = block_yields_ = live_fibers_ = 0;
  all_yielded_ = starts_first_ = false;
  idle_rounds_ = 0;
  burst_ = 1;
  changed_ns_ = 0;
  wakes_.clear();
  out_of_memory_ = false;
  started_clusters_ = 0;
  current_ = nullptr;
}

void Scheduler::release_stacks() {
  if (exited_stack_) stacks_.release(std::exchange(exited_stack_, {}));
  stacks_.trim();
}

// ---- fibers ----

void Scheduler::enter(Fiber* next) {
  current_ = next;
  next->wait = Wait::kRunning;
  const Worker::RunningScope running{worker_};
  enter_fiber(worker_.host_stack(), next->sp, next->stack);
}

Fiber* Scheduler::pick() {
  if (auto* const schedule = worker_.grid().schedule(); schedule && !ready_.empty()) {
    return ready_.take(
        schedule->choose(current_ ? thread_id(*current_) : schedule::ThreadId{}, ready_.size()));
  }
  // New fibers first when other fibers may wait for them. Otherwise ready fibers first, which keeps
  // the number of stacks in use small.
  if (starts_first_) {
    if (Fiber* next = start_fiber()) return next;
    starts_first_ = false;
  }
  if (Fiber* next = ready_.pop()) return next;
  return start_fiber();
}

Fiber* Scheduler::start_fiber() {
  if (unstarted_.empty()) return nullptr;
  try {
    const Stack stack = stacks_.acquire();
    Fiber* fiber = start_fiber_on(stack);
    fiber->sp = prepare_fiber(stack, entry_, this, fiber->thread.linear);
    return fiber;
  } catch (const std::bad_alloc&) {
    out_of_memory_ = true;  // running fibers may end and release their stacks
    return nullptr;
  }
}

Fiber* Scheduler::start_fiber_on(Stack stack) {
  Block& block = *unstarted_.front();
  const std::uint32_t linear = block.context.started++;
  if (block.context.started == fibers_per_block_) unstarted_.erase(unstarted_.begin());
  Fiber& fiber = block.fibers[linear];
  fiber.block = &block;
  fiber.stack = stack;
  fiber.thread = {&block.context, {0, 0, 0}, linear, 0};
  if (linear != 0) {
    const Dim3 d = worker_.grid().shape().block;
    fiber.thread.tid[0] = linear % d.x;
    fiber.thread.tid[1] = linear / d.x % d.y;
    fiber.thread.tid[2] = linear / (d.x * d.y);
  }
  yields_ = 0;
  return &fiber;
}

CUCPU_NO_SANITIZE_THREAD void Scheduler::switch_to(Fiber* from, Fiber* to) {
  if (from == to) {  // it was made ready before it left
    from->wait = Wait::kRunning;
    return;
  }
  current_ = to;
  to->wait = Wait::kRunning;
  switch_fiber(&from->sp, to->sp, to->stack);
}

CUCPU_NO_SANITIZE_THREAD void Scheduler::leave_to_host(Fiber* from) {
  leave_fiber(&from->sp, worker_.host_stack());
}

void Scheduler::suspend(Wait why) {
  current_->wait = why;
  switch_away();
}

void Scheduler::switch_away() {
  Fiber* self = current_;
  if (Fiber* next = pick()) {
    switch_to(self, next);
  } else {
    leave_to_host(self);
  }
}

void Scheduler::stop_if_cancelled() {
  if (!worker_.grid().stopped()) return;
  worker_.current_fault().cancelled = true;
  abandon_fiber();
}

void Scheduler::yield() {
  Fiber* self = current_;
  stop_if_cancelled();
  ++yields_;
  Fiber* next = nullptr;
  if (yields_ <= 2 * ready_.size() + 8) {
    if (auto* const schedule = worker_.grid().schedule()) {
      schedule->waits();
      next = pick();
    } else {
      const std::uint64_t yields = yields_;
      next = start_fiber();  // a fiber that has not started may be the one it waits for
      if (next) yields_ = yields;
      if (!next) next = ready_.pop();
    }
    if (!next) return;
  }
  self->wait = Wait::kReady;
  ready_.push(self);
  if (next) {
    switch_to(self, next);
  } else {
    leave_to_host(self);
  }
}

void Scheduler::preempt() {
  stop_if_cancelled();
  Fiber* const next = ready_.empty() ? nullptr : pick();
  if (!next) return;
  Fiber* const self = current_;
  self->wait = Wait::kReady;
  ready_.push(self);
  switch_to(self, next);
}

void Scheduler::sleep(std::uint32_t nanoseconds) {
  constexpr std::uint32_t kLongest = 1'000'000;  // of nanosleep, by the PTX manual
  // A random schedule does not depend on time.
  if (nanoseconds == 0 || worker_.grid().schedule()) return yield();
  const std::uint64_t end = now_ns() + std::min(nanoseconds, kLongest);
  const auto entry = wakes_.insert(end);
  do yield();
  while (now_ns() < end);
  wakes_.erase(entry);
}

CUCPU_NO_SANITIZE_THREAD void Scheduler::abandon_fiber() {
  leave_to_host(current_);
  __builtin_unreachable();
}

CUCPU_NO_SANITIZE_THREAD void Scheduler::exit_fiber() {
  Fiber* self = current_;
  self->wait = Wait::kDone;
  if (exited_stack_) stacks_.release(exited_stack_);
  exited_stack_ = std::exchange(self->stack, {});
  Fiber* next = ended_ ? nullptr : pick();
  if (next) {
    switch_to(self, next);
  } else {
    leave_to_host(self);
  }
  __builtin_unreachable();
}

// ---- clusters ----

bool Scheduler::claim_cluster(std::uint64_t& index) {
  if (!worker_.claims().next(index)) return false;
  if (auto* const schedule = worker_.grid().schedule()) index = schedule->cluster(index);
  return true;
}

bool Scheduler::cancel_cluster(std::uint64_t& index) {
  // All blocks of a cooperative grid are resident on a GPU: none is left to cancel.
  if (worker_.grid().shape().cooperative || !claim_cluster(index)) return false;
  worker_.claims().finish(1);
  ++started_clusters_;
  return true;
}

bool Scheduler::has_room() const {
  const LaunchShape& shape = worker_.grid().shape();
  const std::uint64_t after = (residents_.size() + 1) * shape.cluster.volume();
  return after <= kMaxResidentBlocks && after * shape.block.volume() <= kMaxResidentThreads;
}

void Scheduler::place(Block& block, std::uint64_t index, std::uint32_t rank) {
  Grid& grid = worker_.grid();
  const LaunchShape& shape = grid.shape();
  const Code& code = worker_.code();
  const std::uint32_t processors = nsmid();
  if (code.fills_scratch && code.scratch_bytes > 0)
    std::memset(block.scratch, 0x5a, code.scratch_bytes);
  const Dim3 c = shape.cluster;
  // Divisions are slow, and most grids have no clusters.
  Dim3 in{0, 0, 0}, at{0, 0, 0};
  if (rank != 0) in = {rank % c.x, rank / c.x % c.y, rank / (c.x * c.y)};
  if (index != 0) {
    const std::uint64_t gx = c.x == 1 ? shape.grid.x : shape.grid.x / c.x;
    const std::uint64_t gy = c.y == 1 ? shape.grid.y : shape.grid.y / c.y;
    const std::uint64_t row = index / gx;
    at = {static_cast<std::uint32_t>(index - row * gx), static_cast<std::uint32_t>(row % gy),
          static_cast<std::uint32_t>(row / gy)};
  }
  block.context = {
      .grid = {shape.grid.x, shape.grid.y, shape.grid.z},
      .block = {shape.block.x, shape.block.y, shape.block.z},
      .index = {at.x * c.x + in.x, at.y * c.y + in.y, at.z * c.z + in.z},
      .cluster = {c.x, c.y, c.z},
      .cluster_index = {in.x, in.y, in.z},
      .cluster_rank = rank,
      .params = grid.params(),
      .shared = block.cluster->shared[rank],
      .shared_bytes = shared_bytes(code, shape),
      .dynamic_shared_bytes = shape.dynamic_shared_bytes,
      .reserved_shared_offset = reserved_shared_offset(code, shape),
      .block_threads = static_cast<std::uint32_t>(shape.block.volume()),
      .cancel = grid.cancel_flag(),
      .scratch = block.scratch,
      .grid_workspace = grid.workspace(),
      .grid_id = grid.id(),
      .cluster_shared = block.cluster->shared.data(),
      .smid = worker_.smid(),
      .nsmid = processors,
      .check_ranges = worker_.check_ranges(),
      .check_interval = 0,
      .check_clock = nullptr,
      .check_empty = 0,
      .check_block = 0,
      .check_now = 0,
      .check_steps = nullptr,
      .check_sites = nullptr,
      .current_thread = 0,
      .current_lanes = 1,
      .blocks_left = 0,
      .current_blocks = 1,
      .started = 0,
  };
  block.linear = index;
}

void Scheduler::end_cluster(Cluster* cluster) {
  if (residents_.back() == cluster)
    residents_.pop_back();
  else
    std::erase(residents_, cluster);
  worker_.pool().release(cluster);
  idle_rounds_ = 0;
  burst_ = 1;
  changed_ns_ = 0;
}

void Scheduler::fiber_ended(Block& block) {
  if (block.live != 0 || --block.cluster->blocks_left != 0) return;
  ended_ = block.cluster;
  if (!ended_->is_counted) worker_.claims().finish(1);
}

void Scheduler::drop_residents() {
  ready_.clear();
  unstarted_.clear();
  ended_ = nullptr;
  for (Cluster* cluster : residents_) {
    for (Block* block : cluster->blocks) {
      worker_.claims().finish(std::exchange(block->run, 0));
      for (std::uint32_t i = 0; i < block->context.started; ++i) {
        if (CUCORE_PROTECTION("release-stacks-of-cancelled-grid") && block->fibers[i].stack)
          stacks_.release(std::exchange(block->fibers[i].stack, {}));
      }
    }
    if (!cluster->is_counted) worker_.claims().finish(1);
    worker_.pool().release(cluster);
  }
  residents_.clear();
  destroy_tsan_fibers(worker_.host_stack());
}

// ---- the cluster barrier ----

bool Scheduler::complete_cluster_barrier(Cluster& cluster) {
  if (cluster.arrived == 0 || cluster.arrived < cluster.live) return false;
  cluster.arrived = 0;
  ++cluster.phase;
  if (GridObserver* const observer = worker_.grid().observer())
    observer->cluster_barrier_completes(cluster);
  while (Fiber* fiber = cluster.waiters.pop()) make_ready(fiber);
  return true;
}

void Scheduler::leave_cluster(Cluster& cluster, std::uint32_t threads) {
  cluster.live -= threads;
  complete_cluster_barrier(cluster);
}

void Scheduler::cluster_arrive(std::uint32_t threads) {
  Cluster& cluster = *current_->block->cluster;
  current_->cluster_phase = cluster.phase + 1;
  cluster.arrived += threads;
  complete_cluster_barrier(cluster);
}

bool Scheduler::join_cluster_waiters() {
  Cluster& cluster = *current_->block->cluster;
  if (static_cast<std::int32_t>(cluster.phase - current_->cluster_phase) >= 0) return false;
  cluster.waiters.push(current_);
  return true;
}

// ---- idle time ----

void Scheduler::handle_stall(schedule::RandomSchedule& schedule) {
  yields_ = block_yields_ = 0;
  all_yielded_ = false;
  if (has_deadlock()) return report_deadlock();
  schedule.finish();
  if (!schedule.is_stalled(ready_.size())) return;
  const LaunchShape& shape = worker_.grid().shape();
  const std::uint64_t clusters = shape.grid.volume() / shape.cluster.volume();
  if (started_clusters_ == clusters) return pause_ns(20'000);  // the host may write what they read
  worker_.grid().fail(
      719, "kernel " + worker_.code().kernel +
               ": its threads wait for memory that only a block can write which has not started (" +
               std::to_string(residents_.size() * shape.cluster.volume()) + " of " +
               std::to_string(shape.grid.volume()) +
               " blocks are resident, schedule seed:" + std::to_string(schedule.options().seed) +
               "). The order of blocks is not defined, and on a GPU the others start only when "
               "these have ended: use a cooperative launch");
}

std::uint64_t Scheduler::shortest_sleep() const {
  if (wakes_.empty()) return ~std::uint64_t{0};
  const std::uint64_t now = now_ns();
  return *wakes_.begin() > now ? *wakes_.begin() - now : 0;
}

}  // namespace cucpu
