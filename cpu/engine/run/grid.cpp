// cpu/engine/run/grid.cpp
#include "cpu/engine/run/grid.hpp"

#include <algorithm>
#include <thread>

#include "cpu/engine/check/check.hpp"
#include "cpu/engine/run/worker.hpp"

namespace cucpu {

Grid::Grid(std::shared_ptr<const Code> code, const LaunchShape& shape, const std::byte* params)
    : code_{std::move(code)}, shape_{shape}, params_{params} {
  static std::atomic<std::uint64_t> ids{0};
  id_ = ids.fetch_add(1, std::memory_order_relaxed);
  if (shape_.cluster.volume() == 0) shape_.cluster = {};
  clusters_ = shape_.grid.volume() / shape_.cluster.volume();
  left_.store(clusters_, std::memory_order_relaxed);
  // Few atomic operations for large grids, an even end for small ones.
  const bool one_by_one = shape_.cooperative || code_->waits_for_blocks;
  if (code_->check) checker_ = std::make_unique<Checker>(code_->check);
  static const std::uint64_t processors = std::max(1U, std::thread::hardware_concurrency());
  chunk_ = one_by_one ? 1 : std::clamp<std::uint64_t>(clusters_ / (16 * processors), 1, 64);
}

Grid::~Grid() = default;

bool Grid::work() noexcept {
  if (checker_ && checked_by_someone_.exchange(true))
    return false;  // one host thread runs all of it
  return Worker::of_this_thread().run(*this);
}

bool Grid::claim(std::uint64_t& first, std::uint64_t& last) {
  if (next_.load(std::memory_order_relaxed) >= clusters_) return false;
  first = next_.fetch_add(chunk_, std::memory_order_relaxed);
  if (first >= clusters_) return false;
  last = std::min(first + chunk_, clusters_);
  return true;
}

std::uint64_t Grid::drop_rest() noexcept {
  const std::uint64_t first = next_.exchange(clusters_, std::memory_order_relaxed);
  return first >= clusters_ ? 0 : clusters_ - first;
}

bool Grid::finish(std::uint64_t clusters) noexcept {
  if (clusters == 0) return false;
  // Everything the blocks wrote is visible to whoever learns that the grid has ended.
  return left_.fetch_sub(clusters, std::memory_order_acq_rel) == clusters;
}

void Grid::fail(int code, std::string report) noexcept {
  const std::lock_guard lock{mutex_};
  if (!fault_) fault_ = Fault{code, std::move(report)};
  cancel_.store(1, std::memory_order_release);
}

void Grid::cancel(int code) noexcept {
  try {
    fail(code,
         "kernel " + code_->kernel + (code == 702 ? " ran over the time limit" : " was cancelled"));
  } catch (...) {
    fail(code, {});
  }
}

}  // namespace cucpu
