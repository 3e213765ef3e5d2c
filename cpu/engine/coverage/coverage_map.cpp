// SPDX-License-Identifier: Apache-2.0
// cpu/engine/coverage/coverage_map.cpp: the map as JSON. python/cucore/kernel_coverage.py reads it.
#include "cpu/engine/coverage/coverage_map.hpp"

#include <llvm/Support/JSON.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>

namespace cucpu {

using llvm::json::OStream;

std::uint32_t CoverageMap::file_index(const std::string& path) {
  const auto at = std::find(files.begin(), files.end(), path);
  const auto index = static_cast<std::uint32_t>(at - files.begin());
  if (at == files.end()) files.push_back(path);
  return index;
}

std::string CoverageMap::json(const std::string& module) const {
  std::string text;
  llvm::raw_string_ostream out{text};
  OStream json{out};
  const auto numbers = [&](std::uint32_t first, std::uint32_t second) {
    json.array([&] {
      json.value(first);
      json.value(second);
    });
  };
  const auto line = [&](const CoverageLine& at) { numbers(at.file, at.line); };
  json.object([&] {
    json.attribute("format", 1);
    json.attribute("module", llvm::json::fixUTF8(module));
    json.attribute("counters", counters);
    json.attributeArray("files", [&] {
      for (const std::string& file : files) json.value(llvm::json::fixUTF8(file));
    });
    json.attributeArray("functions", [&] {
      for (const CoverageFunction& function : functions) {
        json.array([&] {
          json.value(llvm::json::fixUTF8(function.name));
          json.value(function.kernel);
          line(function.at);
          json.value(function.counter);
        });
      }
    });
    json.attributeArray("blocks", [&] {
      for (const CoverageBlock& block : blocks) {
        json.array([&] {
          json.value(block.counter);
          json.array([&] { std::ranges::for_each(block.lines, line); });
        });
      }
    });
    json.attributeArray("branches", [&] {
      for (const CoverageBranch& branch : branches) {
        json.array([&] {
          json.value(branch.counter);
          json.value(branch.function);
          line(branch.at);
          json.value(branch.column);
          numbers(branch.true_line, branch.false_line);
        });
      }
    });
  });
  out << "\n";
  return text;
}

}  // namespace cucpu
