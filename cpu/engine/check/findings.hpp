// SPDX-License-Identifier: Apache-2.0
// cpu/engine/check/findings.hpp: what check mode found in one grid, and how it is reported.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "cpu/engine/check/kinds.hpp"

namespace cucpu {

class Worker;

/// One finding: the CUresult, its name and what happened where.
struct Finding {
  check::Kind kind;
  int code;
  const char* name;
  std::string text;
  std::uintptr_t pc;
  std::uintptr_t address = 0;  ///< 0: none
};

class Findings {
 public:
  explicit Findings(std::shared_ptr<const check::Options> options) : options_{std::move(options)} {}
  [[nodiscard]] const check::Options& options() const { return *options_; }

  /// Sets Worker::current_fault(), and the caller leaves the fiber; with "continue" the finding is
  /// printed, once per place, and a suppressed one has no effect. Thread-safe.
  void report(Worker&, Finding);

 private:
  std::shared_ptr<const check::Options> options_;
  std::mutex mutex_;
  std::set<std::pair<unsigned, std::uintptr_t>> told_;  ///< kinds and places that were printed
};

/// Writes a line about the share of blocks that are done, if the last one was ten seconds ago.
class Progress {
 public:
  Progress();
  /// `count` blocks of a grid of `blocks` start.
  void blocks_start(Worker&, std::uint64_t count, std::uint64_t blocks);

 private:
  std::mutex mutex_;
  std::uint64_t begun_ = 0;
  std::int64_t shown_;  ///< seconds of the steady clock
};

/// Whether race checks compare accesses with earlier ones; false only in builds of
/// tools/protections.
bool compares_accesses();

/// "read", "write", "atomic operation" or "texture fetch".
const char* verb_of(std::uint32_t access_flags);
/// The same for the part of an access that reads: "read" or "texture fetch".
const char* read_verb_of(std::uint32_t access_flags);

/// The earlier access of a race.
struct EarlierAccess {
  bool is_strong, writes;
  std::string thread;  ///< name_of_thread()
};
/// The text of a race between two threads of a grid.
std::string race_text(std::uint32_t access_flags, std::uint32_t bytes,
                      const EarlierAccess& earlier);

}  // namespace cucpu
