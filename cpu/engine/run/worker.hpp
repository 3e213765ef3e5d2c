// cpu/engine/run/worker.hpp: a host thread that runs blocks: its fibers, ready queue, stacks and
// shared memory, kept from grid to grid.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cpu/engine/run/block.hpp"
#include "cpu/engine/run/fiber_switch.hpp"
#include "cpu/engine/run/grid.hpp"
#include "cpu/engine/run/shared_memory_arena.hpp"
#include "cpu/engine/run/signals.hpp"

namespace cucpu {

/// Why the fiber that ran was left for good. Filled where it happens (in a signal handler too),
/// turned into text by the scheduler.
struct FiberFault {
  int code = 0;  ///< CUresult; 0: none
  int signal = 0, signal_code = 0;
  std::uintptr_t address = 0, pc = 0;
  bool has_address = false, stack_overflow = false, cancelled = false;
  const char* name = nullptr;  ///< what check mode calls it
  std::string text;            ///< set outside handlers only (assert messages)
};

class Worker {
 public:
  Worker();
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// The worker of this host thread, made when first asked for.
  static Worker& of_this_thread();
  /// The worker whose fiber runs right now on this host thread; nullptr outside kernels. Safe in
  /// signal handlers.
  static Worker* running() noexcept;

  bool run(Grid&) noexcept;

  // For the routines that generated code calls: all on the running fiber.
  [[nodiscard]] Fiber& current() { return *current_; }
  [[nodiscard]] Grid& grid() { return *grid_; }
  [[nodiscard]] const Code& code() const { return *code_; }  ///< that the residents run with
  void make_ready(Fiber* fiber) {
    fiber->wait = Wait::kReady;
    ready_.push(fiber);
    yields_ = 0;
  }
  void wait(Wait why);  ///< Switches away; returns when made ready.
  void yield();         ///< Lets every other fiber run first.
  void turn();          ///< The same for a loop whose every turn passes a barrier.
  void sleep(std::uint32_t nanoseconds);  ///< The same, for this time; a millisecond at most.
  [[noreturn]] void exit_thread();
  /// Leaves the fiber for good; `current_fault()` says why.
  [[noreturn]] void abandon();
  /// A routine ends the thread with a CUresult; `pc` is where generated code called it (for the
  /// line), or null.
  [[noreturn]] void trap(int code, const void* pc, std::string text = {});
  FiberFault& current_fault() { return fault_; }
  /// What happened, where, to which thread: the running one, or the `thread` of its lane group that
  /// is known to be the one.
  [[nodiscard]] std::string describe(const FiberFault&,
                                     std::optional<std::uint32_t> thread = {}) const;
  /// Stops a thread from being counted: barriers, warps and the cluster stop waiting for it.
  void retire(Fiber&);

  void complete(Block&, Barrier&);
  bool complete_cluster(Cluster&);
  bool try_rendezvous(Block&, std::uint32_t warp, std::uint32_t slot);
  void try_activemask(Block&, Warp&, std::uint32_t warp);
  bool try_warpgroup(Block&, std::uint32_t group);
  [[nodiscard]] HostStack& host_stack() { return host_; }
  std::string& print_buffer() { return print_buffer_; }
  bool in_host_call = false;  ///< a hook runs: a fault here is the host's

 private:
  static void thread_main(void*);
  static void block_main(void*);

  void use(const Code&);  ///< For clusters that start from now on. While there are no residents.
  void release_stacks();  ///< The same.
  bool next_cluster(std::uint64_t& index);
  bool start();  ///< Makes one more cluster resident; false when none is left.
  Cluster* take_cluster(std::uint32_t blocks);
  void map_shared(Cluster&, std::size_t bytes);  ///< Gives it at least so much shared memory.
  void place(Block&, std::uint64_t cluster, std::uint32_t rank);
  void step(Block&, std::uint64_t index);
  void run_block(Block&);
  void recycle(Cluster*);
  void drop_residents();
  Fiber* pick();
  Fiber* spawn();
  Fiber* next_thread(Stack);  ///< The next thread that has not started, on this stack.
  void enter(Fiber*);
  void switch_to(Fiber* from, Fiber* to);
  void to_scheduler(Fiber* from);
  [[nodiscard]] std::uint64_t shortest_sleep() const;  ///< Nanoseconds until a fiber wakes.
  void
  handle_idle();  ///< Every fiber only yields: start other blocks, or let other host threads run.
  /// While others yield: the threads of a block that only wait for each other will do so for ever.
  [[nodiscard]] bool has_deadlock() const;
  [[nodiscard]] bool has_room() const;  ///< for one more cluster
  bool start_some();                    ///< Twice as many as the time before; false: none is left.
  void leave_barriers(Block&);
  void leave_warp(Fiber&);
  void leave_cluster(Cluster&, std::uint32_t threads);
  bool force_activemasks();
  void report_deadlock();
  void report_fault();
  [[nodiscard]] bool in_shared(const FiberFault&) const;
  [[nodiscard]] bool runner_mode() const;

  Grid* grid_ = nullptr;
  const Code* code_ = nullptr;
  HostStack host_;
  Fiber* current_ = nullptr;
  FiberQueue ready_;
  StackPool block_stacks_, thread_stacks_;
  StackPool* stacks_ = nullptr;  ///< the one this grid uses
  Stack exited_stack_;  ///< stack of the fiber that ended last; still under our feet while we leave
                        ///< it
  SharedMemoryArena shared_arena_;
  std::vector<Cluster*> residents_;
  std::vector<std::unique_ptr<Cluster>> clusters_;  ///< all, and
  std::vector<Cluster*> free_clusters_;             ///< those without work
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Block*> free_blocks_;
  std::vector<Block*> unstarted_;      ///< blocks with threads that have not started
  unsigned slot_ = 0;                  ///< in the grid's WorkStealingRanges
  WorkStealingRanges::Range claimed_;  ///< clusters that are ours to start
  bool all_claimed_ = false;           ///< nothing is left to claim
  std::uint64_t done_ = 0;             ///< clusters finished and not yet reported to the grid
  std::uint64_t yields_ = 0;           ///< since anything else happened
  std::uint64_t turns_ = 0;            ///< thread code: since they were enough for all threads
  bool turned_ = false;                ///< they were: every thread may have gone round
  bool starts_first_ = false;          ///< threads that have not started go before those that have
  std::uint64_t fibers_ = 0;           ///< of all residents
  std::uint32_t idle_rounds_ = 0, burst_ = 1;
  std::uint64_t idle_since_ns_ = 0, changed_ns_ = 0;  ///< when fibers last did no more than yield,
                                                      ///< and when a cluster last started or ended
  std::multiset<std::uint64_t> wakes_;                ///< when fibers that sleep are to go on
  Cluster* ended_ = nullptr;    ///< its last block has ended; the scheduler puts it away
  bool out_of_memory_ = false;  ///< a fiber could not get a stack
  std::uint32_t smid_;
  FiberFault fault_;
  std::string print_buffer_;
  std::unique_ptr<std::byte[]> signal_stack_;
};

std::uint32_t nsmid();  ///< How many host threads have run blocks so far.

/// The hooks set by the driver layer.
const Hooks& hooks();

}  // namespace cucpu
