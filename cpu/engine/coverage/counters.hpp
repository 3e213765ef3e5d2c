// SPDX-License-Identifier: Apache-2.0
// cpu/engine/coverage/counters.hpp: the counters of a module, in a file of the coverage folder.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

namespace cucpu {

/// Every host thread has counters of its own, so that generated code needs no atomic operations.
/// They are pages of a file: nothing has to be written at exit, and what was counted survives a
/// crash.
class CoverageCounters {
 public:
  /// The counters of a module in this process: all loads of the same code share them. They live as
  /// long as the process, because code of an unloaded module may still run. Writes `map` to the
  /// folder, unless it is there. Throws std::system_error.
  static CoverageCounters& of(const std::string& folder, const std::string& module,
                              std::size_t count, const std::string& map);

  /// Writes a file of the folder, unless it is there. Throws std::system_error.
  static void write_once(const std::string& path, const std::string& text);

  /// The counters of the calling host thread.
  std::uint64_t* of_this_thread() noexcept;

 private:
  CoverageCounters(const std::string& path, std::size_t bytes);
  std::uint64_t* map_for(std::size_t thread) noexcept;

  static constexpr std::size_t kThreads = 4096;  ///< further threads share the counters of others
  const int file_;
  const std::size_t bytes_;  ///< per thread: whole pages
  std::mutex mutex_;
  std::size_t mapped_ = 0;
  std::array<std::atomic<std::uint64_t*>, kThreads> threads_{};
};

}  // namespace cucpu

extern "C" {
/// The counters of a module for the calling host thread.
std::uint64_t* cucpu_rt_coverage(cucpu::CoverageCounters* module);
}
