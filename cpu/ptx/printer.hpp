// cpu/ptx/printer.hpp: a syntax tree as PTX text again. Parsing the text gives the same tree (debug
// sections and comments are gone).
#pragma once

#include <string>

#include "cpu/ptx/ast.hpp"

namespace cucpu::ptx {

[[nodiscard]] std::string print(const Module& module);
[[nodiscard]] std::string print(const Module& module, const Function& function,
                                const Instruction& instruction);

}  // namespace cucpu::ptx
