// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/worker.cpp
#include "cpu/engine/run/worker.hpp"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <optional>

#include "cpu/engine/run/debugger.hpp"
#include "cpu/engine/run/float_environment.hpp"
#include "cpu/mem/per_thread.hpp"

namespace cucpu {
namespace {

// Read by signal handlers on any thread: the initial-exec model allocates nothing on first use.
__attribute__((tls_model("initial-exec"))) thread_local Worker* t_running = nullptr;

std::atomic<std::uint32_t> g_workers{0};

}  // namespace

std::uint32_t nsmid() { return g_workers.load(std::memory_order_relaxed); }

Worker::Worker() : smid_{g_workers.fetch_add(1, std::memory_order_relaxed)} {
  stack_t old{};
  if (sigaltstack(nullptr, &old) == 0 && (old.ss_flags & SS_DISABLE)) {
    constexpr std::size_t kBytes = 64 * 1024;
    signal_stack_ = std::make_unique<std::byte[]>(kBytes);
    stack_t mine{};
    mine.ss_sp = signal_stack_.get();
    mine.ss_size = kBytes;
    sigaltstack(&mine, nullptr);
  }
}

Worker::~Worker() {
  destroy_tsan_fibers(host_);
  if (signal_stack_) {
    stack_t old{};
    if (sigaltstack(nullptr, &old) == 0 && old.ss_sp == signal_stack_.get()) {
      stack_t none{};
      none.ss_flags = SS_DISABLE;
      sigaltstack(&none, nullptr);
    }
  }
}

Worker& Worker::of_this_thread() { return PerThread<Worker>::get(); }

Worker* Worker::running() noexcept { return t_running; }

Worker::RunningScope::RunningScope(Worker& worker) noexcept { t_running = &worker; }
Worker::RunningScope::~RunningScope() { t_running = nullptr; }

bool Worker::run(Grid& grid, const WorkOptions& options) noexcept {
  const ScopedFloatEnvironment float_environment;  // default rounding and denormal modes
  grid_ = &grid;
  if (grid.observer()) std::fill(std::begin(check_ranges_), std::end(check_ranges_), CheckRange{});
  // The thread that starts a grid for several threads measures it.
  const bool measures = options.part == 0;
  const std::uint64_t start = measures ? now_ns() : 0;
  claims_.begin(grid.unclaimed(), options, start, &grid.unfinished());
  bool has_newer_code = true;
  while (has_newer_code) {  // at first, and after a tier-up
    code_ = &grid.latest_code();
    if (code_->block) {
      scheduler_ = &block_scheduler_;
      has_newer_code = block_scheduler_.run();
    } else {
      scheduler_ = &thread_scheduler_;
      std::optional<DebuggedRun> debugged;
      if (code_->debug) {
        debugged.emplace(thread_scheduler_, code_->kernel.c_str(),
                         reinterpret_cast<const void*>(code_->thread));
      }
      has_newer_code = thread_scheduler_.run();
    }
  }
  if (grid.schedule()) grid.schedule()->finish();
  grid_ = nullptr;
  if (measures && claims_.finished() != 0) {
    const std::uint64_t end = now_ns();
    // The first blocks alone where others divide the grid: claiming the last ones takes longer than
    // running them, where blocks are short. Fibers run several blocks at a time.
    if (const auto first = claims_.first_claim(end); options.budget_ns == 0 && code_->block)
      code_->block_time.record(first.clusters, first.nanoseconds);
    else
      code_->block_time.record(claims_.finished(), end - start);
  }
  return claims_.publish();
}

}  // namespace cucpu
