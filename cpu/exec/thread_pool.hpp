// SPDX-License-Identifier: Apache-2.0
// cpu/exec/thread_pool.hpp: the host threads that run streams, graphs and kernels.
#pragma once

#include <atomic>
#include <bit>
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

  /// Sets how many threads may join that were not sent for. `is_of_program`: a thread of the
  /// program started it.
  void accept_helpers(unsigned count, bool wakes_workers, bool is_of_program) noexcept {
    helpers_left_.store(count, std::memory_order_relaxed);
    wakes_workers_ = wakes_workers;
    is_of_program_ = is_of_program;
  }
  [[nodiscard]] bool is_of_program() const noexcept { return is_of_program_; }
  /// Whether sleeping workers are woken for it.
  [[nodiscard]] bool wakes_workers() const noexcept { return wakes_workers_; }
  /// Takes the place of one helper; false when no more may join.
  bool reserve_helper() noexcept;
  [[nodiscard]] unsigned helpers_left() const noexcept {
    return helpers_left_.load(std::memory_order_relaxed);
  }

  // The thread that starts a grid may wait for its end: then it drives the task, whose memory is in
  // its caches, and not the thread that finishes the last block.
  void expect_starter() noexcept { end_.store(End::starter_waits, std::memory_order_relaxed); }
  /// For the thread that finished the last block: whether the starter drives the task.
  bool give_to_starter() noexcept {
    return end_.exchange(End::ended, std::memory_order_acq_rel) == End::starter_waits;
  }
  /// The starter waits. False after some microseconds: another thread drives the task then.
  bool starter_waits() noexcept;

  std::atomic<bool> is_shared{false};  ///< in the pool's list; written with the pool's lock held

 private:
  enum class End : std::uint8_t { nobody_waits, starter_waits, ended };

  Ref<Object> kept_;  // destroyed after the launch
  std::unique_ptr<Launch> launch_;
  Task* task_;
  Ref<ExecutionContext> limited_context_;
  std::atomic<unsigned> helpers_left_{0};
  bool wakes_workers_ = false, is_of_program_ = false;
  std::atomic<End> end_{End::nobody_waits};
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
  /// earlier successful start(). `host_comes`: a thread of the program will probably reclaim the
  /// task, so a worker that spins leaves it to that thread for some microseconds.
  void post(Task& task, bool host_comes = false) noexcept;
  /// A worker takes posted tasks at once: the thread of the program has other things to do.
  void hurry() noexcept {
    if (host_comes_until_.load(std::memory_order_relaxed) != 0)
      host_comes_until_.store(0, std::memory_order_relaxed);
  }

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

  /// A worker that sleeps. It waits on a word of its own, not on a condition variable: many that
  /// wake at the same time would have to wait for the lock, and sleep again.
  struct Sleeper {
    std::atomic<std::uint32_t> is_woken{0};
    int waker_cpu = -1;  ///< where the thread runs that wakes it
    Sleeper* next = nullptr;
  };

  /// Holds the pool's lock. Wakes workers when the lock is free: they need it.
  class Lock {
   public:
    explicit Lock(ThreadPool& pool);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    void lock();
    void unlock();
    void wake(Sleeper& sleeper) noexcept {
      sleeper.next = to_wake_;
      to_wake_ = &sleeper;
    }
    void wait(std::condition_variable& condition) { condition.wait(lock_); }
    void wait(std::condition_variable& condition, std::chrono::microseconds longest) {
      condition.wait_for(lock_, longest);
    }

   private:
    ThreadPool& pool_;
    std::unique_lock<std::mutex> lock_;
    Sleeper* to_wake_ = nullptr;
  };
  void worker(unsigned number, bool extra) noexcept;
  void monitor() noexcept;
  bool take_work(Lock& lock, Task*& task, Ref<GridRun>& grid);
  using Shared = std::list<Ref<GridRun>>;
  Ref<GridRun> join(Shared::iterator grid) noexcept;
  void erase(Shared::iterator grid) noexcept;
  bool participate(const Ref<GridRun>& run, unsigned part) noexcept;
  /// Divides a grid over workers on standby. Where there are too few of them, others learn of the
  /// grid through the pool's list, and are woken if the grid lasts long enough.
  void call_helpers(const Ref<GridRun>& run, unsigned wanted) noexcept;
  void wake_helpers(const GridRun& run, Lock& lock) noexcept;
  /// Adds a grid to the list; false without memory for it.
  bool share(const Ref<GridRun>& run, Lock& lock) noexcept;
  /// Runs grids that other threads send. True when there is other work, false when nothing came for
  /// a while.
  bool stand_by(unsigned place, SpinBudget& budget) noexcept;
  /// Whether a worker should take work now.
  [[nodiscard]] bool should_look() const noexcept;
  unsigned helpers_for(const GridRun& run) const noexcept;
  enum class Started { ended, ends_soon, left_to_others };
  /// Runs blocks of a new grid until none is left, and calls others to it. `ends_soon`: this thread
  /// has announced to wait for the others.
  Started start_grid(const Ref<GridRun>& run);
  void stop_sharing(const GridRun* run) noexcept;
  void spawn(bool extra);
  void start_first();
  /// Creates workers until `wanted` of them exist, at most `target_`. Throws if there is none.
  void ensure_workers(unsigned wanted);
  /// Wakes workers until `wanted` of them look for work.
  void wake(unsigned wanted, Lock& lock) noexcept;
  /// Whether a worker has nothing to do.
  [[nodiscard]] bool has_idle() const noexcept { return idle() != 0; }
  [[nodiscard]] unsigned idle() const noexcept {
    return sleeping_ + waking_ +
           static_cast<unsigned>(std::popcount(standby_.waiting(standby_end())));
  }
  /// The end of the places of workers on standby.
  [[nodiscard]] unsigned standby_end() const noexcept {
    return static_cast<unsigned>(std::bit_width(taken_places_.load(std::memory_order_relaxed)));
  }
  void kick_monitor(Lock& lock);
  void try_kick_monitor(Lock& lock) noexcept;

  std::mutex mutex_;
  struct Ready {
    Task *first = nullptr, *last = nullptr;
  };
  Ready ready_[kLevels];
  Shared shared_;
  std::atomic<std::uint32_t> work_{0};   // ready tasks + shared grids; polled by spinning workers
  std::atomic<std::uint32_t> posts_{0};  // of tasks so far; written with the lock held
  std::size_t ready_count_ = 0;
  std::atomic<bool> started_{false};  // true: at least one worker exists
  unsigned target_ = 1, blocked_ = 0;
  std::atomic<bool> has_looker_{false};  // a worker on standby looks for work of any kind
  std::atomic<unsigned> alive_{0};       // written with the lock held
  Sleeper* sleepers_ = nullptr;          // the last to fall asleep is the first
  unsigned sleeping_ = 0;                // of sleepers_
  unsigned waking_ = 0;  // workers that have been created or woken and have not come yet
  std::atomic<std::int64_t> host_comes_until_{0};  // see post(); 0: workers look at once
  std::atomic<int> program_cpu_{-1};  // where a thread of the program last woke a worker
  StandbyWorkers standby_;
  std::uint64_t places_ = 0;                    // of standby_, as bits
  std::atomic<std::uint64_t> taken_places_{0};  // of them; written with the lock held

  std::condition_variable monitor_sleep_;
  bool monitor_alive_ = false, monitor_awake_ = false;
  std::vector<Poller> pollers_;
};

}  // namespace cucpu::driver
