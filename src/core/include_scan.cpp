// SPDX-License-Identifier: Apache-2.0
// include_scan.cpp: a scan of C++ source for #include and __has_include.
#include "core/include_scan.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace cucore::detail {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/// Joins lines that end in a backslash with the next line, as translation phase 2 does.
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
  /// If `known` is null, macros that expand to __has_include are reported as uses of an unknown
  /// file.
  explicit Scanner(std::string_view text, HasIncludeMacros* known) : text_{text}, known_{known} {}

  std::vector<FileUse> run() {
    bool at_start = true;  // only whitespace and comments so far on this line
    while (!is_end()) {
      if (peek() == '\n') {
        at_start = true;
        defined_ = {};
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

  /// Skips one whitespace character or comment.
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
    if (name == "define") return define();
    if (name != "include" && name != "include_next" && name != "import" && name != "embed") return;
    skip_blanks();
    file_use("#" + std::string{name} + " ");
  }

  /// Reads the name and parameters of a macro; its replacement list is scanned like other text.
  void define() {
    skip_blanks();
    defined_ = {word(), {}};
    if (!skip("(")) return;
    while (!is_end() && peek() != '\n' && !skip(")")) {
      if (const std::string_view parameter = word(); !parameter.empty())
        defined_.parameters.push_back(parameter);
      else if (skip("..."))
        defined_.parameters.push_back("__VA_ARGS__");
      else
        ++at_;
    }
  }

  /// Reads the operand of the directive `said`: a file in quotes or angle brackets, or a macro.
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
    if (macro.empty()) return;
    if (known_ && std::ranges::find(defined_.parameters, macro) != defined_.parameters.end())
      known_->emplace(defined_.name);
    else
      found_.push_back({said + std::string{macro}, {}});
  }

  /// Reads an identifier, a number, a literal, or another character.
  void token() {
    const char first = peek();
    if (first == '"' || first == '\'') {
      literal(first);
    } else if (is_digit(first)) {  // including digit separators
      while (is_word(peek()) || peek() == '.' ||
             (peek() == '\'' && at_ + 1 < text_.size() && is_word(text_[at_ + 1])))
        ++at_;
    } else if (is_word(first)) {
      const std::string_view name = word();
      if (peek() == '"' && name.ends_with('R'))
        raw_literal();
      else if (is_has_include(name))
        has_include(name);
      else
        after_defined_ = name == "defined";
    } else {
      ++at_;
    }
  }

  void literal(char quote) {
    // An unterminated literal ends at the end of the line.
    for (++at_; !is_end() && peek() != '\n'; ++at_) {
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

  [[nodiscard]] bool is_has_include(std::string_view name) const {
    return name == "__has_include" || name == "__has_include_next" || name == "__has_embed" ||
           (known_ && known_->contains(name));
  }

  void has_include(std::string_view name) {
    const bool is_asked_for = std::exchange(after_defined_, false);  // defined(__has_include)
    skip_blanks();
    if (!skip("(")) {
      if (is_asked_for || defined_.name.empty()) return;
      if (known_)
        known_->emplace(defined_.name);
      else
        found_.push_back({std::string{name}, {}});
      return;
    }
    skip_blanks();
    file_use(std::string{name} + " ");
  }

  /// The macro whose #define is being read.
  struct Macro {
    std::string_view name;
    std::vector<std::string_view> parameters;
  };

  std::string_view text_;
  HasIncludeMacros* known_;
  std::size_t at_ = 0;
  Macro defined_;
  bool after_defined_ = false;
  std::vector<FileUse> found_;
};

}  // namespace

std::vector<FileUse> all_uses_of_files(std::string_view source) {
  const std::string text = joined_lines(source);
  return Scanner{text, nullptr}.run();
}

std::vector<FileUse> all_uses_of_files(std::string_view source, HasIncludeMacros& known) {
  const std::string text = joined_lines(source);
  return Scanner{text, &known}.run();
}

std::vector<FileUse> uses_of_files(std::string_view source) {
  std::vector<FileUse> uses = all_uses_of_files(source);
  std::erase_if(uses, [](const FileUse& use) { return use.in_brackets; });
  return uses;
}

}  // namespace cucore::detail
