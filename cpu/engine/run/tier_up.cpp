// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/tier_up.cpp
#include "cpu/engine/run/tier_up.hpp"

#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

#include "cpu/engine/run/detached_thread.hpp"
#include "cpu/engine/run/grid.hpp"
#include "protection.hpp"

namespace cucpu {
namespace {

using Clock = std::chrono::steady_clock;

/// Baseline code that has run for less does not repay a compilation: most kernels of a test suite.
constexpr std::chrono::milliseconds kTierUpAfter{20};
/// How long process exit waits for a compilation to reach block_if_exiting().
constexpr std::chrono::seconds kExitTimeout{10};

}  // namespace

/// Never destroyed: the thread may outlive main.
struct TierUp::CompileThread {
  struct Request {
    std::shared_ptr<TierUp> tier_up;
    const BaselineRun* run;
  };
  std::mutex mutex;
  std::condition_variable changed, stopped;
  std::multimap<Clock::time_point, Request>
      requests;                   ///< of running grids, by the time they are due
  std::atomic<pid_t> process{0};  ///< that owns the thread; 0: no thread
  bool busy = false, ending = false;

  static CompileThread& get() {
    static auto* const thread = new CompileThread;
    return *thread;
  }

  void start() {
    // Registered after LLVM's static objects are constructed, so it runs before they are destroyed.
    std::atexit([] { get().end(); });
    start_detached_thread("cucore-compiler", [this] { loop(); });
    process = getpid();
  }

  void loop() {
    std::unique_lock lock{mutex};
    for (;;) {
      if (requests.empty() || ending) {
        changed.wait(lock);
        continue;
      }
      const auto first = requests.begin();
      if (Clock::now() < first->first) {
        changed.wait_until(lock, Clock::time_point{first->first});
        continue;
      }
      const std::shared_ptr<TierUp> tier_up = std::move(first->second.tier_up);
      requests.erase(first);
      if (std::exchange(tier_up->requested_, true)) continue;
      busy = true;
      lock.unlock();
      tier_up->compile();
      lock.lock();
      busy = false;
      stopped.notify_all();
    }
  }

  void end() {
    if (process != getpid()) return;  // a forked child has no such thread, and the lock may be held
    std::unique_lock lock{mutex};
    ending = true;
    stopped.wait_for(lock, kExitTimeout, [this] { return !busy; });
  }
};

void TierUp::compile() noexcept {
  try {
    optimized_ = compile_();
  } catch (...) {  // the baseline code stays; `compile_` has reported the error
  }
  compile_ = nullptr;  // releases what it captured
  if (optimized_) published_.store(optimized_.get(), std::memory_order_release);
}

void BaselineRun::start(const std::shared_ptr<TierUp>& tier_up) noexcept try {
  if (started_.exchange(true)) return;
  auto& thread = TierUp::CompileThread::get();
  const std::lock_guard lock{thread.mutex};
  if (tier_up->requested_) return;
  began_ = Clock::now();
  const auto due = began_ + std::max<Clock::duration>(kTierUpAfter - tier_up->baseline_time_, {});
  if (thread.process == 0) thread.start();
  const auto placed = thread.requests.emplace(due, TierUp::CompileThread::Request{tier_up, this});
  tier_up_ = tier_up;
  if (placed == thread.requests.begin()) thread.changed.notify_one();
} catch (...) {  // out of memory: the kernel keeps its baseline code
}

void BaselineRun::finish() noexcept {
  auto& thread = TierUp::CompileThread::get();
  const std::lock_guard lock{thread.mutex};
  if (!tier_up_) return;
  tier_up_->baseline_time_ += Clock::now() - began_;
  std::erase_if(thread.requests, [&](const auto& request) { return request.second.run == this; });
  tier_up_.reset();
}

void block_if_exiting() noexcept {
  auto& thread = TierUp::CompileThread::get();
  {
    const std::lock_guard lock{thread.mutex};
    if (!CUCORE_PROTECTION("stop-compiler-at-exit") || !thread.ending) return;
    thread.busy = false;
    thread.stopped.notify_all();
  }
  for (;;) pause();
}

}  // namespace cucpu
