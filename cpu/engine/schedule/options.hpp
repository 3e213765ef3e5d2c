// SPDX-License-Identifier: Apache-2.0
// cpu/engine/schedule/options.hpp: CUCORE_CPU_SCHEDULE, the order in which the threads of a grid
// run.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

namespace cucpu::schedule {

/// A place in a run where a random schedule leaves the order of the program: `kind` before the
/// access number `point` of a thread.
struct Event {
  enum class Kind : char {
    preempt = 'p',  ///< another thread runs
    delay = 'd',    ///< the store stays invisible to other threads for a while
    old = 'o',      ///< the load has a value that the memory had earlier
  };
  Kind kind;
  std::uint64_t launch;  ///< of the process, from 0
  std::uint64_t block;   ///< linear in its grid
  std::uint32_t thread;  ///< linear in its block
  std::uint64_t point;   ///< accesses of the thread to shared and global memory before it
  auto operator<=>(const Event&) const = default;

  /// "p2.0.31.4": kind, launch, block, thread, point.
  [[nodiscard]] std::string text() const;
  static std::optional<Event> parse(const std::string&);
};

struct Options {
  std::uint64_t seed = 0;
  bool in_order = false;  ///< no random decisions: every thread runs until it waits
  /// With a value, all other events are left out: how a schedule is reduced to the few that matter.
  std::optional<std::set<Event>> kept;
  std::string log;  ///< file to which the events of every grid are appended; empty: none

  /// CUCORE_CPU_SCHEDULE: `seed:N`, then `keep:` and a list of events joined by `+`,
  /// or `@` and a file of them, and `log:` and a file, separated by commas. Nothing if the variable
  /// is not set. Throws environment::Invalid.
  static std::optional<Options> from_environment();
  /// The same for a launch: code that was compiled for random schedules runs in order when the
  /// variable has been removed, or has become invalid.
  static Options at_launch() noexcept;
};

}  // namespace cucpu::schedule
