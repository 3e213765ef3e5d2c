// SPDX-License-Identifier: Apache-2.0
// cpu/engine/coverage/coverage_map.hpp: what the counters of a module count: blocks with their
// source lines, and branches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cucpu {

/// A place in a source file, or in PTX that names no source lines.
struct CoverageLine {
  std::uint32_t file = 0;  ///< index in CoverageMap::files
  std::uint32_t line = 0;
  friend auto operator<=>(const CoverageLine&, const CoverageLine&) = default;
};

/// Straight-line code. Its counter counts the threads that executed it; several blocks may share
/// one.
struct CoverageBlock {
  std::uint32_t counter = 0;
  std::vector<CoverageLine> lines;
};

/// A conditional branch has four counters: threads for which the condition was true, threads for
/// which it was false, warps whose threads differed, and all warps. Code that runs threads one by
/// one counts no warps.
struct CoverageBranch {
  static constexpr std::uint32_t kTrue = 0, kFalse = 1, kDivergent = 2, kWarps = 3, kCounters = 4;
  std::uint32_t counter = 0;  ///< the first of the four
  std::uint32_t function = 0;
  CoverageLine at;
  std::uint32_t column = 0;
  std::uint32_t true_line = 0, false_line = 0;  ///< where each side continues; 0: not known
};

struct CoverageFunction {
  std::string name;  ///< demangled
  bool kernel = false;
  CoverageLine at;
  std::uint32_t counter = 0;  ///< of its first block
};

struct CoverageMap {
  std::uint32_t counters = 0;  ///< their number
  std::vector<std::string> files;
  std::vector<CoverageFunction> functions;
  std::vector<CoverageBlock> blocks;
  std::vector<CoverageBranch> branches;

  std::uint32_t file_index(const std::string& path);
  [[nodiscard]] std::string json(const std::string& module) const;
};

}  // namespace cucpu
