// Workers, the sharing of grids among them, and the monitor that polls and rescues.
#include "cpu/exec/thread_pool.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "cpu/device/context.hpp"
#include "cpu/engine/run/detached_thread.hpp"

namespace cucpu::driver {
namespace {

thread_local bool t_worker = false;
thread_local Task* t_task = nullptr;

// How long one idle worker looks for work before it sleeps: longer than a program takes from one
// launch to the next.
constexpr auto kSpin = std::chrono::microseconds{40};
// A worker busy for this long while other work waits gets a companion, so that a kernel that waits
// for another stream (as a GPU with room for both would allow) does not hang.
constexpr auto kStarved = std::chrono::milliseconds{5};
constexpr unsigned kExtraMax = 256;
// How long a program takes from a launch to waiting for it, where it does that at once.
constexpr auto kSoon = std::chrono::microseconds{4};

void relax() noexcept {
#if defined(__aarch64__)
  asm volatile("yield");
#elif defined(__x86_64__)
  asm volatile("pause");
#endif
}

/// A lock held by others for some hundred instructions at a time: whoever looks again for as long
/// gets it without the two system calls of a sleep and a wake-up, which a small kernel would pay
/// for at every launch.
void lock_soon(std::unique_lock<std::mutex>& lock) {
  for (int looks = 0; looks < 100; ++looks) {
    if (lock.try_lock()) return;
    for (int i = 0; i < 16; ++i) relax();
  }
  lock.lock();
}

}  // namespace

Pool& Pool::instance() {
  static Pool& pool = *new Pool;  // leaked: its threads are never joined
  return pool;
}

std::unique_lock<std::mutex> Pool::hold() {
  std::unique_lock lock{mutex_, std::defer_lock};
  lock_soon(lock);
  return lock;
}

bool Pool::on_worker() noexcept { return t_worker; }

void Pool::configure(unsigned threads) {
  const auto lock = hold();
  target_ = std::max(1u, threads);
}

void Pool::spawn(bool extra) {
  start_detached_thread("cucore-worker", [this, extra] { worker(extra); });
  ++alive_;
}

void Pool::ensure_workers() {
  while (alive_ < target_ && alive_ - blocked_ < target_) {
    try {
      spawn(false);
    } catch (...) {
      if (alive_ > 0) return;  // fewer threads than wished, but work goes on
      throw;
    }
  }
}

void Pool::start_first() {
  const auto lock = hold();
  ensure_workers();
  started_.store(true, std::memory_order_release);
}

void Pool::wake(unsigned wanted, std::unique_lock<std::mutex>&) noexcept {
  for (unsigned coming = spinning_ + waking_; coming < wanted && sleeping_ > waking_; ++coming) {
    ++waking_;
    sleep_.notify_one();
  }
}

void Pool::kick_monitor(std::unique_lock<std::mutex>&) {
  if (!monitor_alive_) {
    start_detached_thread("cucore-monitor", [this] { monitor(); });
    monitor_alive_ = true;
  }
  if (!monitor_awake_) {
    monitor_awake_ = true;
    monitor_sleep_.notify_one();
  }
}

void Pool::try_kick_monitor(std::unique_lock<std::mutex>& lock) noexcept {
  try {
    kick_monitor(lock);
  } catch (...) {  // no thread to be had: the workers there are will come to it
  }
}

void Pool::post(Task& task) noexcept {
  auto lock = hold();
  Ready& level = ready_[std::clamp(task.priority() + kLevels - 1, 0, kLevels - 1)];
  task.next = nullptr;
  (level.last ? level.last->next : level.first) = &task;
  level.last = &task;
  ++ready_count_;
  work_.fetch_add(1, std::memory_order_release);
  if (spinning_ == 0) {
    if (sleeping_ > waking_)
      wake(waking_ + 1, lock);
    else if (sleeping_ == 0 && alive_ > 0 && ready_count_ > 0)
      try_kick_monitor(lock);  // everybody is busy
  }
}

bool Pool::take_back(Task& task) {
  if (work_.load(std::memory_order_relaxed) == 0) return false;
  const auto lock = hold();
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

bool Pool::take_work(std::unique_lock<std::mutex>& lock, Task*& task, Ref<GridRun>& grid) {
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
    if (ready_count_ > 0 && sleeping_ + spinning_ == 0) try_kick_monitor(lock);
    return true;
  }
  if (!shared_.empty()) {
    grid = join(shared_.begin());
    return true;
  }
  return false;
}

Ref<GridRun> Pool::join(Shared::iterator grid) {
  Ref<GridRun> run = *grid;
  if (--run->helpers_left == 0) {  // no more may join
    shared_.erase(grid);
    work_.fetch_sub(1, std::memory_order_relaxed);
  } else {
    shared_.splice(shared_.end(), shared_, grid);  // helpers spread over all grids
  }
  return run;
}

void Pool::worker(bool extra) noexcept {
  t_worker = true;
  auto lock = hold();
  for (;;) {
    Task* task = nullptr;
    Ref<GridRun> grid;
    if (take_work(lock, task, grid)) {
      lock.unlock();
      if (task)
        task->drive();
      else if (take_part(*grid))
        grid->task().drive();
      grid = nullptr;
      lock_soon(lock);
      continue;
    }
    if (extra && alive_ - blocked_ > target_) {
      --alive_;
      return;
    }
    if (spinning_ == 0) {  // one looks, the others sleep
      ++spinning_;
      lock.unlock();
      const auto until = std::chrono::steady_clock::now() + kSpin;
      bool found = false;
      while (!(found = work_.load(std::memory_order_acquire) != 0)) {
        for (int i = 0; i < 32; ++i) relax();
        if (std::chrono::steady_clock::now() >= until) break;
      }
      lock_soon(lock);
      --spinning_;
      if (found || work_.load(std::memory_order_relaxed) != 0) continue;
    }
    ++sleeping_;
    while (work_.load(std::memory_order_relaxed) == 0) {
      sleep_.wait(lock);
      if (waking_ > 0) --waking_;
    }
    --sleeping_;
  }
}

namespace {

/// A thread in a kernel of a task; counted in a context whose share of the host's cores is limited.
/// The grid may have ended by now, and the task with it, where others were faster.
class Worker {
 public:
  explicit Worker(const GridRun& run) noexcept
      : before_{std::exchange(t_task, &run.task())}, context_{run.divided()} {
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
  Ref<Context> context_;
};

}  // namespace

GridRun::GridRun(std::unique_ptr<Launch> launch, Task& task)
    : launch_{std::move(launch)}, task_{&task} {
  if (Context& context = task.context(); context.cores) divided_ = Ref<Context>{&context};
}

GridRun::~GridRun() = default;

/// How many threads may join the one that begins a grid, which may be one of the program's own:
/// together as many as the pool has. Kernels of a green context that run at the
/// same time divide its cores; each has one thread at least, or two that wait for each other would
/// hang.
unsigned Pool::helpers_for(const GridRun& run) const noexcept {
  const Context& context = run.task().context();
  if (context.cores == 0) return target_ - 1;
  const unsigned busy = context.workers.load(std::memory_order_relaxed);
  return context.cores > busy ? context.cores - busy : 0;
}

Task* Pool::running_task() noexcept { return t_task; }

Progress Pool::run_grid(const Ref<GridRun>& run) {
  const Worker here{*run};
  const unsigned helpers = helpers_for(*run);
  bool share = target_ > 1 && run->launch().parallelism() > 1 && helpers > 0;
  if (share) {
    // A thread that comes by itself need not be woken, nor be woken again at the end. Asked here:
    // from when the grid is shared on, others may end it, and the task with it.
    const bool expected = t_worker && run->task().helped.exchange(false, std::memory_order_relaxed);
    auto lock = hold();
    ensure_workers();
    Shared entry;
    try {
      entry.push_back(run);
    } catch (const std::bad_alloc&) {
      share = false;  // this thread alone does it as well
    }
    if (share) {
      run->helpers_left = helpers;
      shared_.splice(shared_.end(), entry);
      work_.fetch_add(1, std::memory_order_release);
    }
    if (share) {
      const auto wanted =
          static_cast<unsigned>(std::min<std::uint64_t>(helpers, run->launch().parallelism() - 1));
      wake(wanted - expected, lock);
      if (expected) {
        lock.unlock();
        const auto until = std::chrono::steady_clock::now() + kSoon;
        while (!run->helped.load(std::memory_order_relaxed)) {
          relax();
          if (std::chrono::steady_clock::now() < until) continue;
          lock_soon(lock);
          wake(wanted, lock);
          break;
        }
      }
    }
  }
  const bool last = run->launch().work();
  if (share) stop_sharing(run.get());
  if (!last) return Progress::pending;
  run->task().context().settle(*run);
  return Progress::done;
}

/// True: the grid has ended in this thread, which owns the task now.
bool Pool::take_part(GridRun& run) noexcept {
  bool last = false;
  {
    const Worker here{run};
    last = run.launch().work();
  }
  stop_sharing(&run);
  if (last) run.task().context().settle(run);
  return last;
}

Pool::Help Pool::help(Task& task) noexcept {
  if (work_.load(std::memory_order_relaxed) == 0) return Help::none;
  Ref<GridRun> run;
  {
    const auto lock = hold();
    const auto at = std::find_if(shared_.begin(), shared_.end(),
                                 [&](const auto& shared) { return &shared->task() == &task; });
    if (at == shared_.end()) return Help::none;
    run = join(at);
  }
  run->helped.store(true, std::memory_order_relaxed);
  task.helped.store(true, std::memory_order_relaxed);
  return take_part(*run) ? Help::ended : Help::some;
}

void Pool::stop_sharing(const GridRun* run) noexcept {
  const auto lock = hold();
  const auto at =
      std::find_if(shared_.begin(), shared_.end(), [&](const auto& r) { return r.get() == run; });
  if (at == shared_.end()) return;
  shared_.erase(at);
  work_.fetch_sub(1, std::memory_order_relaxed);
}

void Pool::poll(std::function<bool()> ready, Task& task) {
  auto lock = hold();
  pollers_.reserve(pollers_.size() + 1);
  kick_monitor(lock);  // what can fail comes before what cannot be taken back
  pollers_.push_back({std::move(ready), &task});
}

void Pool::enter_blocking() {
  if (!t_worker) return;
  auto lock = hold();
  ++blocked_;
  if (alive_ - blocked_ < target_ && sleeping_ + spinning_ == 0 && alive_ < target_ + kExtraMax) {
    try {
      spawn(true);
    } catch (...) {  // goes on with fewer
    }
  }
}

void Pool::leave_blocking() noexcept {
  if (!t_worker) return;
  const auto lock = hold();
  --blocked_;
}

void Pool::monitor() noexcept {
  auto lock = hold();
  std::chrono::microseconds nap{20};
  std::chrono::steady_clock::time_point starved_since{};  // the epoch: not starved
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
      lock_soon(lock);
      continue;
    }
    // Nobody sleeps, work waits, and that for a while: one more worker.
    if (ready_count_ > 0 && sleeping_ + spinning_ == 0) {
      if (starved_since == decltype(starved_since){}) starved_since = now;
      if (now - starved_since >= kStarved && alive_ < target_ + kExtraMax) {
        starved_since = {};
        try {
          spawn(true);
        } catch (...) {  // tries again later
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
