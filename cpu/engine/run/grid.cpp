// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/grid.cpp
#include "cpu/engine/run/grid.hpp"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "cpu/engine/run/safepoints.hpp"
#include "cpu/engine/run/worker.hpp"
#include "protection.hpp"

namespace cucpu {

Grid::Grid(std::shared_ptr<const Code> code, const LaunchShape& shape, const std::byte* params,
           std::shared_ptr<const TierUp> tier_up)
    : code_{std::move(code)},
      tier_up_{std::move(tier_up)},
      serial_{(code_->make_observer && !code_->parallel_observer) || code_->debug ||
              code_->has_schedule_points},
      shape_{shape},
      params_{params},
      clusters_{shape.cluster == Dim3{}
                    ? shape.grid.volume()
                    : shape.grid.volume() / std::max<std::uint64_t>(1, shape.cluster.volume())},
      // Blocks that wait for others rely on earlier blocks to be resident.
      unclaimed_{clusters_, shape.cooperative || code_->waits_for_blocks || code_->debug} {
  static std::atomic<std::uint64_t> ids{0};
  id_ = ids.fetch_add(1, std::memory_order_relaxed);
  if (shape_.cluster.volume() == 0) shape_.cluster = {};
  unfinished_.store(clusters_, std::memory_order_relaxed);
  if (safepoints::are_counted()) [[unlikely]] {
    safepoints_left_ = safepoints::g_cancel_at.load();
    cancel_.store(kCounted, std::memory_order_relaxed);
  }
  if (code_->has_schedule_points)
    schedule_ = std::make_unique<schedule::RandomSchedule>(schedule::Options::at_launch(),
                                                           clusters_, shape.cooperative);
  if (code_->make_observer) observer_ = code_->make_observer();
}

Grid::~Grid() = default;

GridObserver::~GridObserver() = default;

bool Grid::work(const WorkOptions& options) noexcept {
  if (serial_ && run_by_someone_.exchange(true)) return false;
  const bool last = Worker::of_this_thread().run(*this, options);
  if (observer_ && last) observer_->grid_ends();
  if (schedule_ && last) schedule_->write_log(code_->kernel, code_->line_of);
  return last;
}

void Grid::fail(int code, std::string report) noexcept {
  const std::lock_guard lock{mutex_};
  if (!fault_) fault_ = Fault{code, std::move(report)};
  cancel_.store(kStopped, std::memory_order_release);
}

void Grid::fail_out_of_memory(const char* what) noexcept {
  std::string report;
  try {
    report = "kernel " + code_->kernel + ": out of memory for " + what;
  } catch (const std::bad_alloc&) {  // an error without a report
  }
  fail(2, std::move(report));
}

bool Grid::is_last_safepoint() noexcept {
  if (safepoints_left_.fetch_sub(1) != 1) return false;
  cancel(safepoints::kCode);
  return true;
}

void Grid::cancel(int code) noexcept {
  if (!CUCORE_PROTECTION("cancel-grid")) return;
  try {
    fail(code,
         "kernel " + code_->kernel +
             (code == 702
                  ? " ran over the time limit of CUCORE_CPU_TIMEOUT: raise it (seconds, 0 for "
                    "none), or look for a loop that does not end"
                  : " was cancelled"));
  } catch (...) {
    fail(code, {});
  }
}

}  // namespace cucpu
