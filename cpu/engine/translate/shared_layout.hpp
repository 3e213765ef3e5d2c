// cpu/engine/translate/shared_layout.hpp: where the .shared variables of device functions lie. A
// device function is compiled once, so each of them has one offset in all kernels that reach it;
// variables that no kernel needs at the same time may share theirs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cpu/ptx/ast.hpp"

namespace cucpu::ir {

/// Of all modules that are linked together; functions and variables are named by module and index.
class SharedLayout {
 public:
  explicit SharedLayout(std::span<const ptx::Module* const> modules);

  /// What the variables take that functions called by this kernel name: its own lie behind them.
  [[nodiscard]] std::uint64_t bytes(std::size_t module, std::size_t kernel) const {
    return kernels_[module][kernel].bytes;
  }
  /// Does a function that this kernel calls, directly or not, name the variable?
  [[nodiscard]] bool reaches(std::size_t module, std::size_t kernel, std::size_t variable) const;
  /// Of a variable that a device function names.
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
