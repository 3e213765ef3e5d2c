// SPDX-License-Identifier: Apache-2.0
// cpu/engine/settings.hpp: the engine's environment variables, read when a module is loaded.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cpu/engine/check/kinds.hpp"
#include "cpu/engine/schedule/options.hpp"

namespace cucpu {

struct Settings {
  unsigned width = 0;   ///< CUCORE_CPU_W: 1, 4, 8, 16 or 32 lanes; 0: chosen per kernel
  bool report = false;  ///< CUCORE_CPU_REPORT=1: a line per compiled kernel on standard error
  bool times = false;   ///< CUCORE_CPU_TIMES=1: a line per pass of every compiled kernel
  /// CUCORE_CPU_STRICT=1: LLVM's verifier runs after every pass of this project, what it rejects is
  /// an error, and scratch memory holds a bit pattern when a block starts.
  bool strict = false;
  /// CUCORE_CPU_TIER=auto|baseline|optimized, or CUCORE_CPU_QUICK=1|always|0: the tier in which
  /// kernels start. Optimized code replaces baseline code after a while. `automatic`: kernels that
  /// are expensive to optimize start in the baseline tier. CUCORE_CPU_W, CUCORE_CPU_STRICT and
  /// CUCORE_CPU_DUMP of later forms change the default to `optimized`.
  enum class Tier { automatic, baseline, optimized };
  Tier tier = Tier::automatic;
  /// CUCORE_CPU_NAN: the NaN bits of f64 instructions. `exact`: those of a GPU also where two
  /// operands are NaNs, and in atomic operations on generic addresses.
  enum class Nans { host, gpu, exact };
  Nans nans = Nans::gpu;
  bool dump_ptx = false, dump_thread = false, dump_block = false,
       dump_assembly = false;               ///< CUCORE_CPU_DUMP=ptx,thread,block,asm
  std::vector<std::string> dump_after;      ///< CUCORE_CPU_DUMP=after:NAME: names of passes
  std::string dump_folder = "cucore_dump";  ///< CUCORE_CPU_DUMP_DIR
  bool cache = true;         ///< CUCORE_CPU_CACHE=0: nothing is read from or written to disk
  std::string cache_folder;  ///< CUCORE_CACHE_DIR, else the user's cache folder; empty: none
  std::uint64_t cache_limit = 512ULL << 20;  ///< CUCORE_CACHE_SIZE, in MiB
  double time_limit = 0;                     ///< CUCORE_CPU_TIMEOUT, seconds per grid; 0: none
  /// CUCORE_DEBUG: which modules are compiled for debuggers. `automatic`: those whose PTX has
  /// `.target ..., debug`, as compilers write it with -G.
  enum class Debug { off, automatic, on };
  Debug debug = Debug::automatic;

  /// CUCORE_COVERAGE: the folder for the counts of kernel coverage; empty: kernels do not count.
  std::string coverage_folder;

  /// CUCORE_CHECK, CUCORE_CHECK_SUPPRESS: those of the process
  std::shared_ptr<const check::Options> check = std::make_shared<check::Options>();

  /// CUCORE_CPU_SCHEDULE. Whether it is set decides how code is compiled; its value is read again
  /// at every launch.
  std::optional<schedule::Options> schedule;

  /// Throws LoadError (1) that names the variable, its value and what was expected.
  static Settings from_environment();
};

}  // namespace cucpu
