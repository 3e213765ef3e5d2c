// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/worker.hpp: a host thread that runs blocks. Routines that generated code calls
// find the running fiber, its grid and its code here.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cpu/engine/run/block_scheduler.hpp"
#include "cpu/engine/run/claims.hpp"
#include "cpu/engine/run/fiber_switch.hpp"
#include "cpu/engine/run/grid.hpp"
#include "cpu/engine/run/resident_pool.hpp"
#include "cpu/engine/run/signals.hpp"
#include "cpu/engine/run/thread_scheduler.hpp"

namespace cucpu {

/// Why the running fiber was abandoned. Filled where the fault happens (a signal handler too); the
/// scheduler turns it into a report.
struct FiberFault {
  int code = 0;  ///< CUresult; 0: none
  int signal = 0, signal_code = 0;
  std::uintptr_t address = 0, pc = 0;
  bool has_address = false, stack_overflow = false, cancelled = false;
  const char* name = nullptr;  ///< the name that check mode gives it
  std::string text;            ///< set outside signal handlers only (assert messages)
  [[nodiscard]] bool is_set() const { return code != 0 || cancelled; }
};

/// One per host thread, kept from grid to grid. It owns two schedulers and the memory of their
/// resident clusters; a grid runs on one of them at a time, chosen by the kind of its code.
class Worker {
 public:
  Worker();
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// The worker of the calling host thread, constructed on first use.
  static Worker& of_this_thread();
  /// The worker whose fiber runs on the calling host thread; null outside kernels.
  /// Async-signal-safe.
  static Worker* running() noexcept;

  /// Runs clusters of the grid until none is left; as Launch::work.
  bool run(Grid&, const WorkOptions& = {}) noexcept;

  // For routines that generated code calls, on the stack of the running fiber.
  [[nodiscard]] Fiber& current() { return scheduler_->current(); }
  [[nodiscard]] const Fiber& current() const { return scheduler_->current(); }
  [[nodiscard]] Grid& grid() { return *grid_; }
  [[nodiscard]] const Code& code() const { return *code_; }  ///< of the resident clusters
  [[nodiscard]] Scheduler& scheduler() { return *scheduler_; }
  [[nodiscard]] BlockScheduler& block_scheduler() { return block_scheduler_; }
  [[nodiscard]] ThreadScheduler& thread_scheduler() { return thread_scheduler_; }
  /// Ends the fiber without unwinding its stack; `current_fault()` says why.
  [[noreturn]] void abandon() { scheduler_->abandon_fiber(); }
  /// Ends the thread with a CUresult. `pc`: where generated code called the routine (for the line),
  /// or null.
  [[noreturn]] void trap(int code, const void* pc, std::string text = {});
  FiberFault& current_fault() { return fault_; }
  /// The text of a fault report: what happened, where, and in which thread: the running one, or
  /// `thread` of its lane group if that is known.
  [[nodiscard]] std::string describe(const FiberFault&,
                                     std::optional<std::uint32_t> thread = {}) const;
  [[nodiscard]] HostStack& host_stack() { return host_; }
  std::string& print_buffer() { return print_buffer_; }
  [[nodiscard]] CheckRange* check_ranges() { return check_ranges_; }
  bool in_host_call = false;  ///< a hook runs: a fault belongs to the host program

  // For the schedulers.
  /// Makes the worker the running one of its host thread.
  class RunningScope {
   public:
    explicit RunningScope(Worker&) noexcept;
    ~RunningScope();
    RunningScope(const RunningScope&) = delete;
    RunningScope& operator=(const RunningScope&) = delete;
  };
  [[nodiscard]] Claims& claims() { return claims_; }
  [[nodiscard]] ResidentPool& pool() { return pool_; }
  [[nodiscard]] std::uint32_t smid() const { return smid_; }
  void report_fault();  ///< Ends the grid with a report of `current_fault()`, and clears that.

 private:
  [[nodiscard]] bool in_shared(const FiberFault&) const;

  Grid* grid_ = nullptr;
  const Code* code_ = nullptr;
  Scheduler* scheduler_ = nullptr;  ///< the one that runs `code_`
  HostStack host_;
  Claims claims_;
  ResidentPool pool_;
  BlockScheduler block_scheduler_{*this};
  ThreadScheduler thread_scheduler_{*this};
  FiberFault fault_;
  std::uint32_t smid_;
  std::string print_buffer_;
  std::unique_ptr<std::byte[]> signal_stack_;
  CheckRange check_ranges_[kCheckRanges] = {};  ///< of the grid, if it has an observer
};

std::uint32_t nsmid();  ///< The number of host threads that have run blocks so far.

/// The hooks set by the driver layer.
const Hooks& hooks();

}  // namespace cucpu
