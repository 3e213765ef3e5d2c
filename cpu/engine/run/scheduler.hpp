// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/scheduler.hpp: the common base of the two schedulers of a host thread. It keeps
// the resident clusters and their fibers, and switches between fibers.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "cpu/engine/run/block.hpp"
#include "cpu/engine/run/fiber.hpp"
#include "cpu/engine/run/grid.hpp"
#include "cpu/engine/run/ready_queue.hpp"

namespace cucpu {

class Worker;

/// The largest number of resident threads and blocks of a host thread: what the largest GPUs keep
/// resident (148 multiprocessors), rounded up. Blocks of one grid may wait for each other as long
/// as there are no more of them.
inline constexpr std::uint64_t kMaxResidentThreads = 160 * 2048, kMaxResidentBlocks = 160 * 32;

/// Cooperative scheduling of fibers on one host thread.
///
/// BlockScheduler runs a block on one fiber, ThreadScheduler runs each thread of a block on a fiber
/// of its own. What differs between the two is data here (the entry function of a fiber and the
/// number of fibers per block) or a function of the derived class, which SchedulerLoop calls
/// statically: there are no virtual functions.
///
/// Invariants: a started fiber is in exactly one place: running (`current_`), in `ready_`, in the
/// waiters of a barrier or of a warp operation, or done. Fibers never change host threads.
/// Functions marked "fiber" run on the stack of the current fiber, all others on the stack of the
/// host thread.
class Scheduler {
 public:
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  [[nodiscard]] Fiber& current() { return *current_; }
  [[nodiscard]] const Fiber& current() const { return *current_; }
  void make_ready(Fiber* fiber) {
    fiber->wait = Wait::kReady;
    ready_.push(fiber);
    yields_ = 0;
  }
  /// Fiber: another fiber, chosen by the random schedule, runs first.
  void preempt();
  /// Fiber: lets every other fiber run first. For loops that wait for memory.
  void yield();
  /// Fiber: yields until the time has passed; one millisecond at most.
  void sleep(std::uint32_t nanoseconds);
  /// Fiber: ends it without unwinding its stack; Worker::current_fault() says why.
  [[noreturn]] void abandon_fiber();

  /// Fiber: arrives at the cluster barrier for so many threads.
  void cluster_arrive(std::uint32_t threads);

  /// Takes a cluster that has not started; the caller runs its work. False: none is left.
  bool cancel_cluster(std::uint64_t& index);

  /// Ends all resident clusters without running them further.
  void drop_residents();

 protected:
  friend struct DebuggerLayout;  // debugger.cpp
  Scheduler(Worker& worker, FiberEntry* entry) : worker_{worker}, entry_{entry} {}
  ~Scheduler() = default;

  /// Starts with a grid, or with other code for it. There must be no resident clusters.
  void begin(std::uint32_t fibers_per_block);
  void release_stacks();

  // Fibers.
  /// Fiber: switches to another fiber; returns after make_ready().
  void suspend(Wait why);
  void switch_away();    ///< Fiber: the second half of suspend(): `Fiber::wait` is set.
  void enter(Fiber*);    ///< From the host thread's stack; returns when a fiber leaves to it.
  Fiber* pick();         ///< The next fiber to run; null: none can run.
  Fiber* start_fiber();  ///< The next fiber that has not started, on a new stack; null: none.
  Fiber* start_fiber_on(Stack);
  void switch_to(Fiber* from, Fiber* to);
  void leave_to_host(Fiber* from);
  void stop_if_cancelled();        ///< Fiber: a safepoint.
  [[noreturn]] void exit_fiber();  ///< Fiber: after it was counted as ended.

  // Clusters.
  bool claim_cluster(std::uint64_t& index);  ///< The next one to start; false: none is left.
  [[nodiscard]] bool has_room() const;       ///< For one more cluster.
  void place(Block&, std::uint64_t cluster, std::uint32_t rank);  ///< Fills its BlockContext.
  void end_cluster(Cluster*);
  /// Counts the end of a fiber's block and cluster.
  void fiber_ended(Block&);
  bool complete_cluster_barrier(Cluster&);
  /// Fiber: false when the phase at which it arrived is complete; else it joins the waiters.
  bool join_cluster_waiters();
  void leave_cluster(Cluster&, std::uint32_t threads);

  // Idle time and deadlocks.
  [[nodiscard]] std::uint64_t shortest_sleep()
      const;  ///< Nanoseconds until a sleeping fiber wakes.
  /// Whether all threads of a cluster wait for each other, while other fibers only yield.
  [[nodiscard]] bool has_deadlock() const;
  void report_deadlock();
  /// Random schedules: all fibers only yield.
  void handle_stall(schedule::RandomSchedule&);

  Worker& worker_;
  FiberEntry* const entry_;
  std::uint32_t fibers_per_block_ = 1;
  Fiber* current_ = nullptr;
  ReadyQueue ready_;
  StackPool stacks_;
  /// The stack of the fiber that ended last. It is in use until the next switch, so it returns to
  /// the pool when the next fiber ends.
  Stack exited_stack_;
  std::vector<Cluster*> residents_;
  std::vector<Block*> unstarted_;  ///< blocks with fibers that have not started
  Cluster* ended_ = nullptr;       ///< its last block has ended; the loop releases it
  std::uint64_t live_fibers_ = 0;  ///< of all resident clusters
  std::uint64_t started_clusters_ = 0;
  bool out_of_memory_ = false;  ///< no stack could be mapped for a fiber

  std::uint64_t yields_ = 0;  ///< since a fiber did anything else
  std::uint64_t block_yields_ =
      0;                       ///< ThreadScheduler::yield_block() calls since all fibers had one
  bool all_yielded_ = false;   ///< every fiber may have called yield_block()
  bool starts_first_ = false;  ///< fibers that have not started run before ready ones
  std::uint32_t idle_rounds_ = 0;
  std::uint32_t burst_ = 1;  ///< clusters to start when all fibers are idle
  std::uint64_t idle_since_ns_ = 0;
  std::uint64_t changed_ns_ = 0;        ///< when a cluster last started or ended; 0: just now
  std::multiset<std::uint64_t> wakes_;  ///< when sleeping fibers wake
};

/// The loop of a scheduler on the stack of its host thread. A template, so that it calls the
/// derived scheduler without virtual functions.
///
/// Derived provides:
///   void configure_stacks(const Code&)   sets up `stacks_`
///   std::uint32_t fibers_of(const LaunchShape&)   fibers per block
///   void begin_block(Block&)             resets the state that only this scheduler uses
///   bool release_activemasks()           makes lanes ready that wait in activemask; whether any
template <class Derived>
class SchedulerLoop : public Scheduler {
 public:
  /// Runs clusters of the worker's grid with the worker's code. False: no cluster is left, or the
  /// grid was stopped. True: the grid has newer code, and this host thread has no resident cluster.
  bool run() noexcept;

 protected:
  using Scheduler::Scheduler;

 private:
  Derived& derived() { return static_cast<Derived&>(*this); }
  bool start_cluster();  ///< Makes one more cluster resident; false: none is left.
  void fill_residents(schedule::RandomSchedule&);  ///< Random schedules: up to their limit.
  bool start_clusters();  ///< Twice as many as the time before; false: none was started.
  void handle_idle();     ///< All fibers only yield: starts more clusters, or waits.
};

}  // namespace cucpu
