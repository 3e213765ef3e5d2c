// cpu/engine/run/time_limit.hpp: cancels grids that run too long. One host thread watches all of
// them, and exists only when needed.
#pragma once

#include <atomic>

namespace cucpu {

class Grid;

/// The watch over one grid. Must be stopped, or destroyed, before the grid goes.
class TimeLimit {
 public:
  TimeLimit() = default;
  ~TimeLimit() { stop(); }
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

  void start(Grid&, double seconds) noexcept;  ///< The first call counts; from any thread.
  void stop() noexcept;

 private:
  std::atomic<bool> started_{false};
  Grid* grid_ = nullptr;
};

}  // namespace cucpu
