// SPDX-License-Identifier: Apache-2.0
// cpu/ptx/diagnostics.hpp: errors of a PTX text, collected as file:line:column messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cucpu::ptx {

/// A position in the text; lines and columns start at 1. Line 0: unknown position.
struct Location {
  std::uint32_t line = 0, column = 0;
};

/// Concatenates the parts.
template <typename... Parts>
[[nodiscard]] std::string cat(const Parts&... parts) {
  std::string out;
  (out.append(std::string_view{parts}), ...);
  return out;
}

struct Diagnostic {
  Location where;
  std::string text;
};

/// Collects errors so that parsing continues after the first one. Keeps the first `limit` errors:
/// later ones are usually consequences.
class Diagnostics {
 public:
  explicit Diagnostics(std::string file = "ptx", std::size_t limit = 50)
      : file_{std::move(file)}, limit_{limit} {}

  void error(Location where, std::string text);

  [[nodiscard]] bool failed() const { return count_ != 0; }
  [[nodiscard]] bool full() const { return count_ >= limit_; }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] const std::vector<Diagnostic>& list() const { return list_; }
  [[nodiscard]] const std::string& file() const { return file_; }
  [[nodiscard]] std::string log() const;  ///< one `file:line:column: error: text` per line

 private:
  std::string file_;
  std::size_t limit_, count_ = 0;
  std::vector<Diagnostic> list_;
};

}  // namespace cucpu::ptx
