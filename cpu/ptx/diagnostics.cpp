// SPDX-License-Identifier: Apache-2.0
// cpu/ptx/diagnostics.cpp: formatting of collected errors.
#include "cpu/ptx/diagnostics.hpp"

namespace cucpu::ptx {

void Diagnostics::error(Location where, std::string text) {
  ++count_;
  if (list_.size() < limit_) list_.push_back({where, std::move(text)});
}

std::string Diagnostics::log() const {
  std::string out;
  for (const Diagnostic& d : list_) {
    out += file_;
    if (d.where.line != 0) {
      out += ':' + std::to_string(d.where.line) + ':' + std::to_string(d.where.column);
    }
    out += ": error: " + d.text + '\n';
  }
  if (count_ > list_.size()) {
    out += file_ + ": error: " + std::to_string(count_ - list_.size()) + " more errors\n";
  }
  return out;
}

}  // namespace cucpu::ptx
