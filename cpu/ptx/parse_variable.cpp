// SPDX-License-Identifier: Apache-2.0
// cpu/ptx/parse_variable.cpp: declarations of variables and parameters, and initializers.
#include <bit>
#include <cstring>

#include "cpu/ptx/parser_impl.hpp"

namespace cucpu::ptx {
namespace {

constexpr std::uint64_t kMaxSize = std::uint64_t{1} << 40;

std::optional<Space> find_space(std::string_view word) {
  if (word == "global") return Space::global;
  if (word == "shared" || word == "shared::cta") return Space::shared;
  if (word == "local") return Space::local;
  if (word == "const") return Space::constant;
  if (word == "param") return Space::param;
  if (word == "reg") return Space::reg;
  if (word == "tex") return Space::global;
  return std::nullopt;
}

/// IEEE binary16 of a double, rounded to nearest even.
std::uint16_t half_bits(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 48) & 0x8000);
  const double magnitude = std::bit_cast<double>(bits & 0x7fffffffffffffff);
  if (magnitude != magnitude) return 0x7fff;
  if (magnitude >= 65520.0) return static_cast<std::uint16_t>(sign | 0x7c00);
  const double scale =
      magnitude < 0x1p-14 ? 0x1p-24 : std::bit_cast<double>((((bits >> 52) & 0x7ff) - 10) << 52);
  const double units = magnitude / scale;
  auto whole = static_cast<std::uint64_t>(units);
  const double rest = units - static_cast<double>(whole);
  if (rest > 0.5 || (rest == 0.5 && (whole & 1) != 0)) ++whole;
  if (magnitude < 0x1p-14) return static_cast<std::uint16_t>(sign | whole);
  const auto exponent = static_cast<std::uint64_t>(((bits >> 52) & 0x7ff) - 1023 + 15);
  return static_cast<std::uint16_t>(sign | ((exponent << 10) + (whole - 1024)));
}

std::uint64_t element_bits(Type type, const Constant& c) {
  const bool floating = class_of(type) == Class::floating;
  double value = 0;
  if (c.kind == Constant::Kind::f64) value = std::bit_cast<double>(c.value);
  if (c.kind == Constant::Kind::f32)
    value = std::bit_cast<float>(static_cast<std::uint32_t>(c.value));
  if (c.kind == Constant::Kind::integer) {
    if (!floating) return c.value;
    value = c.is_unsigned ? static_cast<double>(c.value)
                          : static_cast<double>(static_cast<std::int64_t>(c.value));
  }
  switch (type) {
    case Type::f64:
      return std::bit_cast<std::uint64_t>(value);
    case Type::f16:
      return half_bits(value);
    case Type::bf16: {
      const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
      return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    }
    case Type::f32:
      if (c.kind == Constant::Kind::f32) return c.value;  // preserves NaN payloads
      return std::bit_cast<std::uint32_t>(static_cast<float>(value));
    default:
      return c.value;
  }
}

}  // namespace

void Parser::parse_attribute(Head& head) {
  if (!expect("(", "after .attribute")) return;
  do {
    if (accept_dot("managed")) {
      head.managed = true;
    } else if (accept_dot("unified")) {
      head.unified = true;
      if (accept("(")) {
        (void)parse_constant();
        if (accept(",")) (void)parse_constant();
        (void)expect(")", "after .unified");
      }
    } else {
      error("unknown attribute " + found() + ": expected .managed or .unified");
      advance();
    }
  } while (accept(","));
  (void)expect(")", "after .attribute");
}

bool Parser::parse_head(Head& head) {
  bool space = false;
  while (token_.kind == Token::Kind::dotted) {
    const std::string_view word = token_.text;
    if (const auto s = find_space(word); s && !space) {
      head.space = *s;
      space = true;
      advance();
      if (*s == Space::constant && accept("[")) {
        (void)parse_constant();
        (void)expect("]", "after the number of a constant bank");
      }
    } else if (word == "align") {
      advance();
      const Location where = token_.where;
      const auto n = parse_count("an alignment");
      if (!n) return false;
      if (!std::has_single_bit(*n) || *n > (1u << 20)) {
        error_at(where,
                 "an alignment must be a power of two up to 1048576, not " + std::to_string(*n));
        return false;
      }
      head.align = static_cast<std::uint32_t>(*n);
    } else if (word == "attribute") {
      advance();
      parse_attribute(head);
    } else if (word == "v2" || word == "v4" || word == "v8") {
      head.vector = static_cast<std::uint8_t>(word[1] - '0');
      advance();
    } else if (word == "ptr") {
      advance();
      head.pointer = true;
      if (token_.kind == Token::Kind::dotted) {
        if (const auto s = find_space(token_.text)) {
          head.pointer_space = *s;
          advance();
        } else if (token_.text == "generic") {
          advance();
        }
      }
      if (accept_dot("align")) {
        const auto n = parse_count("an alignment");
        if (!n) return false;
        head.pointer_align = static_cast<std::uint32_t>(*n);
      }
    } else if (const auto type = find_type(word); type && head.type == Type::none) {
      head.type = *type;
      advance();
    } else {
      error("'." + std::string{word} + "' is not expected in a declaration");
      return false;
    }
  }
  if (!space) {
    error("expected a state space (.global .const .shared .local .param .reg), found " + found());
    return false;
  }
  if (head.type == Type::none) {
    error("expected a type such as .b32, found " + found());
    return false;
  }
  return true;
}

std::optional<Variable> Parser::parse_declarator(const Head& head) {
  Variable v;
  v.where = token_.where;
  v.name = name("variable");
  if (v.name.empty()) return std::nullopt;
  v.space = head.space;
  v.linkage = head.linkage;
  v.type = head.type;
  v.vector = head.vector;
  v.managed = head.managed;
  v.unified = head.unified;
  v.pointer = head.pointer;
  v.pointer_space = head.pointer_space;
  v.pointer_align = head.pointer_align;
  const std::uint64_t element = std::uint64_t{bytes_of(head.type)} * head.vector;
  v.align = head.align != 0 ? head.align : static_cast<std::uint32_t>(element);
  if (v.align == 0) v.align = 1;
  std::uint64_t size = element;
  while (accept("[")) {
    v.array = true;
    if (v.dims.size() >= 16) {
      error("'" + std::string{v.name} + "' has too many dimensions: more than 16");
      return std::nullopt;
    }
    if (accept("]")) {
      if (!v.dims.empty()) {
        error("only the first dimension may be left out");
        return std::nullopt;
      }
      v.unsized = true;
      v.dims.push_back(0);
      continue;
    }
    const auto n = parse_count("an array size");
    if (!n || !expect("]", "after an array size")) return std::nullopt;
    if (*n != 0 && size > kMaxSize / *n) {
      error_at(v.where, "'" + std::string{v.name} + "' is too large: more than " +
                            std::to_string(kMaxSize) + " bytes");
      return std::nullopt;
    }
    v.dims.push_back(*n);
    size *= *n;
  }
  v.size = v.unsized ? 0 : size;
  if (token_.is("=") && v.space != Space::global && v.space != Space::constant) {
    error("'" + std::string{v.name} + "' cannot have an initial value: only .global and .const " +
          "variables can");
    return std::nullopt;
  }
  if (accept("=")) {
    if (v.size > (1u << 30)) {
      error("'" + std::string{v.name} + "' is too large to have an initial value: " +
            std::to_string(v.size) + " bytes, at most 1 GiB");
      return std::nullopt;
    }
    parse_initializer(v);
    if (v.unsized) v.unsized = false, v.size = v.data.size();
    v.data.resize(v.size);
  }
  return v;
}

// x, or x<4>: the variables x0 to x3.
std::optional<std::vector<Variable>> Parser::parse_declarators(const Head& head) {
  constexpr std::uint64_t kMaxVariables = 10000;
  auto first = parse_declarator(head);
  if (!first) return std::nullopt;
  std::vector<Variable> all;
  if (!accept("<")) {
    all.push_back(std::move(*first));
    return all;
  }
  if (token_.kind != Token::Kind::integer || token_.value > kMaxVariables) {
    error("expected the number of variables, at most " + std::to_string(kMaxVariables) +
          ", found " + found());
    return std::nullopt;
  }
  const std::uint64_t count = token_.value;
  advance();
  if (!expect(">", "after the number of variables")) return std::nullopt;
  for (std::uint64_t k = 0; k < count; ++k) {
    all.push_back(*first);
    all.back().name = module_.names.emplace_back(std::string{first->name} + std::to_string(k));
  }
  return all;
}

// Nested braces follow the dimensions; `at` is the offset of the next element. Uses `ends` as a
// stack instead of recursion.
void Parser::parse_initializer(Variable& v) {
  const std::uint64_t element = bytes_of(v.type);
  if (!token_.is("{")) return parse_element(v, 0);
  std::vector<std::uint64_t> sizes;  // byte size of an aggregate at each depth of braces
  std::uint64_t size = element * v.vector;
  if (v.vector > 1) sizes.push_back(size);
  for (std::size_t i = v.dims.size(); i-- > 1;) {
    size *= v.dims[i];
    sizes.push_back(size);
  }
  sizes.push_back(v.unsized ? kMaxSize : v.size);  // outermost last
  std::size_t depth = 0;
  std::uint64_t at = 0;
  std::vector<std::uint64_t> ends;
  bool first = true;
  do {
    if (token_.is("{")) {
      if (depth == sizes.size())
        return error("the initial value is nested more deeply than the array");
      advance();
      ends.push_back(at + sizes[sizes.size() - 1 - depth]);
      ++depth;
      first = true;
      continue;
    }
    if (token_.is("}")) {
      advance();
      at = depth == 1 && v.unsized ? at : ends.back();
      ends.pop_back();
      --depth;
      first = false;
      continue;
    }
    if (!first && !expect(",", "between initial values")) return;
    if (token_.is("{") || token_.is("}")) continue;
    if (at + element > ends.back() || at + element > (std::uint64_t{1} << 30)) {
      return error("too many initial values for '" + std::string{v.name} + "'");
    }
    const std::size_t before = diagnostics_.count();
    parse_element(v, at);
    if (diagnostics_.count() != before) return;
    at += element;
    first = false;
  } while (depth != 0);
}

void Parser::parse_element(Variable& v, std::uint64_t offset) {
  const std::uint64_t width = bytes_of(v.type);
  if (v.data.size() < offset + width) v.data.resize(offset + width);
  Relocation r{offset, static_cast<std::uint8_t>(width), 0, false, false, 0, 0};
  bool mask = false;
  if (token_.kind == Token::Kind::integer && ahead_.is("(")) {  // 0xff00(symbol)
    const std::uint64_t bits = token_.value;
    if (bits == 0 || std::countr_zero(bits) % 8 != 0 || bits >> std::countr_zero(bits) != 0xff) {
      return error("the mask of an address must select one byte");
    }
    r.shift = static_cast<std::uint8_t>(std::countr_zero(bits));
    mask = true;
    advance(), advance();
  }
  if (token_.kind == Token::Kind::identifier && token_.text != "WARP_SZ") {
    if (token_.text == "generic" && ahead_.is("(")) {
      r.generic = true;
      advance(), advance();
    }
    const Location where = token_.where;
    const std::string_view symbol = name("symbol");
    if (symbol.empty()) return;
    if (r.generic && !expect(")", "after generic(symbol")) return;
    const auto found = find_symbol(symbol);
    if (!found) {
      return error_at(where,
                      "'" + std::string{symbol} +
                          "' is not declared, or has no address that is known before a launch");
    }
    r.function = found->function;
    r.symbol = found->index;
    if (token_.is("+") || token_.is("-")) {
      const bool minus = token_.is("-");
      advance();
      const auto c = parse_constant();
      if (!c) return;
      r.addend = static_cast<std::int64_t>(minus ? 0 - c->value : c->value);
    }
    if (mask && !expect(")", "after the symbol of a masked address")) return;
    if (!mask && width != 8 && width != 4) {
      return error_at(where, "an address does not fit into '" + std::string{v.name} + "'");
    }
    v.relocations.push_back(r);
    return;
  }
  const auto c = parse_constant();
  if (!c) return;
  const std::uint64_t bits = element_bits(v.type, *c);
  std::memcpy(v.data.data() + offset, &bits, width < 8 ? width : 8);
}

void Parser::parse_module_variables(Linkage linkage) {
  Head head;
  head.linkage = linkage;
  if (!parse_head(head)) {
    if (token_.kind != Token::Kind::end) advance();
    return skip_statement();
  }
  if (head.space == Space::reg || head.space == Space::local || head.space == Space::param) {
    error("." + std::string{name_of(head.space)} + " variables cannot be declared at module level");
  }
  do {
    auto all = parse_declarators(head);
    if (!all) return skip_statement();
    for (Variable& v : *all) {
      const auto found = module_.symbols.find(v.name);
      if (found != module_.symbols.end() && !found->second.function) {
        Variable& old = module_.variables[found->second.index];
        const bool declared_only =
            old.linkage == Linkage::external || v.linkage == Linkage::external;
        if (!declared_only) error_at(v.where, "'" + std::string{v.name} + "' is already declared");
        if (v.linkage != Linkage::external) old = std::move(v);
        continue;
      }
      declare(v.name, {false, static_cast<std::uint32_t>(module_.variables.size())}, v.where);
      module_.variables.push_back(std::move(v));
    }
  } while (accept(","));
  if (!expect(";", "after a declaration")) skip_statement();
}

}  // namespace cucpu::ptx
