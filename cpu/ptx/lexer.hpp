// SPDX-License-Identifier: Apache-2.0
// cpu/ptx/lexer.hpp: PTX text to tokens. Accepts any bytes; an invalid character becomes an
// `invalid` token.
#pragma once

#include <cstdint>
#include <string_view>

#include "cpu/ptx/diagnostics.hpp"

namespace cucpu::ptx {

struct Token {
  enum class Kind : std::uint8_t {
    end,
    identifier,  ///< name, %name, $name, _name
    dotted,      ///< .word; `text` is without the dot
    integer,     ///< value
    f32,
    f64,     ///< value: the bits
    string,  ///< `text` is without the quotes, escapes kept
    punct,   ///< one character, or one of << >> <= >= == != && ||
    invalid,
  };
  Kind kind = Kind::end;
  bool is_unsigned = false;  ///< an integer with suffix U
  std::string_view text;
  std::uint64_t value = 0;
  Location where;

  [[nodiscard]] bool is(std::string_view punct) const {
    return kind == Kind::punct && text == punct;
  }
  [[nodiscard]] bool is_dot(std::string_view word) const {
    return kind == Kind::dotted && text == word;
  }
};

class Lexer {
 public:
  /// A NUL byte ends the text: NVRTC's output contains one.
  explicit Lexer(std::string_view text);

  Token next();

 private:
  void skip_blanks();
  Token word();
  Token dotted();
  Token number();
  Token string();
  Token punct();
  [[nodiscard]] char at(std::size_t i) const { return i < text_.size() ? text_[i] : '\0'; }
  Token make(Token::Kind kind, std::size_t begin, std::size_t end) const;

  std::string_view text_;
  std::size_t pos_ = 0, line_start_ = 0;
  std::uint32_t line_ = 1;
};

}  // namespace cucpu::ptx
