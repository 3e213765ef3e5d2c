// cpu/engine/check/kinds.hpp: what check mode looks for, what accesses say of themselves, and what
// is not to be told.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cucpu {
namespace check {

enum Kind : unsigned { kMemory = 1, kRace = 2, kInit = 4, kSync = 8 };

/// How instrumented code describes an access.
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
};

const char* name_of(Kind);

/// CUCORE_CHECK_SUPPRESS: findings not to be told: `kind:pattern`, where the pattern (with * and ?)
/// matches the kernel's name, "file:line", or the file alone.
struct Suppression {
  unsigned kinds;
  std::string pattern;
};

struct Options {
  unsigned kinds = 0;
  bool go_on = false;  ///< "continue": findings go to standard error, and kernels go on
  std::vector<Suppression> suppressions;

  /// Throws LoadError (1) that names the variable.
  static Options from_environment();
  [[nodiscard]] bool suppressed(Kind, std::string_view kernel, std::string_view line) const;
};

/// The kinds CUCORE_CHECK named when first asked, 0 when it cannot be read; for the driver layer.
unsigned kinds_in_environment() noexcept;

}  // namespace check
}  // namespace cucpu
