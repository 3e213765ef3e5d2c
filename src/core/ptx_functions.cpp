// SPDX-License-Identifier: Apache-2.0
// ptx_functions.cpp: finds the functions of a PTX module and changes their linkage.
#include "core/ptx_functions.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

namespace cucore::detail {
namespace {

struct Token {
  std::string_view text;
  std::size_t at;
};

/// Tokenizes PTX into words (including the dots of directives) and single characters, without
/// comments and strings.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_{text} {}

  std::optional<Token> next() {
    skip();
    if (at_ >= text_.size()) return std::nullopt;
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    if (at_ == begin) ++at_;
    return Token{text_.substr(begin, at_ - begin), begin};
  }

 private:
  static bool is_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '.' ||
           c == '%';
  }
  void skip() {
    while (at_ < text_.size()) {
      const std::string_view rest = text_.substr(at_);
      if (std::isspace(static_cast<unsigned char>(rest.front())) != 0) {
        ++at_;
      } else if (rest.starts_with("//")) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (rest.starts_with("/*")) {
        const std::size_t end = text_.find("*/", at_ + 2);
        at_ = end == text_.npos ? text_.size() : end + 2;
      } else if (rest.front() == '"') {
        for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_)
          if (text_[at_] == '\\') ++at_;
        at_ = std::min(at_ + 1, text_.size());
      } else {
        return;
      }
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

struct Function {
  std::string_view name, linkage;  // ".extern", ".visible", ".weak" or empty
  std::size_t at;                  // offset of ".func"
  bool has_body;
};

/// Reads the head of a function after ".func": return values in parentheses, name, parameters.
std::optional<Function> read_head(Lexer& lexer, std::string_view linkage, std::size_t at) {
  Function function{{}, linkage, at, false};
  int depth = 0;
  while (const auto token = lexer.next()) {
    if (token->text == "(") {
      ++depth;
    } else if (token->text == ")") {
      --depth;
    } else if (depth == 0 && (token->text == ";" || token->text == "{")) {
      function.has_body = token->text == "{";
      return function.name.empty() ? std::nullopt : std::optional{function};
    } else if (depth == 0 && function.name.empty() && !token->text.starts_with('.')) {
      function.name = token->text;
    }
  }
  return std::nullopt;
}

std::vector<Function> functions_in(std::string_view ptx) {
  std::vector<Function> found;
  Lexer lexer{ptx};
  std::string_view before;
  int depth = 0;
  while (const auto token = lexer.next()) {
    if (token->text == "{") ++depth;
    if (token->text == "}") --depth;
    if (depth == 0 && token->text == ".func") {
      const bool has_linkage = before == ".extern" || before == ".visible" || before == ".weak";
      const auto function = read_head(lexer, has_linkage ? before : std::string_view{}, token->at);
      if (!function) return found;
      found.push_back(*function);
      if (function->has_body) ++depth;
    }
    before = token->text;
  }
  return found;
}

}  // namespace

PtxFunctions functions_of_ptx(std::string_view ptx) {
  PtxFunctions result;
  for (const Function& function : functions_in(ptx)) {
    if (function.has_body) result.defined.emplace(function.name);
    if (function.linkage == ".extern") result.external.emplace(function.name);
  }
  return result;
}

std::string make_functions_visible(std::string_view ptx,
                                   const std::set<std::string, std::less<>>& names) {
  std::string out;
  std::size_t copied = 0;
  for (const Function& function : functions_in(ptx)) {
    if (!function.linkage.empty() || !names.contains(function.name)) continue;
    out.append(ptx.substr(copied, function.at - copied)).append(".visible ");
    copied = function.at;
  }
  return out.append(ptx.substr(copied));
}

}  // namespace cucore::detail
