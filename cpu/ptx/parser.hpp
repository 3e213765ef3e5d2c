// SPDX-License-Identifier: Apache-2.0
// cpu/ptx/parser.hpp: parses PTX text to a syntax tree with resolved names and checked
// instructions.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "cpu/ptx/ast.hpp"

namespace cucpu::ptx {

inline constexpr std::uint32_t kNewestVersion = 95;  ///< .version 9.5, emitted by nvJitLink 13.5

struct Parsed {
  std::unique_ptr<Module> module;  ///< null if there are errors
  int code = 0;  ///< 0; 218: the text is not valid PTX; 222: its .version is too new
};

/// Reports every error of the text in `diagnostics`. Never throws because of the text, and limits
/// its recursion depth. `device`: the compute capability of the device, times ten; code for other
/// targets is an error.
[[nodiscard]] Parsed parse(std::string text, Diagnostics& diagnostics, std::uint32_t device = 90);

/// The same for the first of several devices that the text can be loaded on; the errors are those
/// of the first device where there is none.
[[nodiscard]] Parsed parse_for_any(const std::string& text, Diagnostics& diagnostics,
                                   std::span<const std::uint32_t> devices);

}  // namespace cucpu::ptx
