// SPDX-License-Identifier: Apache-2.0
// compile_cache.hpp: what NVRTC made of C++ programs, kept on disk for this user's processes.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/param_kinds.hpp"
#include "cucore/program.hpp"

namespace cucore::detail {

/// All that a compilation gives its caller.
struct CompiledProgram {
  std::string code;
  SymbolMapping symbols;  ///< of name expressions
  std::string log;        ///< what the compiler said
  DeclaredParams params;  ///< of the kernels of a cubin for a GPU
  friend bool operator==(const CompiledProgram&, const CompiledProgram&) = default;
};

/// For entries of the cache; nothing for bytes that pack() did not write.
CUCORE_EXPORT std::string pack(const CompiledProgram& program);
CUCORE_EXPORT std::optional<CompiledProgram> unpack(std::string_view bytes);

/// Throws std::invalid_argument for a value of CUCORE_COMPILE_CACHE that cannot be read.
void check_compile_cache_setting();

/// One compilation and its entry in the cache. The key consists of the source, the command line,
/// the name expressions, the kind of device, the files of the compiler and of this library, and the
/// content of every file that the compiler may read. Never throws: without the cache a program is
/// compiled.
class CompileCacheEntry {
 public:
  /// `compiler` is the path of NVRTC, which need not be loaded; `flags` is its command line.
  CompileCacheEntry(std::string_view code, const ProgramOptions& options, CodeType target,
                    std::span<const std::string> name_expressions,
                    const std::vector<std::string>& flags, const std::string& compiler) noexcept;

  /// The result of an earlier compilation. Nothing on a miss, and where this one cannot be cached.
  [[nodiscard]] std::optional<CompiledProgram> find() noexcept;
  /// After a miss: keeps the result, unless a file that it depends on has changed since find().
  void keep(const CompiledProgram& program) noexcept;

 private:
  std::string_view code_;
  const ProgramOptions& options_;
  std::vector<std::string> folders_;  // with headers
  bool cacheable_ = false;
  bool has_includes_ = false;
  std::string key_;                  // of all but included files
  std::vector<std::string> places_;  // of included files
  std::string entry_key_;            // key_ and the content of those files
};

}  // namespace cucore::detail
