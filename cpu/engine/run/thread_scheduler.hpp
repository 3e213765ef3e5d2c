// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/thread_scheduler.hpp: runs thread code: each thread of a block on a fiber of its
// own.
#pragma once

#include "cpu/engine/run/scheduler.hpp"

namespace cucpu {

/// One fiber per thread, for kernels whose threads wait for each other (barriers, warp operations,
/// spin loops) and that were not vectorized. Barriers and warp operations are functions of this
/// class: barrier.cpp and warp.cpp.
///
/// A thread that has exited is never waited for: retire() completes the barriers and warp
/// operations that lack only this thread.
class ThreadScheduler final : public SchedulerLoop<ThreadScheduler> {
 public:
  explicit ThreadScheduler(Worker& worker) : SchedulerLoop{worker, thread_main} {}

  // All of these: fiber.
  /// Switches to another fiber; returns after make_ready().
  void wait(Wait why);
  /// On the back edge of a loop that waits for memory and passes a barrier in every iteration: the
  /// barrier lets the other threads run, so this yields once per round of all fibers.
  void yield_block();
  [[noreturn]] void exit_thread();

  /// Arrives at a barrier; `waits`: until it is complete. Returns the number of true predicates,
  /// and the number of participants in the upper half. `threads` = 0: all threads that have not
  /// exited.
  std::uint64_t barrier(std::uint32_t id, std::uint32_t threads, bool predicate, bool waits,
                        const void* pc);
  /// Waits for the phase of the cluster barrier at which the thread has arrived.
  void cluster_wait();
  std::uint64_t warp_operation(std::uint32_t kind, std::uint32_t mask, std::uint64_t a,
                               std::uint32_t b, std::uint32_t c, const void* pc);
  std::uint32_t activemask(const void* site);
  void warpgroup_call(cucpu_warpgroup_routine*, const void* in, void* out);

 private:
  friend class SchedulerLoop<ThreadScheduler>;
  void configure_stacks(const Code&);
  static std::uint32_t fibers_of(const LaunchShape& shape) {
    return static_cast<std::uint32_t>(shape.block.volume());
  }
  void begin_block(Block&);
  /// When all other lanes only yield: makes the lanes ready that wait in activemask.
  bool release_activemasks();

  static void thread_main(void* scheduler);
  /// Counts the threads that the fiber has run as exited for barriers, warps and the cluster. Code
  /// that runs several threads on a fiber has neither barriers nor warp operations.
  void retire(Fiber&);

  // barrier.cpp
  void complete_barrier(Block&, Barrier&);
  void leave_barriers(Block&);
  // warp.cpp
  bool try_warp_operation(Block&, std::uint32_t warp, std::uint32_t slot);
  bool try_warpgroup(Block&, std::uint32_t group);
  void try_activemask(Block&, Warp&, std::uint32_t warp);
  void complete_activemask(Block&, Warp&, std::uint32_t warp);
  void leave_warp(Fiber&);
};

extern template class SchedulerLoop<ThreadScheduler>;

}  // namespace cucpu
