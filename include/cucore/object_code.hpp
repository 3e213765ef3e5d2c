// SPDX-License-Identifier: Apache-2.0
// cucore/object_code.hpp: compiled device code, in memory or in a file, loaded when a kernel is
// asked for.
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

enum class CodeType { ptx, cubin, ltoir, fatbin, object, library };  ///< What compiled code is.

/// "ptx", "cubin", ... and back. Throws std::invalid_argument that lists the names.
[[nodiscard]] CUCORE_EXPORT const char* code_type_name(CodeType type) noexcept;
/// "ptx", "cubin" and so on, whatever the case. Throws std::invalid_argument.
[[nodiscard]] CUCORE_EXPORT CodeType code_type_of(std::string_view name);

/// The CUDA version, as cuDriverGetVersion() counts (12040 for 12.4), whose drivers read this PTX;
/// nothing where the text has no .version, or one that is not known.
[[nodiscard]] CUCORE_EXPORT std::optional<int> cuda_version_of_ptx(std::string_view ptx);

/// Names a program uses for its symbols, each with the symbol's name in the code (mangled for C++).
using SymbolMapping = std::map<std::string, std::string, std::less<>>;

/// Compiled code. Making one neither reads its file nor touches the driver. Copies are cheap and
/// share one state; the code is loaded into the driver once, on first use, and unloaded
/// when the last ObjectCode and Kernel of it are gone. Safe to use from several threads.
class CUCORE_EXPORT ObjectCode {
 public:
  /// Code in memory. PTX is text; everything else bytes.
  ObjectCode(CodeType type, std::string code, std::string name = {},
             SymbolMapping symbol_mapping = {});
  /// Code in a file, read when it is needed.
  ObjectCode(CodeType type, const std::filesystem::path& file, std::string name = {},
             SymbolMapping symbol_mapping = {});

  /// ObjectCode{CodeType::ptx, ...}, as Python spells it.
  static ObjectCode from_ptx(std::string code, std::string name = {},
                             SymbolMapping symbol_mapping = {});
  /// ObjectCode{CodeType::cubin, ...}
  static ObjectCode from_cubin(std::string code, std::string name = {},
                               SymbolMapping symbol_mapping = {});
  /// ObjectCode{CodeType::ltoir, ...}
  static ObjectCode from_ltoir(std::string code, std::string name = {},
                               SymbolMapping symbol_mapping = {});
  /// ObjectCode{CodeType::fatbin, ...}
  static ObjectCode from_fatbin(std::string code, std::string name = {},
                                SymbolMapping symbol_mapping = {});
  /// ObjectCode{CodeType::object, ...}
  static ObjectCode from_object(std::string code, std::string name = {},
                                SymbolMapping symbol_mapping = {});
  /// ObjectCode{CodeType::library, ...}
  static ObjectCode from_library(std::string code, std::string name = {},
                                 SymbolMapping symbol_mapping = {});

  /// The code a kernel came from; nothing for a handle made elsewhere.
  static std::optional<ObjectCode> of(const Kernel& kernel);

  [[nodiscard]] CodeType code_type() const noexcept;                   ///< what it is
  [[nodiscard]] const std::string& name() const noexcept;              ///< how it was named
  [[nodiscard]] const SymbolMapping& symbol_mapping() const noexcept;  ///< of its names
  /// The file this code comes from, where it does.
  [[nodiscard]] const std::optional<std::filesystem::path>& file() const noexcept;
  /// The code itself; reads the file at first. Throws std::system_error when the file cannot be
  /// read.
  [[nodiscard]] const std::string& code() const;

  /// The kernel of this name, as in the source where the symbol mapping knows it, else as in the
  /// code. Loads the code. Throws CUDAError; a name that is not there lists those that are.
  [[nodiscard]] Kernel get_kernel(std::string_view name) const;
  /// The kernel with this symbol in the code, which is neither loaded nor searched before the
  /// kernel is first used: whatever uses it then throws as get_kernel does.
  [[nodiscard]] Kernel get_kernel_lazily(std::string symbol) const;
  /// All kernels of the code, by their names in it. Loads the code.
  [[nodiscard]] std::vector<std::string> kernel_names() const;
  /// The loaded library and its module in the current context. They live as long as this object.
  [[nodiscard]] CUlibrary handle() const;
  /// The same for a program that unloads the library itself: this object then does not.
  [[nodiscard]] CUlibrary lend_handle() const;
  [[nodiscard]] CUmodule get_module() const;      ///< in the current context
  [[nodiscard]] bool is_loaded() const noexcept;  ///< the driver has it

  /// The same object, not equal bytes.
  friend bool operator==(const ObjectCode& a, const ObjectCode& b) noexcept {
    return a.state_ == b.state_;
  }
  /// Equal for copies of one another.
  [[nodiscard]] const void* identity() const noexcept { return state_.get(); }
  /// Keeps the loaded code in the driver for as long as it is held.
  [[nodiscard]] std::shared_ptr<detail::Library> library() const;
  /// A slot for a binding to another language, for what it keeps per object code; let go with the
  /// last copy. The first to attach wins. Null when nothing is attached.
  [[nodiscard]] void* attachment() const noexcept;
  void attach(std::shared_ptr<void> attachment) const;  ///< fills the slot, if it is empty
  /// For the library itself: the code before it is loaded.
  [[nodiscard]] std::shared_ptr<const detail::CodeImage> image() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace cucore
