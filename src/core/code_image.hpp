// SPDX-License-Identifier: Apache-2.0
// code_image.hpp: device code before it is loaded.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/param_kinds.hpp"
#include "cucore/object_code.hpp"
#include "driver/mutex.hpp"

namespace cucore::detail {

/// Magic number at the start of a fat binary.
inline constexpr std::string_view kFatbinMagic{"\x50\xed\x55\xba", 4};

/// Device code before it is loaded. Immutable, except that the bytes of a file are read lazily,
/// once.
struct CodeImage {
  CodeType type{};
  std::string name;
  SymbolMapping symbol_mapping;
  std::optional<std::filesystem::path> file;

  const std::string& code() const;  ///< Returns the code; the first call reads the file.
  std::string description() const;  ///< Returns, for example, "cubin code 'name'", for messages.
  /// Returns the declared parameters of a kernel, or null if they are unknown. They come from the
  /// PTX that this code is or contains, or from remember_params().
  const std::vector<DeclaredParam>* params_of(std::string_view symbol) const;
  /// Stores the kernel parameters declared in the PTX from which this code was compiled.
  void remember_params(DeclaredParams declared) const;

  mutable cucore::detail::Mutex mutex;  // guards the fields below
  mutable bool code_read = true;
  mutable std::string bytes;
  mutable bool params_read = false;  // true if `params` is final
  mutable DeclaredParams params;
};

}  // namespace cucore::detail
