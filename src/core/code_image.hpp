// SPDX-License-Identifier: Apache-2.0
// code_image.hpp: code before it is loaded into the driver.
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

/// The first bytes of a fat binary.
inline constexpr std::string_view kFatbinMagic{"\x50\xed\x55\xba", 4};

/// Code before it is loaded. Immutable but for the bytes of a file, which are read once.
struct CodeImage {
  CodeType type{};
  std::string name;
  SymbolMapping symbol_mapping;
  std::optional<std::filesystem::path> file;

  const std::string& code() const;  ///< reads the file at first
  std::string description() const;  ///< "cubin code 'name'", for messages
  /// The parameters of a kernel as PTX declares them: the PTX that this code is or carries, or what
  /// remember_params() was given. Null where there is none.
  const std::vector<DeclaredParam>* params_of(std::string_view symbol) const;
  /// Keeps the parameters of the kernels, as the PTX declares them from which this code was
  /// compiled.
  void remember_params(DeclaredParams declared) const;

  mutable cucore::detail::Mutex mutex;  // guards what follows
  mutable bool code_read = true;
  mutable std::string bytes;
  mutable bool params_read = false;  // true: `params` is final
  mutable DeclaredParams params;
};

}  // namespace cucore::detail
