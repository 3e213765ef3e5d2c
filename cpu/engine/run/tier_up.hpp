// cpu/engine/run/tier_up.hpp: better code for a kernel, made in the background while the code
// that it began with runs.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>

namespace cucpu {

struct Code;

/// For work in the background, at points where it holds nothing: does not return while the process
/// ends. What the compiler needs is destroyed then, and nobody would use its result.
void stop_with_process() noexcept;

/// What takes the place of code that was quick to make, once grids have run with that for a while.
/// One host thread makes all successors, one after the other; it exists only when needed.
class Successor {
 public:
  /// Called on that thread, once at most. Null: there is none, the first code stays.
  using Make = std::function<std::shared_ptr<const Code>()>;

  explicit Successor(Make make) : make_{std::move(make)} {}
  Successor(const Successor&) = delete;
  Successor& operator=(const Successor&) = delete;

  /// Null until it is there. Lives as long as this.
  [[nodiscard]] const Code* code() const noexcept { return ready_.load(std::memory_order_acquire); }

 private:
  friend class FirstRun;
  friend void stop_with_process() noexcept;
  struct Background;

  void make() noexcept;

  Make make_;
  bool asked_ = false;                     ///< with the lock of the background
  std::chrono::nanoseconds spent_{0};      ///< in the first code; the same lock
  std::shared_ptr<const Code> successor_;  ///< what `ready_` points at
  std::atomic<const Code*> ready_{nullptr};
};

/// A grid that begins with the first code: its time counts. Must be stopped, or destroyed, before
/// the grid goes.
class FirstRun {
 public:
  FirstRun() = default;
  ~FirstRun() { stop(); }
  FirstRun(const FirstRun&) = delete;
  FirstRun& operator=(const FirstRun&) = delete;

  /// The first call counts; from any thread.
  void start(const std::shared_ptr<Successor>&) noexcept;
  void stop() noexcept;

 private:
  std::atomic<bool> started_{false};
  std::shared_ptr<Successor> successor_;
  std::chrono::steady_clock::time_point began_;
};

}  // namespace cucpu
