// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/scheduler_loop.hpp: the definition of SchedulerLoop, for the source files that
// instantiate it.
#pragma once

#include <sched.h>

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "cpu/engine/run/clock.hpp"
#include "cpu/engine/run/scheduler.hpp"
#include "cpu/engine/run/worker.hpp"
#include "protection.hpp"

namespace cucpu {

template <class Derived>
bool SchedulerLoop<Derived>::run() noexcept {
  Grid& grid = worker_.grid();
  const Code& code = worker_.code();
  bool has_newer_code = false;
  try {
    derived().configure_stacks(code);
    begin(derived().fibers_of(grid.shape()));
    for (;;) {
      if (grid.stopped()) {
        drop_residents();
        worker_.claims().abandon();
        break;
      }
      if (auto* const schedule = grid.schedule()) {
        if (all_yielded_ || yields_ > 2 * ready_.size() + 8) {
          if (!derived().release_activemasks()) handle_stall(*schedule);
          if (grid.stopped()) continue;
        }
        fill_residents(*schedule);
      } else if (all_yielded_ || yields_ > 2 * ready_.size() + 8) {
        handle_idle();
      }
      Fiber* next = pick();
      if (!next) {
        if (derived().release_activemasks()) continue;
        if (residents_.empty()) {
          has_newer_code = &grid.latest_code() != &code;
          if (!has_newer_code && !worker_.claims().is_exhausted() && start_cluster()) continue;
          break;
        }
        if (out_of_memory_) {
          grid.fail_out_of_memory("the stacks of a block's threads");
        } else if (CUCORE_PROTECTION("deadlock-report")) {
          report_deadlock();
        }
        continue;
      }
      enter(next);
      if (worker_.current_fault().is_set()) worker_.report_fault();
      if (ended_) end_cluster(std::exchange(ended_, nullptr));
    }
  } catch (const std::bad_alloc&) {
    grid.fail_out_of_memory("a block");
    drop_residents();
    worker_.claims().abandon();
  }
  release_stacks();
  return has_newer_code;
}

template <class Derived>
bool SchedulerLoop<Derived>::start_cluster() {
  const LaunchShape& shape = worker_.grid().shape();
  const Code& code = worker_.code();
  std::uint64_t index = 0;
  if (!claim_cluster(index)) return false;
  try {
    Cluster* const cluster = worker_.pool().acquire(code, shape);
    const auto count = static_cast<std::uint32_t>(shape.cluster.volume());
    for (std::uint32_t rank = 0; rank < count; ++rank) {
      Block& block = *cluster->blocks[rank];
      place(block, index, rank);
      block.live = fibers_per_block_;
      live_fibers_ += block.live;
      ready_.reserve(live_fibers_);
      if (block.fibers.size() < block.live) block.fibers = std::vector<Fiber>(block.live);
      for (std::uint32_t i = 0; i < block.live; ++i) block.fibers[i].wait = Wait::kUnstarted;
      derived().begin_block(block);
      if (GridObserver* const observer = worker_.grid().observer(); observer && code.thread)
        observer->block_starts(worker_, block);
      unstarted_.push_back(&block);
    }
    cluster->blocks_left = count;
    cluster->is_counted = false;
    cluster->live = std::uint64_t{count} * shape.block.volume();
    cluster->arrived = 0;
    cluster->phase = 0;
    cluster->waiters.clear();
    residents_.push_back(cluster);
  } catch (...) {
    worker_.claims().put_back();  // Claims::abandon counts it
    throw;
  }
  ++started_clusters_;
  idle_rounds_ = 0;
  changed_ns_ = 0;
  return true;
}

template <class Derived>
void SchedulerLoop<Derived>::fill_residents(schedule::RandomSchedule& schedule) {
  while (residents_.size() < schedule.most_resident() && has_room() && start_cluster()) {
  }
  while (Fiber* const fiber = start_fiber()) {  // the schedule chooses among all threads
    fiber->wait = Wait::kReady;
    ready_.push(fiber);
  }
}

template <class Derived>
bool SchedulerLoop<Derived>::start_clusters() {
  std::uint32_t started = 0;
  while (started < burst_ && has_room() && start_cluster()) ++started;
  starts_first_ = started != 0;
  if (burst_ < kMaxResidentBlocks) burst_ *= 2;  // the clusters waited for were not among the last
  return started != 0;
}

template <class Derived>
void SchedulerLoop<Derived>::handle_idle() {
  constexpr std::uint64_t kPerYield = 1'000, kShortWait = 20'000;  // ns
  constexpr std::uint64_t kLongSleep = 20'000;      // ns: worth a system call, or another cluster
  constexpr std::uint64_t kLongestPause = 200'000;  // ns: then the grid may have been stopped
  // More time per yield than that: the fibers do work between their yields.
  const std::uint64_t yields = std::max(yields_, block_yields_), now = now_ns();
  const bool works = now - idle_since_ns_ > yields * kPerYield;
  const bool by_blocks = std::exchange(all_yielded_, false);
  yields_ = block_yields_ = 0;
  idle_since_ns_ = now;
  if (changed_ns_ == 0) changed_ns_ = now;
  if (!by_blocks && derived().release_activemasks()) return;
  // Most waits are short.
  const bool cooperative = worker_.grid().shape().cooperative;
  if (!cooperative && now - changed_ns_ < kShortWait) return;
  // Blocks of a cooperative grid wait for each other by design. In other grids the block waited for
  // most likely runs on another host thread: wait for some rounds before starting more clusters.
  constexpr std::uint32_t kPatience = 16;
  const bool take = cooperative || idle_rounds_ >= kPatience;
  const std::uint64_t rest = shortest_sleep();
  const bool asleep = rest >= kLongSleep && wakes_.size() >= ready_.size();
  if (CUCORE_PROTECTION("start-block-while-waiting") && (take || asleep) && start_clusters())
    return;
  // Another host thread has to act first, or time has to pass.
  ++idle_rounds_;
  if (!asleep && idle_rounds_ >= 32 && std::has_single_bit(idle_rounds_) && has_deadlock())
    return report_deadlock();
  if (asleep) {
    pause_ns(std::min(rest, kLongestPause));
    idle_since_ns_ = now_ns();
  } else if (idle_rounds_ < (rest < kLongSleep ? 1024 : 64) || works) {
    sched_yield();
  } else {
    pause_ns(idle_rounds_ < 1024 ? kLongSleep : kLongestPause);
    idle_since_ns_ = now_ns();
  }
}

}  // namespace cucpu
