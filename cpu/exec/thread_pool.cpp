// SPDX-License-Identifier: Apache-2.0
// Workers, work sharing of grids, and the monitor that polls conditions and adds workers.
#include "cpu/exec/thread_pool.hpp"

#include <algorithm>
#include <bit>
#include <thread>
#include <utility>

#include "cpu/base/numa.hpp"
#include "cpu/engine/run/detached_thread.hpp"
#include "cpu/exec/execution_context.hpp"
#include "cpu/mem/immortal.hpp"

namespace cucpu::driver {
namespace {

__attribute__((tls_model("initial-exec"))) thread_local bool t_worker = false;
__attribute__((tls_model("initial-exec"))) thread_local Task* t_task = nullptr;

// How long an idle worker spins before it sleeps: longer than the time between two launches of a
// program.
constexpr auto kSpin = std::chrono::microseconds{40};
// When all workers are busy for this long while work waits, one more worker starts. Otherwise a
// kernel that waits for another stream would hang, which a GPU with room for both runs.
constexpr auto kStarved = std::chrono::milliseconds{5};
constexpr unsigned kExtraMax = 256;
// The usual time from a launch to the wait for it, for programs that wait at once.
constexpr auto kSoon = std::chrono::microseconds{4};
// Every thread that joins a grid brings so many others, while there are blocks to start: a small
// grid ends before many threads have come, a large one has all of them after a few steps.
constexpr unsigned kRecruits = 2;
// A message to a worker on standby: look for work. Other messages are the address of a GridRun,
// with a reference.
constexpr std::uintptr_t kLook = 1;

/// Spins before it blocks. The lock is held for some hundred instructions at a time, so spinning
/// usually avoids the two system calls of a sleep and a wake-up at every launch of a small kernel.
void spin_then_lock(std::unique_lock<std::mutex>& lock) {
  for (int looks = 0; looks < 200; ++looks) {
    if (lock.try_lock()) return;
    relax();
  }
  lock.lock();
}

}  // namespace

ThreadPool& ThreadPool::instance() { return Immortal<ThreadPool>::get(); }

std::unique_lock<std::mutex> ThreadPool::lock_mutex() {
  std::unique_lock lock{mutex_, std::defer_lock};
  spin_then_lock(lock);
  return lock;
}

bool ThreadPool::on_worker() noexcept { return t_worker; }

void ThreadPool::configure(unsigned threads, unsigned cores) {
  const auto lock = lock_mutex();
  target_ = std::max(1u, threads);
  if (cores == 0) cores = std::max(1u, std::thread::hardware_concurrency());
  // Two more threads may spin: the worker that looks for all kinds of work, and a host thread that
  // waits.
  const unsigned others = std::max(2u, std::min(target_, cores)) - 2;
  places_ = others < StandbyWorkers::kPlaces ? (std::uint64_t{1} << others) - 1 : ~std::uint64_t{0};
}

void ThreadPool::spawn(bool extra) {
  start_detached_thread("cucore-worker", [this, extra, number = alive_.load(), all = target_] {
    stay_on_node(number, all);
    worker(extra);
  });
  ++alive_;
}

void ThreadPool::ensure_workers(unsigned wanted) {
  wanted = std::min(wanted, target_);
  while (alive_ < target_ && alive_ - blocked_ < wanted) {
    try {
      spawn(false);
    } catch (...) {
      if (alive_ > 0) return;  // fewer threads than requested, but at least one
      throw;
    }
  }
}

void ThreadPool::start_first() {
  const auto lock = lock_mutex();
  ensure_workers(1);
  started_.store(true, std::memory_order_release);
}

void ThreadPool::wake(unsigned wanted, std::unique_lock<std::mutex>&) noexcept {
  for (unsigned coming = spinning_ + waking_; coming < wanted; ++coming) {
    if (standby_.send(kLook)) continue;
    if (sleeping_ <= waking_) return;
    ++waking_;
    sleep_.notify_one();
  }
}

void ThreadPool::kick_monitor(std::unique_lock<std::mutex>&) {
  if (!monitor_alive_) {
    start_detached_thread("cucore-monitor", [this] { monitor(); });
    monitor_alive_ = true;
  }
  if (!monitor_awake_) {
    monitor_awake_ = true;
    monitor_sleep_.notify_one();
  }
}

void ThreadPool::try_kick_monitor(std::unique_lock<std::mutex>& lock) noexcept {
  try {
    kick_monitor(lock);
  } catch (...) {  // no thread can be created: the existing workers will do the work
  }
}

void ThreadPool::post(Task& task) noexcept {
  auto lock = lock_mutex();
  Ready& level = ready_[std::clamp(task.priority() + kLevels - 1, 0, kLevels - 1)];
  task.next = nullptr;
  (level.last ? level.last->next : level.first) = &task;
  level.last = &task;
  ++ready_count_;
  work_.fetch_add(1, std::memory_order_release);
  if (spinning_ == 0) {
    if (sleeping_ > waking_ || !standby_.is_empty()) {
      wake(waking_ + 1, lock);
    } else if (sleeping_ == 0 && alive_ > 0) {  // all workers are busy
      const unsigned before = alive_;
      try {
        ensure_workers(busy_ + 1);
      } catch (...) {  // no thread can be created: the existing workers will do the work
      }
      if (alive_ == before) try_kick_monitor(lock);
    }
  }
}

bool ThreadPool::reclaim(Task& task) {
  if (work_.load(std::memory_order_relaxed) == 0) return false;
  const auto lock = lock_mutex();
  auto& level = ready_[std::clamp(task.priority() + kLevels - 1, 0, kLevels - 1)];
  Task* before = nullptr;
  Task* at = level.first;
  while (at != nullptr && at != &task) before = std::exchange(at, at->next);
  if (at == nullptr) return false;
  (before ? before->next : level.first) = task.next;
  if (level.last == &task) level.last = before;
  --ready_count_;
  work_.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

bool ThreadPool::take_work(std::unique_lock<std::mutex>& lock, Task*& task, Ref<GridRun>& grid) {
  if (ready_count_ > 0) {
    for (auto& level : ready_) {
      if (level.first == nullptr) continue;
      task = level.first;
      level.first = task->next;
      if (level.first == nullptr) level.last = nullptr;
      --ready_count_;
      break;
    }
    work_.fetch_sub(1, std::memory_order_relaxed);
    if (ready_count_ > 0 || !shared_.empty()) wake(1, lock);
    if (ready_count_ > 0 && !has_idle()) try_kick_monitor(lock);
    return true;
  }
  while (!shared_.empty() && !grid) grid = join(shared_.begin());
  return static_cast<bool>(grid);
}

/// Null when no more threads may join the grid, which is then no longer shared.
Ref<GridRun> ThreadPool::join(Shared::iterator grid) noexcept {
  if (!(*grid)->reserve_helper()) {
    erase(grid);
    return {};
  }
  shared_.splice(shared_.end(), shared_, grid);  // round robin over all shared grids
  return *grid;
}

void ThreadPool::erase(Shared::iterator grid) noexcept {
  (*grid)->is_shared.store(false, std::memory_order_release);
  work_.fetch_sub(1, std::memory_order_relaxed);
  shared_.erase(grid);
}

bool ThreadPool::share(const Ref<GridRun>& run, std::unique_lock<std::mutex>&) noexcept {
  if (run->is_shared.load(std::memory_order_relaxed)) return true;
  try {
    shared_.push_back(run);
  } catch (const std::bad_alloc&) {
    return false;
  }
  run->is_shared.store(true, std::memory_order_relaxed);
  work_.fetch_add(1, std::memory_order_release);
  return true;
}

void ThreadPool::recruit(const Ref<GridRun>& run, unsigned count) noexcept {
  for (; count > 0 && run->reserve_helper(); --count) {
    run->retain();
    if (standby_.send(reinterpret_cast<std::uintptr_t>(run.get()))) continue;
    run->release();
    run->return_helper();
    // It is in the list, and nobody has to be woken.
    if (run->is_shared.load(std::memory_order_relaxed) &&
        sleeping_.load(std::memory_order_relaxed) == 0)
      return;
    auto lock = lock_mutex();
    const unsigned before = waking_;
    if (share(run, lock)) wake(std::min(waking_ + count, run->helpers_left()), lock);
    late_for_grid_ = std::min(late_for_grid_ + waking_ - before, waking_);
    return;
  }
}

bool ThreadPool::stand_by(unsigned place) noexcept {
  for (;;) {
    const std::uintptr_t message = standby_.wait(place, kSpin);
    if (message == 0) return false;
    if (message == kLook) return true;
    busy_.fetch_add(1, std::memory_order_relaxed);
    {
      const Ref<GridRun> grid{reinterpret_cast<GridRun*>(message)};
      grid->release();  // the sender's reference
      if (participate(grid)) grid->task().drive();
    }
    busy_.fetch_sub(1, std::memory_order_relaxed);
    if (work_.load(std::memory_order_relaxed) != 0) return true;
  }
}

void ThreadPool::worker(bool extra) noexcept {
  t_worker = true;
  auto lock = lock_mutex();
  for (;;) {
    Task* task = nullptr;
    Ref<GridRun> grid;
    if (take_work(lock, task, grid)) {
      ++busy_;
      lock.unlock();
      if (task)
        task->drive();
      else if (participate(grid))
        grid->task().drive();
      grid = nullptr;
      spin_then_lock(lock);
      --busy_;
      continue;
    }
    if (extra && alive_ - blocked_ > target_) {
      --alive_;
      return;
    }
    if (spinning_ == 0) {  // one worker looks for all kinds of work
      ++spinning_;
      lock.unlock();
      const auto until = std::chrono::steady_clock::now() + kSpin;
      bool found = false;
      for (unsigned looks = 1; !(found = work_.load(std::memory_order_acquire) != 0); ++looks) {
        relax();
        if (looks % 32 == 0 && std::chrono::steady_clock::now() >= until) break;
      }
      spin_then_lock(lock);
      --spinning_;
      if (found || work_.load(std::memory_order_relaxed) != 0) continue;
    } else if (const std::uint64_t free = places_ & ~taken_places_; free != 0) {
      const auto place = static_cast<unsigned>(std::countr_zero(free));
      taken_places_ |= std::uint64_t{1} << place;
      lock.unlock();
      const bool found = stand_by(place);
      spin_then_lock(lock);
      taken_places_ &= ~(std::uint64_t{1} << place);
      if (found || work_.load(std::memory_order_relaxed) != 0) continue;
    }
    ++sleeping_;
    while (work_.load(std::memory_order_relaxed) == 0) {
      sleep_.wait(lock);
      if (waking_ > 0) --waking_;
      // Too late for a short grid: it spins, so that the next one needs no system call.
      if (places_ != 0 && late_for_grid_ > 0) {
        --late_for_grid_;
        break;
      }
    }
    --sleeping_;
  }
}

namespace {

/// Marks the calling thread as inside a kernel of a task, and counts it in a context with a limited
/// share of the cores. The grid and its task may have ended already when other threads were faster.
class Worker {
 public:
  explicit Worker(const GridRun& run) noexcept
      : before_{std::exchange(t_task, &run.task())}, context_{run.limited_context()} {
    if (context_) context_->workers.fetch_add(1, std::memory_order_relaxed);
  }
  ~Worker() {
    if (context_) context_->workers.fetch_sub(1, std::memory_order_relaxed);
    t_task = before_;
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

 private:
  Task* const before_;
  Ref<ExecutionContext> context_;
};

}  // namespace

GridRun::GridRun(std::unique_ptr<Launch> launch, Task& task)
    : launch_{std::move(launch)}, task_{&task} {
  if (ExecutionContext& context = task.context(); context.cores)
    limited_context_ = Ref<ExecutionContext>{&context};
}

GridRun::~GridRun() = default;

bool GridRun::reserve_helper() noexcept {
  unsigned left = helpers_left_.load(std::memory_order_relaxed);
  while (left != 0)
    if (helpers_left_.compare_exchange_weak(left, left - 1, std::memory_order_relaxed)) return true;
  return false;
}

/// The number of threads that may join the thread that starts a grid (perhaps a thread of the
/// program): together as many as the pool has. Concurrent kernels of a green context divide its
/// cores; each gets at least one thread, or two kernels that wait for each other would hang.
unsigned ThreadPool::helpers_for(const GridRun& run) const noexcept {
  const ExecutionContext& context = run.task().context();
  if (context.cores == 0) return target_ - 1;
  const unsigned busy = context.workers.load(std::memory_order_relaxed);
  return context.cores > busy ? context.cores - busy : 0;
}

Task* ThreadPool::running_task() noexcept { return t_task; }

/// Whether a waiting thread has joined a grid, after a short wait for it.
static bool comes_soon(const GridRun& run) noexcept {
  const auto until = std::chrono::steady_clock::now() + kSoon;
  while (!run.helped.load(std::memory_order_relaxed)) {
    relax();
    if (std::chrono::steady_clock::now() >= until) return false;
  }
  return true;
}

Progress ThreadPool::run_grid(const Ref<GridRun>& run) {
  const Worker here{*run};
  const unsigned helpers = helpers_for(*run);
  const std::uint64_t parallelism = run->launch().parallelism();
  const bool is_divided = target_ > 1 && parallelism > 1 && helpers > 0;
  if (is_divided) {
    const auto wanted = static_cast<unsigned>(std::min<std::uint64_t>(helpers, parallelism - 1));
    if (alive_.load(std::memory_order_relaxed) < target_) {
      const auto lock = lock_mutex();
      ensure_workers(busy_ + wanted);
    }
    run->accept_helpers(wanted);  // further threads would find no block to start
    // With two threads, a waiting thread that helps by itself makes a wake-up unnecessary.
    bool has_helper =
        t_worker && run->task().helped.exchange(false, std::memory_order_relaxed) && wanted == 1;
    if (has_helper) {
      auto lock = lock_mutex();
      has_helper = share(run, lock);
    }
    if (!has_helper || !comes_soon(*run)) recruit(run, kRecruits);
  }
  const bool last = run->launch().work();
  if (is_divided) stop_sharing(run.get());
  if (!last) return Progress::pending;
  run->task().context().end_running(*run);
  return Progress::done;
}

/// True when this thread finished the grid and owns the task now.
bool ThreadPool::participate(const Ref<GridRun>& run) noexcept {
  bool last = false;
  if (run->launch().has_unstarted()) {
    recruit(run, kRecruits);
    const Worker here{*run};
    last = run->launch().work();
  }
  stop_sharing(run.get());
  if (last) run->task().context().end_running(*run);
  return last;
}

ThreadPool::Help ThreadPool::help(Task& task) noexcept {
  if (work_.load(std::memory_order_relaxed) == 0) return Help::none;
  Ref<GridRun> run;
  {
    const auto lock = lock_mutex();
    const auto at = std::find_if(shared_.begin(), shared_.end(),
                                 [&](const auto& shared) { return &shared->task() == &task; });
    if (at != shared_.end()) run = join(at);
    if (!run) return Help::none;
  }
  run->helped.store(true, std::memory_order_relaxed);
  task.helped.store(true, std::memory_order_relaxed);
  return participate(run) ? Help::ended : Help::some;
}

void ThreadPool::stop_sharing(const GridRun* run) noexcept {
  if (!run->is_shared.load(std::memory_order_acquire)) return;
  const auto lock = lock_mutex();
  const auto at =
      std::find_if(shared_.begin(), shared_.end(), [&](const auto& r) { return r.get() == run; });
  if (at != shared_.end()) erase(at);
}

void ThreadPool::poll(std::function<bool()> ready, Task& task) {
  auto lock = lock_mutex();
  pollers_.reserve(pollers_.size() + 1);
  kick_monitor(lock);  // may throw, so it comes before the change
  pollers_.push_back({std::move(ready), &task});
}

void ThreadPool::enter_blocking() {
  if (!t_worker) return;
  auto lock = lock_mutex();
  ++blocked_;
  if (alive_ - blocked_ < target_ && !has_idle() && alive_ < target_ + kExtraMax) {
    try {
      spawn(true);
    } catch (...) {  // continues with fewer workers
    }
  }
}

void ThreadPool::leave_blocking() noexcept {
  if (!t_worker) return;
  const auto lock = lock_mutex();
  --blocked_;
}

void ThreadPool::monitor() noexcept {
  auto lock = lock_mutex();
  std::chrono::microseconds nap{20};
  std::chrono::steady_clock::time_point starved_since{};  // the epoch means: not starved
  for (;;) {
    const auto now = std::chrono::steady_clock::now();
    const auto woken =
        std::find_if(pollers_.begin(), pollers_.end(), [](const Poller& p) { return p.ready(); });
    if (woken != pollers_.end()) {
      nap = std::chrono::microseconds{20};
      Task* const task = woken->task;
      pollers_.erase(woken);
      lock.unlock();
      post(*task);
      spin_then_lock(lock);
      continue;
    }
    // No worker is idle and work has waited for a while: add a worker.
    if (ready_count_ > 0 && !has_idle()) {
      if (starved_since == decltype(starved_since){}) starved_since = now;
      if (now - starved_since >= kStarved && alive_ < target_ + kExtraMax) {
        starved_since = {};
        try {
          spawn(true);
        } catch (...) {  // the monitor retries later
        }
      }
    } else {
      starved_since = {};
    }
    if (pollers_.empty() && ready_count_ == 0) {
      monitor_awake_ = false;
      monitor_sleep_.wait(lock, [&] { return monitor_awake_; });
      nap = std::chrono::microseconds{20};
      continue;
    }
    monitor_sleep_.wait_for(lock, nap);
    nap = std::min(nap * 2, std::chrono::microseconds{1000});
  }
}

}  // namespace cucpu::driver
