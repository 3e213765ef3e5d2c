// SPDX-License-Identifier: Apache-2.0
// cpu/engine/check/kinds.hpp: the kinds of checks, the properties of accesses, and suppressions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cucpu {
namespace check {

enum Kind : unsigned { kMemory = 1, kRace = 2, kInit = 4, kSync = 8 };

/// Properties of an access that instrumented code reports.
enum AccessFlag : unsigned {
  kWrite = 1,  ///< atomics are both reads and writes
  kRead = 2,
  kStrong = 4,  ///< atomic or volatile
  kRelease = 8,
  kAcquire = 16,
  kSharedSpace = 32,
  kLocalSpace = 64,
  kGlobalSpace = 128,
  kHasValue = 256,
  kReadOnly = 512,  ///< the kernel writes nothing through the parameter of the address
  kImage = 1024,    ///< by a texture or surface: a routine has checked the address
  kFetch = 2048,    ///< by a texture: it need not see what the same grid has written
};

/// The offsets of up to four kernel parameters, plus one, 16 bits each.
namespace written_parameters {
inline constexpr unsigned kMost = 4, kBits = 16;
inline constexpr std::uint64_t kMask = 0xffff;
}  // namespace written_parameters

const char* name_of(Kind);

/// CUCORE_CHECK_SUPPRESS: findings that are not reported: `kind:pattern`, where the pattern (with *
/// and ?) matches the kernel's name, "file:line", or the file alone.
struct Suppression {
  unsigned kinds;
  std::string pattern;
};

struct Options {
  unsigned kinds = 0;
  bool continues =
      false;           ///< "continue": findings are printed to standard error, and kernels continue
  bool leaks = false;  ///< "leak": memory that is allocated at the end of the process is printed
  std::vector<Suppression> suppressions;

  /// Throws LoadError (1) that names the variable.
  static Options from_environment();
  /// Reads the environment for the whole process, once: what copies, fills and frees record must
  /// match what kernels check. For the driver layer. Throws as from_environment().
  static void fix_for_process();
  /// Those that fix_for_process() read; without a driver layer, those of the environment now.
  static std::shared_ptr<const Options> of_process();
  [[nodiscard]] bool suppressed(Kind, std::string_view kernel, std::string_view line) const;
};

/// The kinds of Options::of_process(), which the first call fixes; 0 if the environment is invalid.
/// For the driver layer.
unsigned kinds_in_environment() noexcept;

}  // namespace check
}  // namespace cucpu
