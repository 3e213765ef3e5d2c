// cpu/ptx/parser.hpp: PTX text to a syntax tree with all names resolved and all instructions found
// in the table.
#pragma once

#include <memory>
#include <string>

#include "cpu/ptx/ast.hpp"

namespace cucpu::ptx {

inline constexpr std::uint32_t kNewestVersion = 95;  ///< .version 9.5, what nvJitLink 13.5 writes

struct Parsed {
  std::unique_ptr<Module> module;  ///< null when there are errors
  int code = 0;  ///< 0; 218: the text is no valid PTX; 222: its .version is too new
};

/// Never throws for what the text says and never recurses deeply; every error is in `diagnostics`.
[[nodiscard]] Parsed parse(std::string text, Diagnostics& diagnostics);

}  // namespace cucpu::ptx
