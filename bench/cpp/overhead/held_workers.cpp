// SPDX-License-Identifier: Apache-2.0
// held_workers.cpp: keeps the workers of the CPU device asleep while bench_overhead_counted counts
// instructions, so that the calling thread does all the work: what a worker adds (spinning,
// contention for locks, memory that another thread frees) differs between runs.
#include <pthread.h>
#include <time.h>

#include <atomic>

#include "timing.hpp"

namespace {

std::atomic<bool> is_holding{false};
std::atomic<pthread_cond_t*> missed{nullptr};  // the last one whose waiter was left asleep

/// A worker that has nothing to do spins for less than a millisecond, then sleeps.
void begin() {
  const timespec nap{0, 10'000'000};
  nanosleep(&nap, nullptr);
  is_holding = true;
}

bool is_effective() { return missed != nullptr; }

void end() {
  is_holding = false;
  if (pthread_cond_t* const condition = missed.exchange(nullptr)) pthread_cond_broadcast(condition);
}

constexpr bench::WorkerHold kHold{begin, is_effective, end};
const bool is_set = (bench::worker_hold = &kHold, true);

}  // namespace

/// Replaces that of the C library: std::condition_variable::notify_one() calls it. A program may
/// not rely on how soon a thread wakes up, so a held wake-up is only a late one.
extern "C" __attribute__((visibility("default"))) int pthread_cond_signal(
    pthread_cond_t* condition) noexcept {
  if (!is_holding.load(std::memory_order_relaxed)) return pthread_cond_broadcast(condition);
  missed.store(condition, std::memory_order_relaxed);
  return 0;
}
