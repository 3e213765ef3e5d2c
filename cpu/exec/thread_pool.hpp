// SPDX-License-Identifier: Apache-2.0
// cpu/exec/thread_pool.hpp: the host threads that run streams, graphs and kernels.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "cpu/engine/engine.hpp"
#include "cpu/exec/standby_workers.hpp"
#include "cpu/exec/task.hpp"

namespace cucpu::driver {

/// A grid that several threads work on.
class GridRun : public Object {
 public:
  GridRun(std::unique_ptr<Launch> launch, Task& task);
  ~GridRun() override;
  Launch& launch() noexcept { return *launch_; }
  /// Destroyed as soon as the grid has ended. Only for the thread that started the grid, runs one
  /// of its blocks or finished its last block.
  Task& task() const noexcept { return *task_; }
  /// The context whose `workers` counts this grid's threads; null when its share of the cores is
  /// unlimited.
  [[nodiscard]] ExecutionContext* limited_context() const noexcept {
    return limited_context_.get();
  }
  void keep(Ref<Object> object) { kept_ = std::move(object); }  ///< the code it runs

  /// Sets how many threads may join the one that started the grid.
  void accept_helpers(unsigned count) noexcept {
    helpers_left_.store(count, std::memory_order_relaxed);
  }
  /// Takes the place of one helper; false when no more may join.
  bool reserve_helper() noexcept;
  [[nodiscard]] unsigned helpers_left() const noexcept {
    return helpers_left_.load(std::memory_order_relaxed);
  }
  void return_helper() noexcept { helpers_left_.fetch_add(1, std::memory_order_relaxed); }

  std::atomic<bool> is_shared{false};  ///< in the pool's list; written with the pool's lock held
  std::atomic<bool> helped{false};     ///< a waiting thread has joined

 private:
  Ref<Object> kept_;  // destroyed after the launch
  std::unique_ptr<Launch> launch_;
  Task* task_;
  Ref<ExecutionContext> limited_context_;
  std::atomic<unsigned> helpers_left_{0};
};

/// Host threads, created when work needs them and never joined: a process may exit at any time
/// without waiting for them.
class ThreadPool {
 public:
  static ThreadPool& instance();
  /// `cores`: how many threads may spin at a time; 0: std::thread::hardware_concurrency().
  void configure(unsigned threads, unsigned cores = 0);
  [[nodiscard]] unsigned threads() const noexcept { return target_; }

  /// Makes sure that a worker exists. May throw, so call it before changing any state of a queue.
  void start() {
    if (!started_.load(std::memory_order_acquire)) [[unlikely]]
      start_first();
  }

  /// A worker will call task.drive(). The caller gives up ownership of the task. Requires an
  /// earlier successful start().
  void post(Task& task) noexcept;

  /// Removes a posted task that no worker has taken yet: the caller then owns the task and drives
  /// it.
  bool reclaim(Task& task);

  /// A hint, without a lock, that there may be a task to reclaim or a grid to help with.
  [[nodiscard]] bool has_work() const noexcept {
    return work_.load(std::memory_order_relaxed) != 0;
  }

  enum class Help { none, some, ended };
  /// A thread that waits for a task works on the task's current grid, if that accepts helpers.
  /// `ended`: this thread finished the grid's last block and owns the task.
  Help help(Task& task) noexcept;

  /// Runs a grid with the help of other workers; `done` when it ended in this thread. Otherwise
  /// another thread finishes it, records its fault and drives the task.
  Progress run_grid(const Ref<GridRun>& run);

  /// Calls task.drive() once `ready` returns true. The monitor thread polls it at intervals from
  /// microseconds to a millisecond.
  void poll(std::function<bool()> ready, Task& task);

  /// Brackets code on a worker that may wait for other work (host functions): another worker
  /// replaces it meanwhile.
  void enter_blocking();
  void leave_blocking() noexcept;

  /// True on a worker.
  static bool on_worker() noexcept;
  /// The task whose kernel this thread runs; null outside of kernels.
  static Task* running_task() noexcept;

 private:
  struct Poller {
    std::function<bool()> ready;
    Task* task;
  };
  static constexpr int kLevels = 6;  // priorities -5..0

  std::unique_lock<std::mutex> lock_mutex();
  void worker(bool extra) noexcept;
  void monitor() noexcept;
  bool take_work(std::unique_lock<std::mutex>& lock, Task*& task, Ref<GridRun>& grid);
  using Shared = std::list<Ref<GridRun>>;
  Ref<GridRun> join(Shared::iterator grid) noexcept;
  void erase(Shared::iterator grid) noexcept;
  bool participate(const Ref<GridRun>& run) noexcept;
  /// Brings up to `count` idle workers to a grid: those on standby first. Only when there are too
  /// few of them, others learn of the grid through the pool's list.
  void recruit(const Ref<GridRun>& run, unsigned count) noexcept;
  /// Adds a grid to the list, unless it is there; false without memory for it.
  bool share(const Ref<GridRun>& run, std::unique_lock<std::mutex>& lock) noexcept;
  /// Runs grids that other threads send. True when there is other work, false when nothing came for
  /// a while.
  bool stand_by(unsigned place) noexcept;
  unsigned helpers_for(const GridRun& run) const noexcept;
  void stop_sharing(const GridRun* run) noexcept;
  void spawn(bool extra);
  void start_first();
  /// Creates workers until `wanted` of them exist, at most `target_`. Throws if there is none.
  void ensure_workers(unsigned wanted);
  /// Wakes workers until `wanted` of them look for work.
  void wake(unsigned wanted, std::unique_lock<std::mutex>& lock) noexcept;
  /// Whether a worker has nothing to do.
  [[nodiscard]] bool has_idle() const noexcept {
    return sleeping_ + spinning_ != 0 || !standby_.is_empty();
  }
  void kick_monitor(std::unique_lock<std::mutex>& lock);
  void try_kick_monitor(std::unique_lock<std::mutex>& lock) noexcept;

  std::mutex mutex_;
  std::condition_variable sleep_;
  struct Ready {
    Task *first = nullptr, *last = nullptr;
  };
  Ready ready_[kLevels];
  Shared shared_;
  std::atomic<std::uint32_t> work_{0};  // ready tasks + shared grids; polled by spinning workers
  std::size_t ready_count_ = 0;
  std::atomic<bool> started_{false};  // true: at least one worker exists
  unsigned target_ = 1, spinning_ = 0, blocked_ = 0;
  std::atomic<unsigned> alive_{0}, sleeping_{0};  // written with the lock held
  unsigned waking_ = 0;                           // sleeping workers that have been notified
  unsigned late_for_grid_ = 0;                    // of these, how many were called to a grid
  std::atomic<unsigned> busy_{0};                 // workers with a task or a grid
  StandbyWorkers standby_;
  std::uint64_t places_ = 0, taken_places_ = 0;  // of standby_, as bits

  std::condition_variable monitor_sleep_;
  bool monitor_alive_ = false, monitor_awake_ = false;
  std::vector<Poller> pollers_;
};

}  // namespace cucpu::driver
