// SPDX-License-Identifier: Apache-2.0
// Workers, work sharing of grids, and the monitor that polls conditions and adds workers.
#include "cpu/exec/thread_pool.hpp"

#include <algorithm>
#include <bit>
#include <thread>
#include <utility>

#include "cpu/base/cpu_affinity.hpp"
#include "cpu/base/numa.hpp"
#include "cpu/base/time_slice.hpp"
#include "cpu/engine/run/detached_thread.hpp"
#include "cpu/exec/execution_context.hpp"
#include "cpu/exec/stream.hpp"
#include "cpu/mem/immortal.hpp"

namespace cucpu::driver {
namespace {

__attribute__((tls_model("initial-exec"))) thread_local bool t_worker = false;
__attribute__((tls_model("initial-exec"))) thread_local Task* t_task = nullptr;

// How long an idle worker spins before it sleeps: longer than the time between two launches of a
// program.
constexpr auto kSpin = std::chrono::microseconds{100};
// When all workers are busy for this long while work waits, one more worker starts. Otherwise a
// kernel that waits for another stream would hang, which a GPU with room for both runs.
constexpr auto kStarved = std::chrono::milliseconds{5};
constexpr unsigned kExtraMax = 256;
// Nanoseconds from a launch to the wait for it, in programs that wait at once.
constexpr std::int64_t kSoon = 4'000;
// A grid that one thread ends in this time (nanoseconds) is left to it: calling others takes about
// as long.
constexpr std::uint64_t kShort = 6'000;
// What each further thread of a grid adds to its time (nanoseconds).
constexpr std::uint64_t kCall = 250;
// Sleeping workers are woken for a grid that takes longer than this (nanoseconds) without them.
constexpr std::uint64_t kLong = 10'000;
// Every thread that is woken for a grid wakes so many others: waking takes microseconds each.
constexpr unsigned kWakes = 4;
// How long (nanoseconds) the thread that starts a grid waits for its end when no block is left.
// All parts of a grid are equal.
constexpr std::int64_t kSameTime = 10'000;
// A message to a worker on standby: look for work. Other messages are the address of a GridRun,
// with a reference.
constexpr std::uintptr_t kLook = 1;

}  // namespace

ThreadPool& ThreadPool::instance() { return Immortal<ThreadPool>::get(); }

ThreadPool::Lock::Lock(ThreadPool& pool) : pool_{pool}, lock_{pool.mutex_, std::defer_lock} {
  lock();
}

ThreadPool::Lock::~Lock() {
  if (lock_.owns_lock()) unlock();
}

/// Spins before it blocks. The lock is held for some hundred instructions at a time, so spinning
/// usually avoids the two system calls of a sleep and a wake-up at every launch of a small kernel.
void ThreadPool::Lock::lock() {
  for (int looks = 0; looks < 1000; ++looks) {
    if (lock_.try_lock()) return;
    relax();
  }
  lock_.lock();
}

void ThreadPool::Lock::unlock() {
  lock_.unlock();
  if (to_wake_ == nullptr) return;
  const int cpu = sched_getcpu();
  if (!t_worker) pool_.program_cpu_.store(cpu, std::memory_order_relaxed);
  for (Sleeper* sleeper = std::exchange(to_wake_, nullptr); sleeper != nullptr;) {
    Sleeper* const next = sleeper->next;  // it may sleep again once it is woken
    sleeper->waker_cpu = cpu;
    sleeper->is_woken.store(1, std::memory_order_release);
    sleeper->is_woken.notify_one();
    sleeper = next;
  }
}

bool ThreadPool::on_worker() noexcept { return t_worker; }

void ThreadPool::configure(unsigned threads, unsigned cores) {
  const Lock lock{*this};
  target_ = std::max(1u, threads);
  if (cores == 0) cores = std::max(1u, std::thread::hardware_concurrency());
  // One more thread may spin: that of the program, which waits.
  const unsigned others = std::max(2u, std::min(target_, cores)) - 1;
  places_ = others < StandbyWorkers::kPlaces ? (std::uint64_t{1} << others) - 1 : ~std::uint64_t{0};
}

void ThreadPool::spawn(bool extra) {
  start_detached_thread("cucore-worker", [this, extra, number = alive_.load(), all = target_] {
    stay_on_node(number, all);
    use_short_time_slice();
    worker(number, extra);
  });
  ++alive_;
  ++waking_;
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
  const Lock lock{*this};
  ensure_workers(1);
  started_.store(true, std::memory_order_release);
}

void ThreadPool::wake(unsigned wanted, Lock& lock) noexcept {
  for (unsigned coming = (has_looker_ ? 1 : 0) + waking_; coming < wanted; ++coming) {
    if (const std::uint64_t chosen = standby_.choose(1, standby_end()); chosen != 0) {
      standby_.send(chosen, kLook);
      continue;
    }
    if (sleepers_ == nullptr) return;
    Sleeper& sleeper = *sleepers_;
    sleepers_ = sleeper.next;
    --sleeping_;
    ++waking_;
    lock.wake(sleeper);
  }
}

void ThreadPool::kick_monitor(Lock&) {
  if (!monitor_alive_) {
    start_detached_thread("cucore-monitor", [this] { monitor(); });
    monitor_alive_ = true;
  }
  if (!monitor_awake_) {
    monitor_awake_ = true;
    monitor_sleep_.notify_one();
  }
}

void ThreadPool::try_kick_monitor(Lock& lock) noexcept {
  try {
    kick_monitor(lock);
  } catch (...) {  // no thread can be created: the existing workers will do the work
  }
}

void ThreadPool::post(Task& task, bool host_comes) noexcept {
  const std::int64_t host_comes_until = host_comes ? now_ns() + kSoon : 0;
  Lock lock{*this};
  Ready& level = ready_[std::clamp(task.priority() + kLevels - 1, 0, kLevels - 1)];
  task.next = nullptr;
  (level.last ? level.last->next : level.first) = &task;
  level.last = &task;
  ++ready_count_;
  host_comes_until_.store(host_comes_until, std::memory_order_relaxed);
  posts_.store(posts_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  // Sequentially consistent with has_looker_: either this thread sees that nobody looks, or the
  // worker that stops looking sees the task.
  work_.fetch_add(1);
  if (!has_looker_) {
    if (host_comes && sleeping_ < alive_) {
      // A worker will look when it has ended its grid. Should that take long and the thread of the
      // program not come, the monitor wakes another one.
      try_kick_monitor(lock);
    } else if (sleeping_ != 0 || standby_.waiting(standby_end()) != 0) {
      wake(waking_ + 1, lock);
    } else if (waking_ == 0 && alive_ > 0) {  // all workers are busy
      const unsigned before = alive_;
      try {
        ensure_workers(alive_ - idle() + 1);
      } catch (...) {  // no thread can be created: the existing workers will do the work
      }
      if (alive_ == before) try_kick_monitor(lock);
    }
  }
}

bool ThreadPool::reclaim(Task& task) {
  if (work_.load(std::memory_order_relaxed) == 0) return false;
  const Lock lock{*this};
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

bool ThreadPool::take_work(Lock& lock, Task*& task, Ref<GridRun>& grid) {
  if (ready_count_ > 0) {
    for (auto& level : ready_) {
      if (level.first == nullptr) continue;
      task = level.first;
      level.first = task->next;
      task->host_waits.store(false, std::memory_order_relaxed);  // it did not come
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

bool ThreadPool::share(const Ref<GridRun>& run, Lock&) noexcept {
  try {
    shared_.push_back(run);
  } catch (const std::bad_alloc&) {
    return false;
  }
  run->is_shared.store(true, std::memory_order_relaxed);
  work_.fetch_add(1, std::memory_order_release);
  return true;
}

void ThreadPool::call_helpers(const Ref<GridRun>& run, unsigned wanted) noexcept {
  Launch& launch = run->launch();
  const unsigned hosts = run->task().helping_hosts();
  const std::uint64_t taken = taken_places_.load(std::memory_order_relaxed);
  const std::uint64_t chosen =
      standby_.choose(wanted, standby_end(), static_cast<unsigned>(std::popcount(taken)));
  const auto called = static_cast<unsigned>(std::popcount(chosen));
  launch.divide(chosen << 1 | 1);  // the part of a worker is the same in every launch
  if (chosen != 0) {
    run->retain(static_cast<int>(called));
    standby_.send(chosen, reinterpret_cast<std::uintptr_t>(run.get()));
  }
  const unsigned missing = wanted - called;
  if (missing == 0) return;
  const bool is_long = launch.expected_ns() / (called + 1) > kLong;
  run->accept_helpers(missing, is_long && missing > hosts, !t_worker);
  Lock lock{*this};
  if (share(run, lock)) wake_helpers(*run, lock);
}

// No more threads are awake than there are cores: a worker that comes too late for one grid is
// there for the next, while one more thread would take the core of another.
void ThreadPool::wake_helpers(const GridRun& run, Lock& lock) noexcept {
  if (!run.wakes_workers()) return;
  const unsigned awake = alive_ - sleeping_;
  const unsigned most = target_ + blocked_ - (run.is_of_program() ? 1 : 0);
  if (awake >= most) return;
  wake(std::min({waking_ + kWakes, run.helpers_left(), waking_ + most - awake}), lock);
}

bool ThreadPool::should_look() const noexcept {
  if (work_.load(std::memory_order_acquire) == 0) return false;
  const std::int64_t until = host_comes_until_.load(std::memory_order_relaxed);
  return until == 0 || now_ns() >= until;
}

bool ThreadPool::stand_by(unsigned place, SpinBudget& budget) noexcept {
  for (;;) {
    const bool looks = !has_looker_.load(std::memory_order_relaxed) && !has_looker_.exchange(true);
    const std::uint32_t posts = posts_.load(std::memory_order_relaxed);
    const std::uintptr_t message =
        standby_.wait(place, kSpin, [&] { return looks && should_look(); });
    if (looks) has_looker_.store(false);
    // It goes on looking while tasks are posted, even if the program runs them itself.
    if (message == 0 && looks && work_.load() == 0 &&
        posts != posts_.load(std::memory_order_relaxed))
      continue;
    if (message <= kLook) return message == kLook;
    budget.refill();
    if (looks && work_.load() != 0) {  // somebody else has to look
      Lock lock{*this};
      wake(1, lock);
    }
    {
      const auto grid = Ref<GridRun>::adopt(reinterpret_cast<GridRun*>(message));
      if (participate(grid, place + 1)) grid->task().drive();
    }
    if (should_look()) return true;
  }
}

void ThreadPool::worker(unsigned number, bool extra) noexcept {
  t_worker = true;
  Sleeper sleeper;
  SpinBudget budget;
  Lock lock{*this};
  --waking_;
  for (;;) {
    Task* task = nullptr;
    Ref<GridRun> grid;
    if (take_work(lock, task, grid)) {
      if (grid) wake_helpers(*grid, lock);
      lock.unlock();
      if (task)
        task->drive();
      else if (participate(grid, WorkOptions::kAnyPart))
        grid->task().drive();
      grid = nullptr;
      lock.lock();
      continue;
    }
    if (extra && alive_ - blocked_ > target_) {
      --alive_;
      return;
    }
    if (const std::uint64_t free = places_ & ~taken_places_.load(std::memory_order_relaxed);
        free != 0 && budget.is_left()) {
      const auto place = static_cast<unsigned>(std::countr_zero(free));
      taken_places_.fetch_or(std::uint64_t{1} << place, std::memory_order_relaxed);
      lock.unlock();
      const bool found = stand_by(place, budget);
      lock.lock();
      taken_places_.fetch_and(~(std::uint64_t{1} << place), std::memory_order_relaxed);
      if (found || work_.load(std::memory_order_relaxed) != 0) {
        budget.refill();
        continue;
      }
      budget.spend();
    }
    if (work_.load(std::memory_order_relaxed) != 0) continue;
    sleeper.is_woken.store(0, std::memory_order_relaxed);
    sleeper.next = std::exchange(sleepers_, &sleeper);
    ++sleeping_;
    lock.unlock();
    const std::int64_t since = now_ns();
    sleeper.is_woken.wait(0, std::memory_order_acquire);
    // When no core is idle, the scheduler puts a worker where the thread runs that wakes it.
    if (sched_getcpu() == sleeper.waker_cpu)
      move_beside(program_cpu_.load(std::memory_order_relaxed), number);
    if (std::chrono::nanoseconds{now_ns() - since} < kSpin) budget.refill();
    lock.lock();
    --waking_;  // who comes too late for a short grid spins, so that the next one finds it
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

bool GridRun::starter_waits() noexcept {
  for (const std::int64_t until = now_ns() + kSameTime; now_ns() < until;)
    for (int i = 0; i < 8; ++i) {
      if (end_.load(std::memory_order_acquire) == End::ended) return true;
      relax();
    }
  End expected = End::starter_waits;
  return !end_.compare_exchange_strong(expected, End::nobody_waits, std::memory_order_acq_rel);
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

/// How many threads to call to a grid that takes one thread so many nanoseconds: each must save
/// more than calling it takes.
static unsigned worthwhile_helpers(std::uint64_t expected_ns, unsigned most) noexcept {
  if (expected_ns <= kShort) return 0;
  unsigned count = 1;
  while (count < most && expected_ns / (count + 1) / (count + 2) > kCall) ++count;
  return count;
}

ThreadPool::Started ThreadPool::start_grid(const Ref<GridRun>& run) {
  const Worker here{*run};
  Launch& launch = run->launch();
  const unsigned helpers = helpers_for(*run);
  const std::uint64_t parallelism = launch.parallelism();

  if (target_ == 1 || parallelism == 1 || helpers == 0)
    return launch.work() ? Started::ended : Started::left_to_others;
  auto wanted = static_cast<unsigned>(std::min<std::uint64_t>(helpers, parallelism - 1));
  if (const unsigned worthwhile = worthwhile_helpers(launch.expected_ns(), wanted); worthwhile != 0)
    wanted = worthwhile;
  else if (launch.work({.part = 0, .budget_ns = 2 * kShort}))
    return Started::ended;
  if (alive_.load(std::memory_order_relaxed) < target_) {
    const Lock lock{*this};
    ensure_workers(alive_ - idle() + wanted);
  }
  const bool waits = !t_worker;  // a thread of the program
  if (waits) run->expect_starter();
  call_helpers(run, wanted);
  const bool last = launch.work({.part = 0});
  stop_sharing(run.get());
  return last ? Started::ended : waits ? Started::ends_soon : Started::left_to_others;
}

Progress ThreadPool::run_grid(const Ref<GridRun>& run) {
  const Started started = start_grid(run);
  if (started == Started::left_to_others ||
      (started == Started::ends_soon && !run->starter_waits()))
    return Progress::pending;
  run->task().context().end_running(*run);
  return Progress::done;
}

/// True when this thread finished the grid and owns the task now.
bool ThreadPool::participate(const Ref<GridRun>& run, unsigned part) noexcept {
  bool last = false;
  {
    const Worker here{*run};
    last = run->launch().work({.part = part});
  }
  if (part == WorkOptions::kAnyPart) stop_sharing(run.get());  // it came through the list
  if (!last || run->give_to_starter()) return false;
  run->task().context().end_running(*run);
  return true;
}

ThreadPool::Help ThreadPool::help(Task& task) noexcept {
  if (work_.load(std::memory_order_relaxed) == 0) return Help::none;
  Ref<GridRun> run;
  {
    const Lock lock{*this};
    const auto at = std::find_if(shared_.begin(), shared_.end(),
                                 [&](const auto& shared) { return &shared->task() == &task; });
    if (at != shared_.end()) run = join(at);
    if (!run) return Help::none;
  }
  return participate(run, WorkOptions::kAnyPart) ? Help::ended : Help::some;
}

void ThreadPool::stop_sharing(const GridRun* run) noexcept {
  if (!run->is_shared.load(std::memory_order_acquire)) return;
  const Lock lock{*this};
  const auto at =
      std::find_if(shared_.begin(), shared_.end(), [&](const auto& r) { return r.get() == run; });
  if (at != shared_.end()) erase(at);
}

void ThreadPool::poll(std::function<bool()> ready, Task& task) {
  Lock lock{*this};
  pollers_.reserve(pollers_.size() + 1);
  kick_monitor(lock);  // may throw, so it comes before the change
  pollers_.push_back({std::move(ready), &task});
}

void ThreadPool::enter_blocking() {
  if (!t_worker) return;
  Lock lock{*this};
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
  const Lock lock{*this};
  --blocked_;
}

void ThreadPool::monitor() noexcept {
  Lock lock{*this};
  std::chrono::microseconds nap{20};
  std::chrono::steady_clock::time_point starved_since{};  // the epoch means: not starved
  std::size_t ready_before = 0;
  std::uint32_t posts_before = 0;
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
      lock.lock();
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
    // A task that a thread of the program was expected to run, and workers that sleep.
    if (ready_count_ > 0 && ready_count_ == ready_before) wake(1, lock);
    ready_before = ready_count_;
    const std::uint32_t posts = posts_.load(std::memory_order_relaxed);
    if (pollers_.empty() && ready_count_ == 0 && std::exchange(posts_before, posts) == posts) {
      monitor_awake_ = false;
      while (!monitor_awake_) lock.wait(monitor_sleep_);
      nap = std::chrono::microseconds{20};
      continue;
    }
    lock.wait(monitor_sleep_, nap);
    nap = std::min(nap * 2, std::chrono::microseconds{1000});
  }
}

}  // namespace cucpu::driver
