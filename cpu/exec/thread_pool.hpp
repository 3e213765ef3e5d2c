// cpu/exec/thread_pool.hpp: the host threads that run everything.
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
#include "cpu/exec/task.hpp"

namespace cucpu::driver {

/// A grid that several threads may work on. `finish` runs in the thread that ended the last block.
class GridRun : public Object {
 public:
  GridRun(std::unique_ptr<Launch> launch, Task& task);
  ~GridRun() override;
  Launch& launch() noexcept { return *launch_; }
  /// Gone as soon as the grid has ended: for whoever began it, runs one of its blocks or ended the
  /// last one.
  Task& task() const noexcept { return *task_; }
  /// Where the host's cores are divided, the context among whose workers this grid's count.
  [[nodiscard]] Context* divided() const noexcept { return divided_.get(); }
  void keep(Ref<Object> object) { kept_ = std::move(object); }  ///< the code it runs

  unsigned helpers_left = ~0u;      ///< how many threads may still join; the pool's, under its lock
  std::atomic<bool> helped{false};  ///< a thread that waits for it has joined

 private:
  Ref<Object> kept_;  // goes after the launch
  std::unique_ptr<Launch> launch_;
  Task* task_;
  Ref<Context> divided_;
};

/// Host threads, made when first needed and never joined: a process may end at any time without
/// waiting for them.
class Pool {
 public:
  static Pool& instance();
  void configure(unsigned threads);
  [[nodiscard]] unsigned threads() const noexcept { return target_; }

  /// Makes sure that there is a worker; whoever queues work calls this before anything has changed,
  /// for it may fail.
  void start() {
    if (!started_.load(std::memory_order_acquire)) [[unlikely]]
      start_first();
  }

  /// Some worker will call task.drive() soon. The caller gives up ownership of the task, and
  /// start() has succeeded before.
  void post(Task& task) noexcept;

  /// Takes a posted task out again if no worker has it yet: the caller owns it then, and drives it
  /// itself.
  bool take_back(Task& task);

  /// Something may be there to take back or to help with; no promise, and no lock.
  [[nodiscard]] bool has_work() const noexcept {
    return work_.load(std::memory_order_relaxed) != 0;
  }

  enum class Help { none, some, ended };
  /// A thread that waits for a task takes part in the grid the task is at, if there is one that
  /// takes helpers. `ended`: with the grid's last block, so that the caller owns the task.
  Help help(Task& task) noexcept;

  /// Runs a grid with as many workers as help; done when it has ended in this thread. Otherwise
  /// another thread ends it, settles its fault and drives the task.
  Progress run_grid(const Ref<GridRun>& run);

  /// Calls task.drive() once `ready` says yes; asked by a thread of its own every few microseconds
  /// to a millisecond.
  void poll(std::function<bool()> ready, Task& task);

  /// Around code on a worker that may wait for other work (host functions): another worker takes
  /// this one's place.
  void enter_blocking();
  void leave_blocking() noexcept;

  /// True in a thread of the pool.
  static bool on_worker() noexcept;
  /// The task whose kernel this thread is in; null outside kernels.
  static Task* running_task() noexcept;

 private:
  struct Poller {
    std::function<bool()> ready;
    Task* task;
  };
  static constexpr int kLevels = 6;  // priorities -5..0

  std::unique_lock<std::mutex> hold();
  void worker(bool extra) noexcept;
  void monitor() noexcept;
  bool take_work(std::unique_lock<std::mutex>& lock, Task*& task, Ref<GridRun>& grid);
  using Shared = std::list<Ref<GridRun>>;
  Ref<GridRun> join(Shared::iterator grid);
  bool take_part(GridRun& run) noexcept;
  unsigned helpers_for(const GridRun& run) const noexcept;
  void stop_sharing(const GridRun* run) noexcept;
  void spawn(bool extra);
  void start_first();
  void ensure_workers();
  /// Wakes sleepers until so many workers look for work or are about to.
  void wake(unsigned wanted, std::unique_lock<std::mutex>& lock) noexcept;
  void kick_monitor(std::unique_lock<std::mutex>& lock);
  void try_kick_monitor(std::unique_lock<std::mutex>& lock) noexcept;

  std::mutex mutex_;
  std::condition_variable sleep_;
  struct Ready {
    Task *first = nullptr, *last = nullptr;
  };
  Ready ready_[kLevels];
  Shared shared_;
  std::atomic<std::uint32_t> work_{0};  // ready tasks + shared grids; what spinners look at
  std::size_t ready_count_ = 0;
  std::atomic<bool> started_{false};  // from then on at least one worker lives
  unsigned target_ = 1, alive_ = 0, sleeping_ = 0, spinning_ = 0, blocked_ = 0;
  unsigned waking_ = 0;  // of the sleeping: have been told to look

  std::condition_variable monitor_sleep_;
  bool monitor_alive_ = false, monitor_awake_ = false;
  std::vector<Poller> pollers_;
};

}  // namespace cucpu::driver
