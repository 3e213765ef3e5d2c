// SPDX-License-Identifier: Apache-2.0
// cpu/ptx/lexer.cpp: splits the text into tokens in one pass, without allocation.
#include "cpu/ptx/lexer.hpp"

#include <bit>
#include <charconv>
#include <cstdlib>
#include <string>

namespace cucpu::ptx {
namespace {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
constexpr bool is_word(char c) { return is_digit(c) || is_letter(c) || c == '_' || c == '$'; }
constexpr bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

}  // namespace

Lexer::Lexer(std::string_view text) : text_{text.substr(0, text.find('\0'))} {}

Token Lexer::make(Token::Kind kind, std::size_t begin, std::size_t end) const {
  Token t;
  t.kind = kind;
  t.text = text_.substr(begin, end - begin);
  t.where = {line_, static_cast<std::uint32_t>(begin - line_start_ + 1)};
  return t;
}

void Lexer::skip_blanks() {
  while (pos_ < text_.size()) {
    const char c = text_[pos_];
    if (c == '\n') {
      ++pos_, ++line_, line_start_ = pos_;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
      ++pos_;
    } else if (c == '/' && at(pos_ + 1) == '/') {
      while (pos_ < text_.size() && text_[pos_] != '\n') ++pos_;
    } else if (c == '/' && at(pos_ + 1) == '*') {
      pos_ += 2;
      while (pos_ < text_.size() && !(text_[pos_] == '*' && at(pos_ + 1) == '/')) {
        if (text_[pos_] == '\n') ++line_, line_start_ = pos_ + 1;
        ++pos_;
      }
      pos_ = pos_ + 2 < text_.size() ? pos_ + 2 : text_.size();
    } else if ((c == '#' || (c == '@' && at(pos_ + 1) == '@')) && pos_ == line_start_) {
      while (pos_ < text_.size() && text_[pos_] != '\n') ++pos_;  // preprocessor lines, old DWARF
    } else {
      break;
    }
  }
}

Token Lexer::next() {
  skip_blanks();
  if (pos_ >= text_.size()) return make(Token::Kind::end, text_.size(), text_.size());
  const char c = text_[pos_], d = at(pos_ + 1);
  if (is_letter(c) || c == '_' || c == '$' || (c == '%' && is_word(d))) return word();
  if (is_digit(c)) return number();
  if (c == '.' && is_word(d)) return dotted();
  if (c == '"') return string();
  return punct();
}

Token Lexer::word() {
  const std::size_t begin = pos_++;
  while (is_word(at(pos_))) ++pos_;
  return make(Token::Kind::identifier, begin, pos_);
}

Token Lexer::dotted() {
  const std::size_t begin = ++pos_;
  while (is_word(at(pos_)) || (at(pos_) == ':' && at(pos_ + 1) == ':' && is_word(at(pos_ + 2)))) {
    pos_ += at(pos_) == ':' ? 2 : 1;
  }
  Token t = make(Token::Kind::dotted, begin, pos_);
  --t.where.column;
  return t;
}

Token Lexer::number() {
  const std::size_t begin = pos_;
  const char second = at(pos_ + 1);
  if (text_[pos_] == '0' && (second == 'f' || second == 'F' || second == 'd' || second == 'D')) {
    const bool single = second == 'f' || second == 'F';
    const std::size_t digits = single ? 8 : 16;
    pos_ += 2;
    while (is_hex(at(pos_))) ++pos_;
    Token t = make(single ? Token::Kind::f32 : Token::Kind::f64, begin, pos_);
    if (t.text.size() != digits + 2) {
      t.kind = Token::Kind::invalid;
      return t;
    }
    std::from_chars(t.text.data() + 2, t.text.data() + t.text.size(), t.value, 16);
    return t;
  }
  int base = 10;
  if (text_[pos_] == '0') {
    if (second == 'x' || second == 'X') {
      base = 16, pos_ += 2;
    } else if (second == 'b' || second == 'B') {
      base = 2, pos_ += 2;
    } else {
      base = 8;
    }
  }
  const std::size_t first = pos_;
  while (is_hex(at(pos_)) && (base == 16 || is_digit(at(pos_)))) ++pos_;
  if (base != 16 && base != 2 &&
      ((at(pos_) == '.' && !is_letter(at(pos_ + 1))) || at(pos_) == 'e' || at(pos_) == 'E')) {
    if (at(pos_) == '.') ++pos_;
    while (is_digit(at(pos_))) ++pos_;
    if (at(pos_) == 'e' || at(pos_) == 'E') {
      ++pos_;
      if (at(pos_) == '+' || at(pos_) == '-') ++pos_;
      while (is_digit(at(pos_))) ++pos_;
    }
    Token t = make(Token::Kind::f64, begin, pos_);
    t.value = std::bit_cast<std::uint64_t>(std::strtod(std::string{t.text}.c_str(), nullptr));
    return t;
  }
  Token t = make(Token::Kind::integer, begin, pos_);
  const char* end = text_.data() + pos_;
  const auto result = std::from_chars(text_.data() + first, end, t.value, base);
  if (at(pos_) == 'U' || at(pos_) == 'u') {
    t.is_unsigned = true;
    ++pos_;
  }
  if (result.ec != std::errc{} || result.ptr != end || is_word(at(pos_))) {
    while (is_word(at(pos_))) ++pos_;
    t = make(Token::Kind::invalid, begin, pos_);
  }
  return t;
}

Token Lexer::string() {
  const std::size_t begin = ++pos_;
  while (pos_ < text_.size() && text_[pos_] != '"' && text_[pos_] != '\n') {
    pos_ += text_[pos_] == '\\' && pos_ + 1 < text_.size() && text_[pos_ + 1] != '\n' ? 2 : 1;
  }
  Token t = make(Token::Kind::string, begin, pos_);
  --t.where.column;
  if (at(pos_) == '"') {
    ++pos_;
  } else {
    t.kind = Token::Kind::invalid;
  }
  return t;
}

Token Lexer::punct() {
  const char c = text_[pos_], d = at(pos_ + 1);
  constexpr std::string_view kKnown = "{}()[]<>,;:+-*/%&|^~!=?@.";
  std::size_t length = 1;
  if (((c == '<' || c == '>' || c == '&' || c == '|') && c == d) ||
      ((c == '<' || c == '>' || c == '=' || c == '!') && d == '=')) {
    length = 2;
  }
  const std::size_t begin = pos_;
  pos_ += length;
  return make(kKnown.find(c) == kKnown.npos ? Token::Kind::invalid : Token::Kind::punct, begin,
              pos_);
}

}  // namespace cucpu::ptx
