// SPDX-License-Identifier: Apache-2.0
// cucore/object_code.hpp: compiled device code in memory or in a file, loaded on first use.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cucore/abi/driver.h"
#include "cucore/export.hpp"
#include "cucore/kernel.hpp"

namespace cucore {

enum class CodeType { ptx, cubin, ltoir, fatbin, object, library };  ///< Format of compiled code.

/// Returns the name of a code type: "ptx", "cubin", "ltoir", "fatbin", "object" or "library".
[[nodiscard]] CUCORE_EXPORT const char* code_type_name(CodeType type) noexcept;
/// Returns the code type with this name, which is case-sensitive. Throws std::invalid_argument,
/// with the list of names, for any other name.
[[nodiscard]] CUCORE_EXPORT CodeType code_type_of(std::string_view name);

/// Returns the first CUDA version that supports the PTX version of `ptx`, encoded as by
/// cuDriverGetVersion() (12040 for 12.4). Returns std::nullopt if the `.version` directive is
/// missing or unknown.
[[nodiscard]] CUCORE_EXPORT std::optional<int> cuda_version_of_ptx(std::string_view ptx);

/// Maps the names that a program uses to symbols in the code (mangled for C++).
using SymbolMapping = std::map<std::string, std::string, std::less<>>;

/// Compiled device code. Construction neither reads the file nor calls the driver. Copies are cheap
/// and share one state. The code is loaded into the driver once, on first use, and unloaded with
/// the last ObjectCode or Kernel that refers to it. Thread-safe.
class CUCORE_EXPORT ObjectCode {
 public:
  /// Creates object code from memory: text for PTX, bytes for all other types.
  ObjectCode(CodeType type, std::string code, std::string name = {},
             SymbolMapping symbol_mapping = {});
  /// Creates object code from a file, which is read on first use.
  ObjectCode(CodeType type, const std::filesystem::path& file, std::string name = {},
             SymbolMapping symbol_mapping = {});

  /// Equivalent to ObjectCode{CodeType::ptx, ...}.
  static ObjectCode from_ptx(std::string code, std::string name = {},
                             SymbolMapping symbol_mapping = {});
  /// Equivalent to ObjectCode{CodeType::cubin, ...}.
  static ObjectCode from_cubin(std::string code, std::string name = {},
                               SymbolMapping symbol_mapping = {});
  /// Equivalent to ObjectCode{CodeType::ltoir, ...}.
  static ObjectCode from_ltoir(std::string code, std::string name = {},
                               SymbolMapping symbol_mapping = {});
  /// Equivalent to ObjectCode{CodeType::fatbin, ...}.
  static ObjectCode from_fatbin(std::string code, std::string name = {},
                                SymbolMapping symbol_mapping = {});
  /// Equivalent to ObjectCode{CodeType::object, ...}.
  static ObjectCode from_object(std::string code, std::string name = {},
                                SymbolMapping symbol_mapping = {});
  /// Equivalent to ObjectCode{CodeType::library, ...}.
  static ObjectCode from_library(std::string code, std::string name = {},
                                 SymbolMapping symbol_mapping = {});

  /// Returns the code that contains a kernel, or std::nullopt for a kernel from a foreign handle.
  static std::optional<ObjectCode> of(const Kernel& kernel);

  [[nodiscard]] CodeType code_type() const noexcept;  ///< Returns the format of the code.
  /// Returns the name given at construction, which messages use.
  [[nodiscard]] const std::string& name() const noexcept;
  /// Returns the mapping from names to symbols.
  [[nodiscard]] const SymbolMapping& symbol_mapping() const noexcept;
  /// Returns the file that contains the code, or std::nullopt for code from memory.
  [[nodiscard]] const std::optional<std::filesystem::path>& file() const noexcept;
  /// Returns the code. The first call reads the file; throws std::system_error if that fails.
  [[nodiscard]] const std::string& code() const;

  /// Returns the kernel `name`, which is a name of the symbol mapping or a symbol in the code.
  /// Loads the code. Throws CUDAError; for an unknown name, the message lists the kernels. Throws
  /// std::runtime_error if the code must be linked first.
  [[nodiscard]] Kernel get_kernel(std::string_view name) const;
  /// Returns the kernel with this symbol without loading the code. The first use of the kernel
  /// loads the code, looks the symbol up, and throws as get_kernel() does.
  [[nodiscard]] Kernel get_kernel_lazily(std::string symbol) const;
  /// Returns the symbols of all kernels in the code. Loads the code.
  [[nodiscard]] std::vector<std::string> kernel_names() const;
  /// Returns the library handle, which is valid for the lifetime of this object. Loads the code.
  [[nodiscard]] CUlibrary handle() const;
  /// Returns the library handle to a caller that unloads the library itself: this object does not
  /// unload it any more. Loads the code.
  [[nodiscard]] CUlibrary lend_handle() const;
  /// Returns the library's module in the current context, which is valid for the lifetime of this
  /// object. Loads the code.
  [[nodiscard]] CUmodule get_module() const;
  /// Returns whether the code is loaded into the driver.
  [[nodiscard]] bool is_loaded() const noexcept;

  /// Returns whether both are copies of one object. Does not compare the code.
  friend bool operator==(const ObjectCode& a, const ObjectCode& b) noexcept {
    return a.state_ == b.state_;
  }
  /// Returns an identifier that copies of one object share.
  [[nodiscard]] const void* identity() const noexcept { return state_.get(); }
  /// Returns an owner of the loaded library, which keeps the code loaded. Loads the code.
  [[nodiscard]] std::shared_ptr<detail::Library> library() const;
  /// Returns the object that a language binding attached, or null. It is released with the last
  /// copy.
  [[nodiscard]] void* attachment() const noexcept;
  /// Attaches an object. No-op if one is attached already.
  void attach(std::shared_ptr<void> attachment) const;
  /// Returns the code before it is loaded. For internal use.
  [[nodiscard]] std::shared_ptr<const detail::CodeImage> image() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace cucore
