// SPDX-License-Identifier: Apache-2.0
// include_scan.cpp: a scan of C++ source for #include and __has_include.
#include "core/include_scan.hpp"

#include <algorithm>
#include <cstddef>

namespace cucore::detail {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/// Lines that end in a backslash joined with the next one, as the compiler does first of all.
std::string joined_lines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (std::size_t at = 0; at < source.size(); ++at) {
    if (source[at] == '\\') {
      std::size_t next = at + 1;
      if (next < source.size() && source[next] == '\r') ++next;
      if (next < source.size() && source[next] == '\n') {
        at = next;
        continue;
      }
    }
    text += source[at];
  }
  return text;
}

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_{text} {}

  std::vector<FileUse> run() {
    bool at_start = true;  // of a line: nothing but blanks and comments before
    while (!is_end()) {
      if (peek() == '\n') {
        at_start = true;
        ++at_;
      } else if (!skip_blank()) {
        if (at_start && skip_any({"#", "%:", "\?\?="}))
          directive();
        else
          token();
        at_start = false;
      }
    }
    return std::move(found_);
  }

 private:
  [[nodiscard]] bool is_end() const { return at_ >= text_.size(); }
  [[nodiscard]] char peek() const { return is_end() ? '\0' : text_[at_]; }
  bool skip(std::string_view what) {
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }
  bool skip_any(std::initializer_list<std::string_view> list) {
    return std::ranges::any_of(list, [this](std::string_view what) { return skip(what); });
  }
  void go_to(std::size_t place) { at_ = std::min(place, text_.size()); }

  /// One blank or comment.
  bool skip_blank() {
    if (skip("//")) {
      go_to(text_.find('\n', at_));
      return true;
    }
    if (skip("/*")) {
      const std::size_t end = text_.find("*/", at_);
      go_to(end == text_.npos ? end : end + 2);
      return true;
    }
    return skip_any({" ", "\t", "\r", "\v", "\f"});
  }
  void skip_blanks() {
    while (!is_end() && skip_blank()) {
    }
  }

  std::string_view word() {
    const std::size_t from = at_;
    while (is_word(peek())) ++at_;
    return text_.substr(from, at_ - from);
  }

  void directive() {
    skip_blanks();
    const std::string_view name = word();
    if (name != "include" && name != "include_next" && name != "import" && name != "embed") return;
    skip_blanks();
    file_use("#" + std::string{name} + " ");
  }

  /// What follows `said`: a file in quotes or angle brackets, or a macro.
  void file_use(const std::string& said) {
    const std::size_t line = std::min(text_.find('\n', at_), text_.size());
    const char open = peek();
    if (open == '<' || open == '"') {
      const char close = open == '<' ? '>' : open;
      const std::size_t end = text_.find(close, at_ + 1);
      if (end < line) {
        std::string file{text_.substr(at_ + 1, end - at_ - 1)};
        std::string text = said + open + file + close;
        found_.push_back({std::move(text), std::move(file), open == '<'});
        go_to(end + 1);
        return;
      }
      if (open == '<') return go_to(line);
    }
    const std::string_view macro = word();
    if (!macro.empty()) found_.push_back({said + std::string{macro}, {}});
  }

  /// A word or number, a literal, or a character.
  void token() {
    const char first = peek();
    if (first == '"' || first == '\'') {
      literal(first);
    } else if (is_digit(first)) {  // with the separators of its digits
      while (is_word(peek()) || peek() == '.' ||
             (peek() == '\'' && at_ + 1 < text_.size() && is_word(text_[at_ + 1])))
        ++at_;
    } else if (is_word(first)) {
      const std::string_view name = word();
      if (peek() == '"' && name.ends_with('R'))
        raw_literal();
      else if (name == "__has_include" || name == "__has_include_next" || name == "__has_embed")
        has_include(name);
    } else {
      ++at_;
    }
  }

  void literal(char quote) {
    for (++at_; !is_end() && peek() != '\n'; ++at_) {  // one line: an open one ends with it
      if (peek() == '\\')
        ++at_;
      else if (peek() == quote) {
        ++at_;
        return;
      }
    }
  }

  /// R"delimiter( ... )delimiter"
  void raw_literal() {
    const std::size_t open = text_.find('(', at_);
    if (open == text_.npos || open - at_ > 17) return literal('"');
    const std::string end = ")" + std::string{text_.substr(at_ + 1, open - at_ - 1)} + '"';
    const std::size_t close = text_.find(end, open);
    go_to(close == text_.npos ? close : close + end.size());
  }

  void has_include(std::string_view name) {
    skip_blanks();
    if (!skip("(")) return;  // asks whether the compiler has it
    skip_blanks();
    file_use(std::string{name} + " ");
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<FileUse> found_;
};

}  // namespace

std::vector<FileUse> all_uses_of_files(std::string_view source) {
  const std::string text = joined_lines(source);
  return Scanner{text}.run();
}

std::vector<FileUse> uses_of_files(std::string_view source) {
  std::vector<FileUse> uses = all_uses_of_files(source);
  std::erase_if(uses, [](const FileUse& use) { return use.in_brackets; });
  return uses;
}

}  // namespace cucore::detail
