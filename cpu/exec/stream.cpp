// SPDX-License-Identifier: Apache-2.0
// Stream queues.
#include "cpu/exec/stream.hpp"

#include <time.h>

#include <algorithm>
#include <limits>

#include "cpu/exec/execution_context.hpp"
#include "cpu/exec/stream_order.hpp"
#include "cpu/exec/thread_pool.hpp"

namespace cucpu::driver {
namespace {
std::atomic<std::uint64_t> g_next_stream_id{1};
// The longest time a waiting host thread spins before it sleeps: about two context switches. Halved
// after each spin in vain, so that waits for long kernels cost no processor time.
constexpr std::int64_t kSpin = 20'000;
// A thread that waits so soon (nanoseconds) after it has queued work will do so again. It spins for
// this time at least: workers that have taken the work may want help.
constexpr std::int64_t kSoon = 4'000;

/// Counts the calling thread as one that waits for a task and helps with its grids.
class WaitingThread {
 public:
  explicit WaitingThread(Task& task) noexcept : task_{task} {
    task_.waiting_threads.fetch_add(1, std::memory_order_relaxed);
  }
  ~WaitingThread() { task_.waiting_threads.fetch_sub(1, std::memory_order_relaxed); }
  WaitingThread(const WaitingThread&) = delete;
  WaitingThread& operator=(const WaitingThread&) = delete;

 private:
  Task& task_;
};
}  // namespace

operations::StreamView view_of(const Stream& stream) noexcept {
  return {stream.id(), &stream.context(),
          stream.role() == StreamRole::legacy ? operations::Legacy::is_it
          : stream.is_blocking()              ? operations::Legacy::waits
                                              : operations::Legacy::none};
}

std::int64_t now_ns() noexcept {
  timespec time{};  // as std::chrono::steady_clock, with one call less
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

Progress WaitOp::run(Task& task) {
  return stream_->wake_when(number_, task) ? Progress::pending : Progress::done;
}

Stream::Stream(ExecutionContext& context, StreamRole role, unsigned flags, int priority)
    : context_{&context},
      role_{role},
      flags_{flags},
      id_{g_next_stream_id.fetch_add(1, std::memory_order_relaxed)} {
  priority_ = priority;
  if (trace::is_on()) [[unlikely]]
    trace::name_stream(id_, role == StreamRole::legacy       ? "default stream"
                            : role == StreamRole::per_thread ? "default stream of a thread"
                                                             : "stream " + std::to_string(id_));
}

Stream::~Stream() { operations::ends(static_cast<const Task*>(this)); }

std::uint64_t Stream::push(Ref<Op> op) {
  ThreadPool::instance().start();
  bool idle = false;
  std::uint64_t number;
  const std::int64_t queued = trace::is_on() ? trace::now() : 0;  // it may run at once
  const bool is_watched = queued != 0 || operations::are_checked();
  {
    const std::lock_guard lock{mutex_};
    queue_.push_back(std::move(op));
    number = submitted_.load(std::memory_order_relaxed) + 1;
    if (is_watched) [[unlikely]] {
      if (operations::are_checked()) operations::submitted(view_of(*this), number);
      if (queued != 0) trace::note_queued(arrow_number(id_, number));
    }
    submitted_.store(number, std::memory_order_release);
    if (!active_) {
      active_ = idle = true;
      retain();  // released when the queue is empty
    }
  }
  if (queued != 0) [[unlikely]]
    trace::begin_arrow(arrow_number(id_, number), queued);
  if (idle) {
    posted_at_.store(now_ns(), std::memory_order_relaxed);
    ThreadPool::instance().post(*this, host_waits.load(std::memory_order_relaxed));
  } else {
    ThreadPool::instance().hurry();
  }
  return number;
}

std::uint64_t Stream::submit(Ref<Op> op) {
  if (role_ == StreamRole::legacy) {
    for (auto& stream : context_->blocking_streams_with_work())
      push(make_object<WaitOp>(stream, stream->submitted()));
  } else if (is_blocking()) {
    Stream& legacy = context_->legacy_stream();
    const std::uint64_t number = legacy.submitted();
    if (legacy.completed() < number) {
      bool fresh;
      {
        const std::lock_guard lock{mutex_};
        fresh = legacy_seen_ < number;
      }
      if (fresh) {
        push(make_object<WaitOp>(Ref<Stream>{&legacy}, number));
        const std::lock_guard lock{mutex_};
        legacy_seen_ =
            std::max(legacy_seen_, number);  // set after the wait is queued, which may throw
      }
    }
  }
  return push(std::move(op));
}

std::uint64_t Stream::begin_external() noexcept {
  return submitted_.fetch_add(1, std::memory_order_release) + 1;
}

void Stream::submit_wait(const Ref<Stream>& stream, std::uint64_t number) {
  if (operations::are_checked()) [[unlikely]]
    operations::joins(id_, stream->id(), number);
  submit(make_object<WaitOp>(stream, number));
  const std::lock_guard lock{mutex_};
  for (KnownWait& known : waits_)
    if (known.stream == stream->id()) {
      known.number = std::max(known.number, number);
      return;
    }
  waits_[next_wait_++ % waits_.size()] = {stream->id(), number};
}

bool Stream::comes_after(const Stream& stream, std::uint64_t number) const {
  const std::lock_guard lock{mutex_};
  return std::any_of(waits_.begin(), waits_.end(), [&](const KnownWait& known) {
    return known.stream == stream.id() && known.number >= number;
  });
}

/// Helps with this stream's current work; true when `number` may be complete now.
bool Stream::participate(std::uint64_t number) {
  ThreadPool& pool = ThreadPool::instance();
  if (!pool.has_work()) return false;
  const bool own = pool.reclaim(*this);
  const ThreadPool::Help help = own ? ThreadPool::Help::none : pool.help(*this);
  if (own || help == ThreadPool::Help::ended) advance(number);
  return own || help != ThreadPool::Help::none;
}

void Stream::wait(std::uint64_t number) {
  if (operations::are_checked()) [[unlikely]]
    operations::host_joins(view_of(*this), number);
  if (completed() >= number) return;
  // The calling thread helps: a small kernel needs no wake-up of a worker, and this thread works on
  // a large kernel instead of sleeping.
  const Ref<Stream> keep{this};
  while (participate(number))
    if (completed() >= number) return;
  const std::int64_t from = now_ns();
  // This thread might as well have run it: workers need not hurry next time.
  if (from - posted_at_.load(std::memory_order_relaxed) < kSoon)
    host_waits.store(true, std::memory_order_relaxed);
  const bool may_spin = sync_policy.load(std::memory_order_relaxed) != CU_SYNC_POLICY_BLOCKING_SYNC;
  if (may_spin) {
    const std::int64_t spin = std::max(spin_.load(std::memory_order_relaxed), kSoon);
    const WaitingThread here{*this};
    for (std::int64_t now = from; now < from + spin; now = now_ns()) {
      for (int i = 0; i < 16; ++i) {
        if (completed() >= number) {
          spin_.store(kSpin, std::memory_order_relaxed);
          return;
        }
        relax();
      }
      // A worker that had taken the kernel may share it only now.
      while (participate(number))
        if (completed() >= number) return;
    }
    spin_.store(spin / 2, std::memory_order_relaxed);
  }
  {
    std::unique_lock lock{mutex_};
    waiting_.fetch_add(1);
    over_.wait(lock, [&] { return completed_.load() >= number; });
    waiting_.fetch_sub(1);
  }
  // A longer spin would have been enough: waits are short again.
  if (may_spin && now_ns() - from < 2 * kSpin) spin_.store(kSpin, std::memory_order_relaxed);
}

bool Stream::wake_when(std::uint64_t number, Task& task) {
  if (completed() >= number) return false;
  const std::lock_guard lock{mutex_};
  waiters_.reserve(waiters_.size() + 1);  // may throw, so it comes before any change
  waiting_.fetch_add(1);
  if (completed_.load() >= number) {
    waiting_.fetch_sub(1);
    return false;
  }
  waiters_.emplace_back(number, &task);
  return true;
}

void Stream::finish_op() noexcept {
  in_op_ = false;
  trace_.end();
  const std::uint64_t number = completed_.load(std::memory_order_relaxed) + 1;
  completed_.store(number);  // sequentially consistent with waiting_: either this thread sees the
                             // waiter or the waiter sees the number
  if (waiting_.load() == 0) [[likely]]
    return;
  {
    const std::lock_guard lock{
        mutex_};  // a waiting host thread either sleeps or has not checked yet
  }
  over_.notify_all();
  for (;;) {  // one at a time: no allocation is allowed here
    Task* woken = nullptr;
    {
      const std::lock_guard lock{mutex_};
      const auto at = std::find_if(waiters_.begin(), waiters_.end(),
                                   [&](const auto& w) { return w.first <= number; });
      if (at == waiters_.end()) return;
      woken = at->second;
      *at = waiters_.back();
      waiters_.pop_back();
      waiting_.fetch_sub(1);
    }
    ThreadPool::instance().post(*woken);
  }
}

void Stream::drive() noexcept { advance(std::numeric_limits<std::uint64_t>::max()); }

/// Runs operations until the queue is empty. After `until`, workers continue.
void Stream::advance(std::uint64_t until) noexcept {
  if (in_op_) finish_op();
  for (;;) {
    if (taken_.empty()) {
      const std::lock_guard lock{mutex_};
      if (queue_.empty()) {
        active_ = false;
        break;
      }
      taken_.swap(queue_);
    }
    if (completed_.load(std::memory_order_relaxed) >= until) {
      ThreadPool::instance().post(*this);
      return;
    }
    Ref<Op> op = std::move(taken_.front());
    taken_.pop_front();
    in_op_ = true;
    Progress progress = Progress::done;
    if (!context_->is_broken() || op->runs_after_error()) {
      try {
        trace_.begin(*op, *this, completed_.load(std::memory_order_relaxed) + 1);
        if (operations::are_checked()) [[unlikely]] {
          const Task* const task = this;
          operations::runs(task, id_, completed_.load(std::memory_order_relaxed) + 1);
          const operations::Scope scope{task};
          progress = op->run(*this);
        } else {
          progress = op->run(*this);
        }
      } catch (...) {
        context_->break_with_current_exception();
      }
    }
    if (progress == Progress::pending) return;  // another thread owns the task now
    op = nullptr;  // destroys what the operation owns before waiters are notified
    finish_op();
  }
  release();
}

}  // namespace cucpu::driver
