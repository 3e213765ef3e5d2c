// cpu/engine/settings.hpp: the engine's environment variables, read when a module is loaded.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cpu/engine/check/kinds.hpp"

namespace cucpu {

struct Settings {
  unsigned width = 0;   ///< CUCORE_CPU_W: 1, 4, 8, 16 or 32 lanes; 0: chosen per kernel
  bool report = false;  ///< CUCORE_CPU_REPORT=1: a line per compiled kernel on standard error
  /// CUCORE_CPU_STRICT=1: vector code that LLVM's verifier refuses is an error, and scratch memory
  /// holds nonsense when a block begins.
  bool strict = false;
  /// CUCORE_CPU_QUICK: which kernels begin with code that is quick to make; better code follows in
  /// the background. `large`, unless code of a certain kind is asked for (CUCORE_CPU_W,
  /// CUCORE_CPU_STRICT, CUCORE_CPU_DUMP).
  enum class Quick { never, large, always };
  Quick quick = Quick::large;
  /// CUCORE_CPU_NAN: whose NaNs f64 instructions give. `exact`: a GPU's, also where the choice is
  /// between two, or an atomic operation does not know which memory it is in.
  enum class Nans { host, gpu, exact };
  Nans nans = Nans::gpu;
  bool dump_ptx = false, dump_thread = false, dump_block = false,
       dump_assembly = false;               ///< CUCORE_CPU_DUMP=ptx,thread,block,asm
  std::string dump_folder = "cucore_dump";  ///< CUCORE_CPU_DUMP_DIR
  bool cache = true;         ///< CUCORE_CPU_CACHE=0: nothing is read from or written to disk
  std::string cache_folder;  ///< CUCORE_CACHE_DIR, else the user's cache folder; empty: none
  std::uint64_t cache_limit = 512ULL << 20;  ///< CUCORE_CACHE_SIZE, in MiB
  double time_limit = 0;                     ///< CUCORE_CPU_TIMEOUT, seconds per grid; 0: none

  /// CUCORE_CHECK, CUCORE_CHECK_SUPPRESS
  std::shared_ptr<const check::Options> check = std::make_shared<check::Options>();

  /// Throws LoadError (1) that names the variable, its value and what was expected.
  static Settings from_environment();
};

}  // namespace cucpu
