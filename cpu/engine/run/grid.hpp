// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/grid.hpp: one launched grid, shared by the host threads that run it. No LLVM: code
// comes as function pointers.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "cpu/engine/engine.hpp"
#include "cpu/engine/peer_access.hpp"
#include "cpu/engine/run/block_context.hpp"
#include "cpu/engine/run/block_time.hpp"
#include "cpu/engine/run/grid_observer.hpp"
#include "cpu/engine/run/tier_up.hpp"
#include "cpu/engine/run/work_stealing.hpp"
#include "cpu/engine/schedule/random_schedule.hpp"

namespace cucpu {

/// Compiled code of a kernel, ready to run. Exactly one of `block` and `thread` is set.
struct Code {
  std::string kernel;  ///< for reports
  BlockFunction* block = nullptr;
  ThreadFunction* thread = nullptr;
  std::uint32_t static_shared_bytes = 0;
  std::uint32_t dynamic_shared_offset = 0;  ///< static bytes, aligned for the extern arrays
  std::uint32_t scratch_bytes = 0;
  bool fills_scratch = false;  ///< CUCORE_CPU_STRICT: makes reads of uninitialized scratch visible
  std::uint32_t stack_bytes = 64 * 1024;
  bool recursive = false;         ///< stack use has no static bound: stacks have guard pages
  bool waits_for_blocks = false;  ///< spins on memory: clusters are started in linear order
  bool baseline = false;          ///< optimized code may replace it (tier_up.hpp)
  bool debug = false;             ///< debug mode: one host thread runs the grid (debugger.hpp)
  bool iterates_blocks =
      false;  ///< block code that runs the next BlockContext::blocks_left blocks in one call
  /// Instrumented code: creates the observer of a grid that runs it. Empty: no observer.
  std::function<std::unique_ptr<GridObserver>()> make_observer;
  bool parallel_observer = false;    ///< its observer allows several host threads
  bool has_schedule_points = false;  ///< a random schedule can run it (CUCORE_CPU_SCHEDULE)
  /// "file:line" of an instruction address; empty if unknown. May be slow.
  std::function<std::string(std::uintptr_t)> line_of;
  /// Vector code: compiles the same kernel as scalar code. Throws LoadError.
  std::function<std::shared_ptr<const Code>()> scalar;
  mutable BlockTime block_time;
};

/// Where one thread faulted.
struct FaultPlace {
  int code = 0;
  std::uintptr_t address = 0;
  std::uint32_t thread = 0;  ///< linear in its block
  std::string line;
};

class Worker;

class Grid {
 public:
  /// `params` must outlive the grid. Blocks that start after the
  /// tier-up run optimized code.
  Grid(std::shared_ptr<const Code>, const LaunchShape&, const std::byte* params,
       std::shared_ptr<const TierUp> = {});

  ~Grid();
  bool work(const WorkOptions& options = {}) noexcept;  ///< As Launch::work.
  void cancel(int code) noexcept;
  void divide(std::uint64_t parts) noexcept { unclaimed_.divide(parts); }
  [[nodiscard]] std::uint64_t parallelism() const noexcept { return serial_ ? 1 : clusters_; }
  /// As Launch::expected_ns. Unknown where blocks may wait for each other.
  [[nodiscard]] std::uint64_t expected_ns() const noexcept {
    return unclaimed_.is_in_order() ? BlockTime::kUnknown : latest_code().block_time.of(clusters_);
  }
  [[nodiscard]] bool has_unstarted() const noexcept { return !unclaimed_.is_empty(); }
  [[nodiscard]] GridObserver* observer() const { return observer_.get(); }  ///< null: none
  /// Null: the scheduler chooses, and several host threads run the grid.
  [[nodiscard]] schedule::RandomSchedule* schedule() const { return schedule_.get(); }
  [[nodiscard]] const Fault* fault() const noexcept {
    // Acquire: the thread that cancelled need not be one that ran blocks.
    return cancel_.load(std::memory_order_acquire) == kStopped && fault_ ? &*fault_ : nullptr;
  }

  [[nodiscard]] const Code& code() const { return *code_; }  ///< the code at launch
  /// The code for blocks that start now: optimized code after a tier-up.
  [[nodiscard]] const Code& latest_code() const noexcept {
    const Code* const next = tier_up_ ? tier_up_->optimized_code() : nullptr;
    return next ? *next : *code_;
  }
  [[nodiscard]] const LaunchShape& shape() const { return shape_; }
  [[nodiscard]] const void* accessing_context() const { return accessing_context_; }
  /// Tested at every safepoint.
  [[nodiscard]] bool stopped() {
    const std::uint32_t state = cancel_.load(std::memory_order_relaxed);
    return state != kGoesOn && (state == kStopped || is_last_safepoint());
  }
  [[nodiscard]] bool is_replay() const {
    return replay_;
  }  ///< runs a block again to locate a fault: nothing is printed

  /// Finds the thread of a lane group that faulted: runs the block again, thread by thread. The
  /// context is already lost, so no one observes the repeated writes. Nullopt if the replay does
  /// not fault in the same way.
  std::optional<FaultPlace> find_faulting_thread(std::uint64_t block, const FaultPlace& group,
                                                 std::uint32_t lanes) const noexcept;

  // For workers.
  [[nodiscard]] WorkStealingRanges& unclaimed() { return unclaimed_; }
  [[nodiscard]] const std::byte* params() const { return params_; }
  [[nodiscard]] void* workspace() { return workspace_; }
  [[nodiscard]] std::uint64_t id() const { return id_; }
  /// Not 0: generated code leaves through cucpu_rt_cancelled() or cucpu_rt_poll().
  [[nodiscard]] const std::uint32_t* cancel_flag() const {
    return reinterpret_cast<const std::uint32_t*>(&cancel_);
  }
  /// Stops the grid. The first call sets the fault.
  void fail(int code, std::string report) noexcept;
  /// Stops the grid with CUDA_ERROR_OUT_OF_MEMORY (2). The report names `what` and the kernel, or
  /// is empty if there is no memory for it either.
  void fail_out_of_memory(const char* what) noexcept;
  /// The number of clusters that no thread has finished.
  [[nodiscard]] std::atomic<std::uint64_t>& unfinished() noexcept { return unfinished_; }
  void set_fault_place(FaultPlace place) { place_ = std::move(place); }  ///< of a replay

 private:
  enum : std::uint32_t {
    kGoesOn,
    kStopped,
    kCounted
  };                                  ///< generated code tests for anything but kGoesOn
  bool is_last_safepoint() noexcept;  ///< For tests: cancels the grid at the safepoint they chose.

  std::shared_ptr<const Code> code_;
  std::shared_ptr<const TierUp> tier_up_;
  std::unique_ptr<GridObserver> observer_;
  std::unique_ptr<schedule::RandomSchedule> schedule_;
  bool serial_;  ///< check mode, debug mode and random schedules: one host thread runs the whole
                 ///< grid
  std::atomic<bool> run_by_someone_{false};
  LaunchShape shape_;
  const std::byte* params_;
  const void* accessing_context_ = PeerAccessScope::current();
  std::uint64_t clusters_;
  std::uint64_t id_;
  std::uint32_t workspace_[2] = {8, 0};
  alignas(64) WorkStealingRanges unclaimed_;
  alignas(64) std::atomic<std::uint64_t> unfinished_;
  std::atomic<std::uint32_t> cancel_{kGoesOn};
  std::atomic<std::uint64_t> safepoints_left_{0};  ///< for tests: until the grid is cancelled
  std::mutex mutex_;
  std::optional<Fault> fault_;
  std::optional<FaultPlace> place_;  ///< of a replay
  bool replay_ = false;
};

}  // namespace cucpu
