// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/time_limit.hpp: cancels grids that exceed a time limit. One watchdog thread,
// started by the first limit, serves all grids.
#pragma once

#include <atomic>

namespace cucpu {

class Grid;

/// The time limit of one grid. Stop or destroy it before the grid.
class TimeLimit {
 public:
  TimeLimit() = default;
  ~TimeLimit() { stop(); }
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

  void start(Grid&, double seconds) noexcept;  ///< The first call counts. Thread-safe.
  void stop() noexcept {
    if (started_) [[unlikely]]
      finish();
  }

 private:
  void finish() noexcept;

  std::atomic<bool> started_{false};
  Grid* grid_ = nullptr;
};

}  // namespace cucpu
