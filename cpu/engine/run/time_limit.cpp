// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/time_limit.cpp
#include "cpu/engine/run/time_limit.hpp"

#include <chrono>
#include <condition_variable>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "cpu/engine/run/detached_thread.hpp"
#include "cpu/engine/run/grid.hpp"
#include "protection.hpp"

namespace cucpu {
namespace {

using Clock = std::chrono::steady_clock;

/// Whether a debugger is attached: its user may stop a kernel for as long as they like.
bool is_debugged() {
  std::ifstream status{"/proc/self/status"};
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("TracerPid:")) return line.find_first_of("123456789") != line.npos;
  return false;
}

/// Never destroyed: the thread may outlive main.
struct Watchdog {
  std::mutex mutex;
  std::condition_variable changed;
  std::multimap<Clock::time_point, Grid*> deadlines;
  bool running = false;

  static Watchdog& get() {
    static auto* const watchdog = new Watchdog;
    return *watchdog;
  }

  void loop() {
    std::unique_lock lock{mutex};
    for (;;) {
      if (deadlines.empty()) {
        changed.wait(lock);
        continue;
      }
      const auto first = deadlines.begin();
      if (Clock::now() < first->first) {
        changed.wait_until(lock, Clock::time_point{first->first});
        continue;
      }
      auto entry = deadlines.extract(first);
      if (is_debugged()) {
        entry.key() = Clock::now() + std::chrono::seconds{1};
        deadlines.insert(std::move(entry));
      } else {
        entry.mapped()->cancel(702);  // under the lock: stop() waits, so the grid still exists
      }
    }
  }
};

}  // namespace

void TimeLimit::start(Grid& grid, double seconds) noexcept try {
  if (!CUCORE_PROTECTION("time-limit-watchdog") || started_.exchange(true)) return;
  Watchdog& watchdog = Watchdog::get();
  const std::lock_guard lock{watchdog.mutex};
  grid_ = &grid;
  watchdog.deadlines.emplace(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                std::chrono::duration<double>(seconds)),
                             &grid);
  if (!watchdog.running) {
    start_detached_thread("cucore-limit", [&watchdog] { watchdog.loop(); });
    watchdog.running = true;
  }
  watchdog.changed.notify_one();
} catch (...) {
}

void TimeLimit::finish() noexcept {
  Watchdog& watchdog = Watchdog::get();
  const std::lock_guard lock{watchdog.mutex};
  std::erase_if(watchdog.deadlines, [&](const auto& entry) { return entry.second == grid_; });
}

}  // namespace cucpu
