// SPDX-License-Identifier: Apache-2.0
// cpu/ptx/printer.hpp: prints a syntax tree as PTX text. Parsing that text yields the same tree.
// Debug sections and comments are not printed.
#pragma once

#include <string>

#include "cpu/ptx/ast.hpp"

namespace cucpu::ptx {

[[nodiscard]] std::string print(const Module& module);
[[nodiscard]] std::string print(const Module& module, const Function& function,
                                const Instruction& instruction);

}  // namespace cucpu::ptx
