// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/tier_up.hpp: tier-up from baseline to optimized code. A background thread compiles
// optimized code for a kernel whose baseline code has run for long enough.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>

namespace cucpu {

struct Code;

/// Called by the background compilation at points where it holds no lock and owns no memory: does
/// not return once the process exits. Static objects of the compiler are being destroyed then.
void block_if_exiting() noexcept;

/// The optimized code of one kernel, compiled once its baseline code has run for 20 ms in all. One
/// background thread compiles for all kernels, one at a time; the first request starts it.
class TierUp {
 public:
  /// Called at most once, on the background thread. Null: no optimized code, the baseline code
  /// stays.
  using Compile = std::function<std::shared_ptr<const Code>()>;

  explicit TierUp(Compile compile) : compile_{std::move(compile)} {}
  TierUp(const TierUp&) = delete;
  TierUp& operator=(const TierUp&) = delete;

  /// Null until it is compiled. Valid as long as this object.
  [[nodiscard]] const Code* optimized_code() const noexcept {
    return published_.load(std::memory_order_acquire);
  }

 private:
  friend class BaselineRun;
  friend void block_if_exiting() noexcept;
  struct CompileThread;

  void compile() noexcept;

  Compile compile_;
  bool requested_ = false;                     ///< guarded by CompileThread::mutex
  std::chrono::nanoseconds baseline_time_{0};  ///< the same
  std::shared_ptr<const Code> optimized_;      ///< owns what `published_` points to
  std::atomic<const Code*> published_{nullptr};
};

/// The run of one grid that starts with baseline code: counts its time, and requests optimized code
/// when the sum over all runs is long enough. Stop or destroy it before the grid.
class BaselineRun {
 public:
  BaselineRun() = default;
  ~BaselineRun() { stop(); }
  BaselineRun(const BaselineRun&) = delete;
  BaselineRun& operator=(const BaselineRun&) = delete;

  /// The first call counts. Thread-safe.
  void start(const std::shared_ptr<TierUp>&) noexcept;
  void stop() noexcept {
    if (started_) [[unlikely]]
      finish();
  }

 private:
  void finish() noexcept;

  std::atomic<bool> started_{false};
  std::shared_ptr<TierUp> tier_up_;
  std::chrono::steady_clock::time_point began_;
};

}  // namespace cucpu
