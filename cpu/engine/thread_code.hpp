// cpu/engine/thread_code.hpp: a module's thread code, and objects made of it, which the cache on
// disk keeps.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cpu/engine/compile.hpp"
#include "cpu/engine/jit/disk_cache.hpp"
#include "cpu/engine/settings.hpp"

namespace cucpu {

/// Shared with what is made in the background, for which a module does not wait when it goes.
class ThreadCode {
 public:
  /// `source`: what the thread code comes from.
  ThreadCode(Settings, int optimization, std::string_view source);

  /// From the disk cache or the compiler. nullopt: cannot be vectorized. Throws LoadError.
  [[nodiscard]] std::optional<ObjectCode> object(const CompileJob&) const;
  /// The functions that are called through pointers and those `wanted`, likewise.
  [[nodiscard]] FunctionsObject pointed_at(const std::vector<std::string>& wanted) const;

  const Settings settings;
  const int optimization;
  const std::string digest;  ///< of the source
  std::string bitcode;       ///< set once, before it is shared

 private:
  mutable DiskCache cache_;
};

}  // namespace cucpu
