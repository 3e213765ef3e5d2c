// SPDX-License-Identifier: Apache-2.0
// lexer_test.cpp: tokens of PTX text.
#include "cpu/ptx/lexer.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace cucpu::ptx {
namespace {

std::vector<Token> lex(std::string_view text) {
  Lexer lexer{text};
  std::vector<Token> out;
  for (Token t = lexer.next(); t.kind != Token::Kind::end; t = lexer.next()) out.push_back(t);
  return out;
}

TEST(Lexer, OpcodeIsSplitAtDots) {
  const auto t = lex("ld.global.L2::128B.v4.b32 tex.2d");
  ASSERT_EQ(t.size(), 7u);
  EXPECT_EQ(t[0].text, "ld");
  EXPECT_EQ(t[2].text, "L2::128B");
  EXPECT_TRUE(t[6].is_dot("2d"));
}

TEST(Lexer, EveryNumberFormatIsRead) {
  const auto t = lex("0 017 0x1fU 0b101 4294967295 1.5 2e3 0f3F800000 0d3FF0000000000000");
  ASSERT_EQ(t.size(), 9u);
  const std::uint64_t wanted[] = {0,
                                  15,
                                  31,
                                  5,
                                  4294967295u,
                                  0x3ff8000000000000,
                                  0x409f400000000000,
                                  0x3f800000,
                                  0x3ff0000000000000};
  for (std::size_t i = 0; i < t.size(); ++i) EXPECT_EQ(t[i].value, wanted[i]) << i;
  EXPECT_TRUE(t[2].is_unsigned);
  EXPECT_EQ(t[7].kind, Token::Kind::f32);
}

TEST(Lexer, InvalidCharacterIsAnInvalidToken) {
  for (std::string_view text : {"0f3F80", "12ab", "0x", "\"open", "\x01", "99999999999999999999"}) {
    const auto t = lex(text);
    ASSERT_FALSE(t.empty()) << text;
    EXPECT_EQ(t[0].kind, Token::Kind::invalid) << text;
  }
}

TEST(Lexer, TokensHaveLineAndColumn) {
  const auto t = lex("a /* x\ny */ b\n  .c // d\n\"s\"");
  ASSERT_EQ(t.size(), 4u);
  EXPECT_EQ(t[1].where.line, 2u);
  EXPECT_EQ(t[1].where.column, 6u);
  EXPECT_EQ(t[2].where.column, 3u);
  EXPECT_EQ(t[3].where.line, 4u);
}

}  // namespace
}  // namespace cucpu::ptx
