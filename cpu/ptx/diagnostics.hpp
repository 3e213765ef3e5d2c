// cpu/ptx/diagnostics.hpp: what is wrong with a PTX text, collected as file:line:column messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cucpu::ptx {

/// A place in the text; lines and columns count from 1. Line 0: no place.
struct Location {
  std::uint32_t line = 0, column = 0;
};

/// The parts, one after the other.
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

/// Collects errors; parsing goes on after one. Keeps the first `limit` of them: the rest are
/// usually echoes.
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
