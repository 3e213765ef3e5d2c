// SPDX-License-Identifier: Apache-2.0
// cpu/ptx/parse_constant.cpp: constant expressions with C's operators and precedence; the nesting
// depth is limited.
#include <bit>
#include <limits>

#include "cpu/ptx/parser_impl.hpp"
#include "protection.hpp"

namespace cucpu::ptx {
namespace {

int level_of(const Token& t) {
  if (t.kind != Token::Kind::punct) return -1;
  constexpr std::string_view kLevels[][4] = {
      {"||"},       {"&&"},     {"|"},          {"^"}, {"&"}, {"==", "!="}, {"<", ">", "<=", ">="},
      {"<<", ">>"}, {"+", "-"}, {"*", "/", "%"}};
  for (int level = 0; level < 10; ++level) {
    for (std::string_view op : kLevels[level]) {
      if (!op.empty() && op == t.text) return level;
    }
  }
  return -1;
}

double as_double(const Constant& c) {
  if (c.kind == Constant::Kind::f64) return std::bit_cast<double>(c.value);
  if (c.kind == Constant::Kind::f32)
    return std::bit_cast<float>(static_cast<std::uint32_t>(c.value));
  return c.is_unsigned ? static_cast<double>(c.value)
                       : static_cast<double>(static_cast<std::int64_t>(c.value));
}

std::optional<Constant> apply(std::string_view op, const Constant& a, const Constant& b) {
  Constant r;
  if (a.kind != Constant::Kind::integer || b.kind != Constant::Kind::integer) {
    const double x = as_double(a), y = as_double(b);
    double z = 0;
    if (op == "+")
      z = x + y;
    else if (op == "-")
      z = x - y;
    else if (op == "*")
      z = x * y;
    else if (op == "/")
      z = x / y;
    else
      return std::nullopt;
    r.kind = Constant::Kind::f64;
    r.value = std::bit_cast<std::uint64_t>(z);
    return r;
  }
  r.is_unsigned = a.is_unsigned || b.is_unsigned;
  const std::uint64_t x = a.value, y = b.value;
  const auto sx = static_cast<std::int64_t>(x), sy = static_cast<std::int64_t>(y);
  const bool u = r.is_unsigned;
  if (op == "+")
    r.value = x + y;
  else if (op == "-")
    r.value = x - y;
  else if (op == "*")
    r.value = x * y;
  else if (op == "/" || op == "%") {
    if (y == 0) return std::nullopt;
    if (u)
      r.value = op == "/" ? x / y : x % y;
    else if (sy == -1)
      r.value = op == "/" ? 0 - x : 0;
    else
      r.value = static_cast<std::uint64_t>(op == "/" ? sx / sy : sx % sy);
  } else if (op == "<<")
    r.value = y < 64 ? x << y : 0;
  else if (op == ">>")
    r.value = y < 64 ? (u ? x >> y : static_cast<std::uint64_t>(sx >> y)) : 0;
  else if (op == "&")
    r.value = x & y;
  else if (op == "|")
    r.value = x | y;
  else if (op == "^")
    r.value = x ^ y;
  else if (op == "==")
    r.value = x == y;
  else if (op == "!=")
    r.value = x != y;
  else if (op == "<")
    r.value = u ? x < y : sx < sy;
  else if (op == ">")
    r.value = u ? x > y : sx > sy;
  else if (op == "<=")
    r.value = u ? x <= y : sx <= sy;
  else if (op == ">=")
    r.value = u ? x >= y : sx >= sy;
  else if (op == "&&")
    r.value = x != 0 && y != 0;
  else
    r.value = x != 0 || y != 0;
  return r;
}

}  // namespace

// a ? b : c. Evaluates both operands, as ptxas does; the result has the type of the selected one.
std::optional<Constant> Parser::parse_conditional(int depth) {
  std::optional<Constant> condition = parse_binary(0, depth);
  if (!condition || !token_.is("?")) return condition;
  const Location where = token_.where;
  advance();
  const auto yes = parse_conditional(depth + 1);
  if (!yes || !expect(":", "in a conditional expression")) return std::nullopt;
  const auto no = parse_conditional(depth + 1);
  if (!no) return no;
  for (const Constant& c : {*condition, *yes, *no}) {
    if (c.kind == Constant::Kind::integer) continue;
    error_at(where, "the operands of '?' must be integers");
    return std::nullopt;
  }
  return condition->value != 0 ? yes : no;
}

std::optional<Constant> Parser::parse_binary(int level, int depth) {
  std::optional<Constant> left = parse_unary(depth + 1);
  // '|' and '>' are ambiguous outside parentheses, because they also appear in `d|p` and `%r<n>`.
  // Neither form begins with a constant, and compilers write such expressions in parentheses.
  while (left) {
    const int found_level = level_of(token_);
    if (found_level < level || found_level < 0) return left;
    const std::string_view op = token_.text;
    const Location where = token_.where;
    if (depth > kMaxDepth) {
      error("the expression is nested too deeply");
      return std::nullopt;
    }
    advance();
    const std::optional<Constant> right = parse_binary(found_level + 1, depth + 1);
    if (!right) return std::nullopt;
    left = apply(op, *left, *right);
    if (!left) error_at(where, "the operands of '" + std::string{op} + "' have no such result");
  }
  return left;
}

std::optional<Constant> Parser::parse_unary(int depth) {
  if (CUCORE_PROTECTION("expression-depth-limit") && depth > kMaxDepth) {
    error("the expression is nested too deeply");
    return std::nullopt;
  }
  const Token t = token_;
  Constant c;
  switch (t.kind) {
    case Token::Kind::integer:
      advance();
      c.value = t.value;
      c.is_unsigned = t.is_unsigned || t.value > static_cast<std::uint64_t>(
                                                     std::numeric_limits<std::int64_t>::max());
      return c;
    case Token::Kind::f32:
    case Token::Kind::f64:
      advance();
      c.kind = t.kind == Token::Kind::f32 ? Constant::Kind::f32 : Constant::Kind::f64;
      c.value = t.value;
      return c;
    case Token::Kind::identifier:
      if (t.text == "WARP_SZ") {
        advance();
        c.value = 32;
        return c;
      }
      break;
    case Token::Kind::punct:
      if (t.text == "+" || t.text == "-" || t.text == "~" || t.text == "!") {
        advance();
        auto v = parse_unary(depth + 1);
        if (!v) return v;
        if (t.text == "-") {
          if (v->kind == Constant::Kind::integer) {
            v->value = 0 - v->value;
            v->is_unsigned = false;
          } else {
            v->value ^= v->kind == Constant::Kind::f32 ? 0x80000000u : 0x8000000000000000u;
          }
        } else if (t.text == "~") {
          v->value = ~v->value;
        } else if (t.text == "!") {
          v->value = v->value == 0;
        }
        return v;
      }
      if (t.text == "(") {
        advance();
        if (token_.is_dot("s64") || token_.is_dot("u64")) {  // a cast
          const bool u = token_.text == "u64";
          advance();
          if (!expect(")", "after the type of a cast")) return std::nullopt;
          auto v = parse_unary(depth + 1);
          if (v) v->is_unsigned = u;
          return v;
        }
        auto v = parse_conditional(depth + 1);
        if (!v || !expect(")", "after an expression")) return std::nullopt;
        return v;
      }
      break;
    default:
      break;
  }
  error("expected a constant, found " + found());
  return std::nullopt;
}

std::optional<std::uint64_t> Parser::parse_count(std::string_view what) {
  const Location where = token_.where;
  const auto c = parse_constant();
  if (!c) return std::nullopt;
  if (c->kind != Constant::Kind::integer ||
      (!c->is_unsigned && static_cast<std::int64_t>(c->value) < 0)) {
    error_at(where, "expected " + std::string{what} + " that is not negative");
    return std::nullopt;
  }
  return c->value;
}

}  // namespace cucpu::ptx
