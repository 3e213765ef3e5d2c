// SPDX-License-Identifier: Apache-2.0
// cpu/engine/thread_code.hpp: the thread code of a module, and objects compiled from it, which the
// disk cache keeps.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cpu/engine/compile.hpp"
#include "cpu/engine/jit/disk_cache.hpp"
#include "cpu/engine/settings.hpp"

namespace cucpu {

/// Shared with background compilation, so that a module can be unloaded without waiting for it.
class ThreadCode {
 public:
  /// `source`: the PTX that the thread code was translated from.
  /// `debug`: debug mode, in which nothing is optimized.
  ThreadCode(Settings, int optimization, bool debug, std::string_view source);

  /// The object for a job, from the disk cache or the compiler; nullopt if the kernel cannot be
  /// vectorized. Throws LoadError.
  [[nodiscard]] std::optional<ObjectCode> object(const CompileJob&) const;
  /// The address-taken functions and those that `wanted` names, likewise.
  [[nodiscard]] FunctionsObject address_taken_functions(
      const std::vector<std::string>& wanted) const;

  const Settings settings;
  const int optimization;
  const bool debug;
  const std::string digest;  ///< of the source
  std::string bitcode;       ///< set once, before this object is shared

 private:
  mutable DiskCache cache_;
};

}  // namespace cucpu
