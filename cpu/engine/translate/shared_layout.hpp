// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/shared_layout.hpp: offsets of the .shared variables that device functions
// use. A device function is compiled once, so a variable has the same offset in all kernels that
// reach it; variables that no kernel needs together may overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cpu/ptx/ast.hpp"

namespace cucpu::ir {

/// For all linked modules. Functions and variables are identified by module and index.
class SharedLayout {
 public:
  explicit SharedLayout(std::span<const ptx::Module* const> modules);

  /// The bytes of variables that functions called by this kernel use. The kernel's own come after
  /// them.
  [[nodiscard]] std::uint64_t bytes(std::size_t module, std::size_t kernel) const {
    return kernels_[module][kernel].bytes;
  }
  /// Whether a function that this kernel calls, directly or not, uses the variable.
  [[nodiscard]] bool reaches(std::size_t module, std::size_t kernel, std::size_t variable) const;
  /// The offset of a variable that a device function uses.
  [[nodiscard]] std::uint64_t offset(std::size_t module, std::size_t variable) const {
    return offsets_[first_variable_[module] + variable];
  }

 private:
  struct Kernel {
    std::uint64_t bytes = 0;
    std::vector<std::size_t> variables;  ///< sorted; numbered over all modules
  };
  struct Functions;
  void place(std::span<const ptx::Module* const> modules);

  std::vector<std::size_t> first_variable_;   ///< by module: the number of its first variable
  std::vector<std::size_t> same_;             ///< by variable: the one that defines it
  std::vector<std::uint64_t> offsets_;        ///< by variable
  std::vector<std::vector<Kernel>> kernels_;  ///< by module, by function
};

}  // namespace cucpu::ir
