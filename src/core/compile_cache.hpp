// SPDX-License-Identifier: Apache-2.0
// compile_cache.hpp: the on-disk cache of NVRTC's results, shared by the processes of a user.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/param_kinds.hpp"
#include "cucore/program.hpp"

namespace cucore::detail {

/// The outputs of a compilation.
struct CompiledProgram {
  std::string code;
  SymbolMapping symbols;  ///< mangled names of the name expressions
  std::string log;        ///< the compiler's log
  DeclaredParams params;  ///< kernel parameters, for a cubin for a GPU
  friend bool operator==(const CompiledProgram&, const CompiledProgram&) = default;
};

/// Serializes a cache entry. unpack() returns std::nullopt for bytes that pack() did not write.
CUCORE_EXPORT std::string pack(const CompiledProgram& program);
CUCORE_EXPORT std::optional<CompiledProgram> unpack(std::string_view bytes);

/// Throws std::invalid_argument if the value of CUCORE_COMPILE_CACHE is malformed.
void check_compile_cache_setting();

/// One compilation and its cache entry. The cache key consists of the source, the command line, the
/// name expressions, the kind of device, the identity of the compiler's and this library's files,
/// and the contents of every file that the compiler may read. Never throws: if the cache is
/// unavailable, the program is compiled.
class CompileCacheEntry {
 public:
  /// `compiler` is the path of NVRTC, which need not be loaded; `flags` is NVRTC's command line.
  CompileCacheEntry(std::string_view code, const ProgramOptions& options, CodeType target,
                    std::span<const std::string> name_expressions,
                    const std::vector<std::string>& flags, const std::string& compiler) noexcept;

  /// Returns the result of an earlier compilation, or std::nullopt on a cache miss or if this
  /// compilation cannot be cached.
  [[nodiscard]] std::optional<CompiledProgram> find() noexcept;
  /// Stores the result after a miss, unless a file that it depends on has changed since find().
  void keep(const CompiledProgram& program) noexcept;

 private:
  std::string_view code_;
  const ProgramOptions& options_;
  std::vector<std::string> folders_;  // include folders
  bool cacheable_ = false;
  bool has_includes_ = false;
  std::string key_;                  // cache key without included files
  std::vector<std::string> places_;  // candidate paths of included files
  std::string entry_key_;            // key_ combined with the contents of those files
};

}  // namespace cucore::detail
