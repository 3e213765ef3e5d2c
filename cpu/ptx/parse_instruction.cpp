// SPDX-License-Identifier: Apache-2.0
// cpu/ptx/parse_instruction.cpp: opcodes and operands, checked against the instruction table.
#include <algorithm>
#include <charconv>
#include <span>
#include <utility>

#include "cpu/ptx/parser_impl.hpp"

namespace cucpu::ptx {
namespace {

/// Splits an operand pattern at spaces.
struct Patterns {
  std::string_view rest;
  std::string_view next() {
    const std::size_t space = rest.find(' ');
    const std::string_view word = rest.substr(0, space);
    rest = space == rest.npos ? std::string_view{} : rest.substr(space + 1);
    return word;
  }
};

bool is_space(const Slot& slot) {
  return std::ranges::any_of(slot.mods, [](Mod m) {
    return m == Mod::global || m == Mod::shared || m == Mod::shared_cta || m == Mod::shared_cluster;
  });
}

std::string join_mods(std::span<const Mod> words) {
  std::string out;
  for (Mod m : words) out += (out.empty() ? "." : " .") + std::string{text_of(m)};
  return out;
}

/// Collects the modifiers that a row accepts in place of a rejected one: for a type, those of its
/// next type slot.
void add_expected(std::vector<Mod>& expected, const Row& row, std::span<const std::int8_t> used,
                  std::string_view word) {
  const auto mod = find_mod(word);
  if (!mod) return;
  const bool type = type_of(*mod) != Type::none;
  for (std::size_t s = 0; s < row.slots.size(); ++s) {
    const Slot& slot = row.slots[s];
    if (used[s] >= 0 || slot.optional) continue;
    if (slot.type != type) return;  // required modifiers before this slot are missing
    if (type && std::ranges::any_of(used.subspan(s), [](std::int8_t u) { return u >= 0; })) return;
    for (const Mod m : slot.mods)
      if (std::ranges::find(expected, m) == expected.end()) expected.push_back(m);
    return;
  }
}

/// `[a].unified` requires an address in a variable with that attribute.
bool accepts_unified(const Instruction& i) {
  for (const Mod m : {Mod::shared, Mod::shared_cta, Mod::shared_cluster, Mod::local, Mod::const_,
                      Mod::param, Mod::param_entry, Mod::param_func})
    if (i.has(m)) return false;
  return true;
}

}  // namespace

void Parser::parse_instruction(std::optional<Guard> guard) {
  Instruction inst;
  inst.where = token_.where;
  inst.guard = guard;
  const std::string_view op = token_.text;
  advance();
  std::vector<Token> words;
  while (token_.kind == Token::Kind::dotted) {
    words.push_back(token_);
    advance();
  }
  if (!match(inst, op, words)) return skip_statement();
  takes_minus_ = op == "vmad";
  if (inst.row->args == "call") {
    const std::size_t before = diagnostics_.count();
    parse_call(inst);
    if (diagnostics_.count() != before) return skip_statement();
  } else if (!parse_operands(inst)) {
    return skip_statement();
  }
  if (!token_.is(";")) {
    error("expected ',' or ';' after an operand of '" + std::string{op} + "', found " + found());
    return skip_statement();
  }
  advance();
  if (check_operands(inst)) function_->body.emplace_back(std::move(inst));
}

// Assigns each modifier to the first free slot that accepts it. The order is not fixed: compilers
// and inline assembly write both vote.sync.ballot and vote.ballot.sync, and no set of modifiers has
// two meanings.
bool Parser::match(Instruction& inst, std::string_view op, const std::vector<Token>& words) {
  const auto rows = find_rows(op);
  if (rows.empty()) {
    error_at(inst.where, "unknown instruction '" + std::string{op} + "'");
    return false;
  }
  if (rows.size() == 1 && rows[0].slots.empty() && rows[0].emit == Emit::unsupported &&
      !words.empty()) {
    error_at(inst.where, module_.target < rows[0].target
                             ? "'" + std::string{op} + "' needs .target sm_" +
                                   std::to_string(rows[0].target) + " or later"
                             : "the CPU device does not support '" + std::string{op} + "'");
    return false;
  }
  std::size_t best = 0;
  std::string why;
  Location why_at = inst.where;
  std::vector<Mod> expected;  // modifiers that the rows accept in place of the rejected one
  for (const Row& row : rows) {
    std::array<std::int8_t, 32> used;
    used.fill(-1);
    std::size_t w = 0;
    for (; w < words.size(); ++w) {
      const auto mod = find_mod(words[w].text);
      if (!mod) break;
      std::size_t s = 0;
      for (; s < row.slots.size(); ++s) {
        if (used[s] >= 0) continue;
        bool takes = false;
        for (Mod m : row.slots[s].mods) takes = takes || m == *mod;
        // The order of types matters: set.lt.u16.f16 differs from set.lt.f16.u16.
        for (std::size_t t = s + 1; row.slots[s].type && t < row.slots.size(); ++t) {
          if (row.slots[t].type && used[t] >= 0) takes = false;
        }
        // So does that of state spaces: a copy names its destination first.
        for (std::size_t t = s + 1; is_space(row.slots[s]) && t < row.slots.size(); ++t) {
          if (is_space(row.slots[t]) && used[t] >= 0) takes = false;
        }
        if (takes) break;
      }
      if (s == row.slots.size()) break;
      used[s] = static_cast<std::int8_t>(w);
    }
    std::string reason;
    bool newer = false;  // only the version or the target is too old
    Location at = inst.where;
    if (w < words.size()) {
      reason = "'" + std::string{op} + "' does not take '." + std::string{words[w].text} + "' here";
      at = words[w].where;
    } else {
      for (std::size_t s = 0; s < row.slots.size() && reason.empty(); ++s) {
        if (used[s] < 0 && !row.slots[s].optional) {
          reason = "'" + std::string{op} + "' needs " +
                   (row.slots[s].mods.size() > 1 ? "one of " : "") + join_mods(row.slots[s].mods);
        }
      }
      newer = reason.empty();
      if (reason.empty() && row.version > module_.version) {
        reason = "this form of '" + std::string{op} + "' needs .version " +
                 std::to_string(row.version / 10) + "." + std::to_string(row.version % 10) +
                 " or later";
      }
      if (reason.empty() && row.target > module_.target && module_.target != 0) {
        reason = "this form of '" + std::string{op} + "' needs .target sm_" +
                 std::to_string(row.target) + " or later";
      }
      if (reason.empty() && row.specific != 0 &&
          (module_.target_suffix == 0 ||
           (row.specific == 2 && module_.target / 10 != row.target / 10) ||
           (row.specific == 3 && module_.target >= 120) ||
           (row.specific == 4 &&
            (module_.target / 10 != row.target / 10 || module_.target_suffix != 'a')))) {
        reason = "this form of '" + std::string{op} + "' needs .target sm_" +
                 std::to_string(row.target) + "a";
      }
    }
    if (reason.empty()) {
      inst.row = &row;
      std::size_t types = 0;
      for (std::size_t s = 0; s < row.slots.size(); ++s) {
        if (!row.slots[s].type) continue;
        if (used[s] >= 0)
          inst.types[types] = type_of(*find_mod(words[static_cast<std::size_t>(used[s])].text));
        ++types;
      }
      for (const Token& t : words) {
        const Mod mod = *find_mod(t.text);
        inst.mods.push_back(mod);
      }
      return true;
    }
    if (why.empty() || w > best || newer) {
      why = reason, best = w, why_at = at;
      expected.clear();
    }
    if (w == best && w < words.size() && row.target <= module_.target)
      add_expected(expected, row, used, words[w].text);
  }
  constexpr std::size_t kShown = 12;  // keeps the message short
  if (!expected.empty() && expected.size() <= kShown)
    why += ", expected" + std::string{expected.size() > 1 ? " one of " : " "} + join_mods(expected);
  error_at(why_at, why);
  return false;
}

bool Parser::parse_operands(Instruction& inst) {
  Patterns patterns{inst.row->args};
  while (!token_.is(";")) {
    std::string_view pattern = patterns.next();
    if (!inst.operands.empty() && !expect(",", "between operands")) return false;
    if (pattern.starts_with('?')) pattern.remove_prefix(1);
    indexed_ = false;
    auto operand = parse_operand(pattern == "l");
    if (!operand) return false;
    if (indexed_ && pattern.starts_with('[') &&
        (operand->kind == Operand::Kind::local || operand->kind == Operand::Kind::global)) {
      Operand address;  // ld.global.u32 %r, array[2]
      address.kind = Operand::Kind::address;
      address.where = operand->where;
      address.value = std::exchange(operand->value, 0);
      address.parts.push_back(std::move(*operand));
      operand = std::move(address);
    }
    inst.operands.push_back(std::move(*operand));
    if (inst.operands.back().kind == Operand::Kind::address && inst.row->op == "ld" &&
        accept_dot("unified") && !accepts_unified(inst)) {
      error("'.unified' is for global memory");
      return false;
    }
    if (token_.kind == Token::Kind::end) {
      error("expected ';', found the end of the text");
      return false;
    }
    if (!token_.is(",")) break;
  }
  return true;
}

std::optional<Operand> Parser::parse_operand(bool label, int depth) {
  auto first = parse_simple(label, depth);
  if (!first || !token_.is("|")) return first;
  advance();
  auto second = parse_simple(false, depth);
  if (!second || reject_sum(*first) || reject_sum(*second)) return std::nullopt;
  Operand pair;
  pair.kind = Operand::Kind::pair;
  pair.where = first->where;
  pair.parts.push_back(std::move(*first));
  pair.parts.push_back(std::move(*second));
  return pair;
}

std::optional<Operand> Parser::parse_simple(bool label, int depth) {
  if (depth > kMaxDepth) {
    error("the operand is nested too deeply");
    return std::nullopt;
  }
  Operand o;
  o.where = token_.where;
  if (token_.kind == Token::Kind::identifier && token_.text != "WARP_SZ") return parse_name(label);
  if (token_.is("!") && ahead_.kind == Token::Kind::identifier) {
    advance();
    auto inner = parse_name(false);
    if (!inner || reject_sum(*inner)) return std::nullopt;
    if (type_of_operand(*inner) != Type::pred) {
      error_at(inner->where, "'!' is for predicates");
      return std::nullopt;
    }
    inner->negated = true;
    return inner;
  }
  if (token_.is("-") && ahead_.kind == Token::Kind::identifier && ahead_.text != "WARP_SZ") {
    advance();
    auto inner = parse_name(false);
    if (!inner || reject_sum(*inner)) return std::nullopt;
    if (!takes_minus_ || depth != 0 || inner->kind != Operand::Kind::reg) {
      error_at(o.where, "'-' in front of a register is for operands of 'vmad'");
      return std::nullopt;
    }
    inner->minus = true;
    return inner;
  }
  if (token_.is("{")) return parse_group("}", Operand::Kind::vector, depth);
  if (token_.is("[")) return parse_address(depth);
  const auto c = parse_constant();
  if (!c) return std::nullopt;
  o.kind = c->kind == Constant::Kind::integer ? Operand::Kind::integer
           : c->kind == Constant::Kind::f32   ? Operand::Kind::f32
                                              : Operand::Kind::f64;
  o.value = c->value;
  return o;
}

std::optional<Operand> Parser::parse_group(std::string_view close, Operand::Kind kind, int depth) {
  Operand o;
  o.kind = kind;
  o.where = token_.where;
  advance();
  if (accept(close)) return o;
  do {
    auto part = parse_operand(false, depth + 1);
    if (!part || reject_sum(*part)) return std::nullopt;
    if (part->kind == Operand::Kind::vector && kind == Operand::Kind::vector &&
        part->parts.size() > 1) {
      for (Operand& p : part->parts) o.parts.push_back(std::move(p));  // a vector register
    } else {
      o.parts.push_back(std::move(*part));
    }
  } while (accept(","));
  if (!expect(close, "after a list of operands")) return std::nullopt;
  return o;
}

// name + expression, or name - product: everything after '+' is one constant expression.
bool Parser::offset_after(Operand& operand) {
  while (token_.is("+") || token_.is("-")) {
    const bool minus = token_.is("-");
    advance();
    const Location where = token_.where;
    const auto c = minus ? parse_binary(kProduct, 0) : parse_constant();
    if (!c) return false;
    if (c->kind != Constant::Kind::integer) {
      error_at(where, "expected an integer in an address or a sum");
      return false;
    }
    operand.value += minus ? 0 - c->value : c->value;
  }
  return true;
}

Type Parser::type_of_operand(const Operand& o) const {
  if (o.kind == Operand::Kind::reg) return function_->registers[o.index].type;
  return o.kind == Operand::Kind::special ? all_specials()[o.index].type : Type::none;
}

/// True for `register + number`, which is reported as an error.
bool Parser::reject_sum(const Operand& o) {
  if (o.kind != Operand::Kind::reg || o.value == 0) return false;
  error_at(o.where, "the sum of a register and a number cannot be used here");
  return true;
}

std::optional<Operand> Parser::parse_address(int depth) {
  Operand o;
  o.kind = Operand::Kind::address;
  o.where = token_.where;
  advance();
  auto base = parse_operand(false, depth + 1);
  if (!base) return std::nullopt;
  if (base->kind == Operand::Kind::local || base->kind == Operand::Kind::global) {
    o.value = base->value;  // parse_name has parsed the offset
    base->value = 0;
  } else if (base->kind == Operand::Kind::reg) {
    o.value = std::exchange(base->value, 0);
    if (!offset_after(o)) return std::nullopt;
  }
  o.parts.push_back(std::move(*base));
  while (accept(",")) {
    auto part = parse_operand(false, depth + 1);
    if (!part || reject_sum(*part)) return std::nullopt;
    o.parts.push_back(std::move(*part));
  }
  if (!expect("]", "after an address")) return std::nullopt;
  return o;
}

/// The components of a vector register, which have consecutive indices.
Operand Parser::vector_of(std::uint32_t first) const {
  Operand o;
  o.kind = Operand::Kind::vector;
  o.index = first;
  for (std::uint32_t r = first; r < function_->registers.size(); ++r) {
    if (function_->registers[r].component != static_cast<std::int8_t>(r - first)) break;
    Operand part;
    part.kind = Operand::Kind::reg;
    part.index = r;
    o.parts.push_back(part);
  }
  return o;
}

std::optional<Operand> Parser::find_register(std::string_view text) {
  Operand o;
  o.kind = Operand::Kind::reg;
  for (std::size_t s = scopes_.size(); s-- > 0;) {
    Scope& scope = scopes_[s];
    if (const auto at = scope.names.find(text); at != scope.names.end()) {
      if (at->second.kind == ScopeEntry::Kind::reg) {
        o.index = at->second.index;
        return o;
      }
      if (at->second.kind == ScopeEntry::Kind::vector_reg) return vector_of(at->second.index);
      return std::nullopt;
    }
    if (scope.ranges.empty()) continue;
    for (std::size_t split = text.size();
         split-- > 1 && text[split] >= '0' && text[split] <= '9';) {
      if (text[split] == '0' && split + 1 != text.size()) continue;  // no leading zeros
      const auto range = scope.ranges.find(text.substr(0, split));
      if (range == scope.ranges.end()) continue;
      std::uint32_t number = 0;
      const auto r = std::from_chars(text.data() + split, text.data() + text.size(), number);
      if (r.ec != std::errc{} || number >= static_cast<std::uint64_t>(range->second.decl.count))
        continue;
      const auto [member, fresh] = range->second.members.try_emplace(number, 0);
      if (fresh)
        member->second = add_registers(range->second.decl, static_cast<std::int32_t>(number));
      if (range->second.decl.vector > 1) return vector_of(member->second);
      o.index = member->second;
      return o;
    }
  }
  return std::nullopt;
}

// array[2] is the address of scalar element 2, independent of the array's dimensions.
std::optional<Operand> Parser::parse_variable_operand(Operand o, const Variable& v) {
  if (token_.is("[")) {
    if (!v.array) {
      error("'" + std::string{v.name} + "' is not an array");
      return std::nullopt;
    }
    const std::uint64_t element = bytes_of(v.type);
    advance();
    const Location where = token_.where;
    const auto index = parse_constant();
    if (!index || !expect("]", "after an index")) return std::nullopt;
    if (index->kind != Constant::Kind::integer) {
      error_at(where, "expected an integer as an index");
      return std::nullopt;
    }
    o.value = index->value * element;
    indexed_ = true;
    return o;
  }
  if (!offset_after(o)) return std::nullopt;
  return o;
}

std::optional<Operand> Parser::parse_name(bool label) {
  const Location where = token_.where;
  const std::string_view text = token_.text;
  advance();
  Operand o;
  o.where = where;
  if (label) {
    o.kind = Operand::Kind::label;
    o.index = reference_label(text, where);
    return o;
  }
  if (text == "_") return o;
  if (auto reg = find_register(text)) {
    reg->where = where;
    for (Operand& part : reg->parts) part.where = where;
    if (reg->kind == Operand::Kind::vector && token_.kind == Token::Kind::dotted) {
      constexpr std::string_view kXyzw = "xyzwrgba";
      const std::size_t at = token_.text.size() == 1 ? kXyzw.find(token_.text) : kXyzw.npos;
      if (at == kXyzw.npos || at % 4 >= reg->parts.size()) {
        error("'" + std::string{text} + "' has no component " + found());
        return std::nullopt;
      }
      advance();
      Operand part = reg->parts[at % 4];
      part.where = where;
      return part;
    }
    if (reg->kind == Operand::Kind::reg && token_.kind == Token::Kind::dotted &&
        (token_.text[0] == 'b' || token_.text[0] == 'h') && token_.text.size() <= 5 &&
        token_.text.find_first_not_of("01234567", 1) == token_.text.npos &&
        token_.text.size() > 1) {
      reg->selector = token_.text;
      advance();
    } else if (reg->kind == Operand::Kind::reg && token_.is("+") && !offset_after(*reg)) {
      return std::nullopt;
    }
    return reg;
  }
  for (std::size_t s = scopes_.size(); s-- > 0;) {
    const auto at = scopes_[s].names.find(text);
    if (at == scopes_[s].names.end()) continue;
    o.index = at->second.index;
    if (at->second.kind == ScopeEntry::Kind::variable) {
      o.kind = Operand::Kind::local;
      return parse_variable_operand(std::move(o), function_->variables[at->second.index]);
    }
    if (at->second.kind == ScopeEntry::Kind::module_variable) {
      o.kind = Operand::Kind::global;
      return parse_variable_operand(std::move(o), module_.variables[at->second.index]);
    }
    break;
  }
  if (text.starts_with('%')) {
    std::string full{text.substr(1)};
    if (token_.kind == Token::Kind::dotted && token_.text.size() == 1) {
      full += '.';
      full += token_.text;
    }
    if (const auto special = find_special(full)) {
      if (full.find('.') != full.npos) advance();
      o.kind = Operand::Kind::special;
      o.index = *special;
      return o;
    }
    if (find_special(full + ".x")) {  // the whole vector: %tid
      o.kind = Operand::Kind::vector;
      for (const char* c : {".x", ".y", ".z", ".w"}) {
        Operand part;
        part.where = where;
        if (const auto special = find_special(full + c)) {
          part.kind = Operand::Kind::special;
          part.index = *special;
        } else {
          part.kind = Operand::Kind::integer;
        }
        o.parts.push_back(part);
      }
      return o;
    }
  }
  if (const auto symbol = module_.symbols.find(text); symbol != module_.symbols.end()) {
    o.kind = symbol->second.function ? Operand::Kind::function : Operand::Kind::global;
    o.index = symbol->second.index;
    if (symbol->second.function) return o;
    return parse_variable_operand(std::move(o), module_.variables[symbol->second.index]);
  }
  error_at(where,
           (text.starts_with('%') ? "register '" : "'") + std::string{text} + "' is not declared");
  return std::nullopt;
}

// call{.uni} [(returns),] callee [, (arguments)] [, prototype or targets]; yields four operands
// with the lists first.
void Parser::parse_call(Instruction& inst) {
  Operand returns, arguments;
  returns.kind = arguments.kind = Operand::Kind::list;
  returns.where = arguments.where = token_.where;
  if (token_.is("(")) {
    auto list = parse_group(")", Operand::Kind::list, 0);
    if (!list || !expect(",", "after the return values of a call")) return;
    returns = std::move(*list);
  }
  if (token_.kind != Token::Kind::identifier)
    return error("expected the function to call, found " + found());
  auto callee = parse_name(false);
  if (!callee) return;
  if (callee->kind != Operand::Kind::function && callee->kind != Operand::Kind::reg) {
    return error_at(callee->where, "expected a function or a register that holds one");
  }
  std::optional<Operand> prototype;
  if (accept(",")) {
    if (token_.is("(")) {
      auto list = parse_group(")", Operand::Kind::list, 0);
      if (!list) return;
      arguments = std::move(*list);
      if (accept(",")) prototype = parse_operand(true);
    } else {
      prototype = parse_operand(true);
    }
  }
  const bool indirect = callee->kind == Operand::Kind::reg;
  if (indirect && !prototype) {
    return error_at(callee->where, "an indirect call needs a .callprototype or .calltargets label");
  }
  inst.operands.push_back(std::move(returns));
  inst.operands.push_back(std::move(*callee));
  inst.operands.push_back(std::move(arguments));
  if (prototype) inst.operands.push_back(std::move(*prototype));
}

namespace {

/// Instructions with operands of several registers.
bool takes_vectors(const Instruction& inst) {
  constexpr std::string_view kOps[] = {
      "mov",      "ld",       "ldu",     "st",    "atom",
      "red",      "multimem", "mma",     "wmma",  "wgmma",
      "ldmatrix", "stmatrix", "tcgen05", "cp",    "tex",
      "tld4",     "suld",     "sust",    "sured", "clusterlaunchcontrol",
  };
  return std::ranges::find(kOps, inst.row->op) != std::end(kOps) || inst.has(Mod::rs);
}

/// [object, {x, y}]: textures, surfaces and tensors.
bool takes_coordinates(const Instruction& inst) {
  constexpr std::string_view kOps[] = {"tex", "tld4", "suld", "sust", "sured"};
  return std::ranges::find(kOps, inst.row->op) != std::end(kOps) || inst.has(Mod::tensor);
}

}  // namespace

bool Parser::check_operands(const Instruction& inst) {
  if (inst.row->args == "call") return true;
  Patterns patterns{inst.row->args};
  std::size_t i = 0;
  const auto fail = [&](Location where, std::string_view what) {
    error_at(where, "operand " + std::to_string(i + 1) + " of '" + std::string{inst.row->op} +
                        "' must be " + std::string{what});
    return false;
  };
  while (!patterns.rest.empty()) {
    std::string_view pattern = patterns.next();
    if (pattern == "*") return true;
    const bool optional = pattern.starts_with('?');
    if (optional) pattern.remove_prefix(1);
    if (i == inst.operands.size()) {
      if (optional) continue;
      error_at(inst.where, "'" + std::string{inst.row->op} +
                               "' needs more operands: " + std::string{inst.row->args});
      return false;
    }
    const Operand& o = inst.operands[i];
    using Kind = Operand::Kind;
    if (pattern.starts_with('[')) {
      if (o.kind != Kind::address) {
        if (optional) continue;
        return fail(o.where, "an address in brackets");
      }
      if (o.parts.size() > 1 && !takes_coordinates(inst))
        return fail(o.where, "an address without coordinates");
    } else if (pattern == "l") {
      if (o.kind != Kind::label) return fail(o.where, "a label");
    } else if (pattern == "i") {
      if (!o.is_constant()) return fail(o.where, "a constant");
    } else if (pattern == "d|p") {
      if (reject_sum(o)) return false;
      if (o.kind != Kind::pair && o.kind != Kind::reg && o.kind != Kind::sink) {
        return fail(o.where, "a register, or two as d|p");
      }
    } else if (pattern == "v|p") {
      const Operand& v = o.kind == Kind::pair ? o.parts[0] : o;
      if (v.kind != Kind::vector) return fail(o.where, "a vector of registers");
    } else if (pattern.starts_with('d')) {
      if (reject_sum(o)) return false;
      if (o.kind != Kind::reg && o.kind != Kind::vector && o.kind != Kind::sink) {
        return fail(o.where, "a register");
      }
    } else if (pattern.starts_with('p')) {
      if (reject_sum(o)) return false;
      const bool pred = o.kind == Kind::sink ||
                        (o.kind == Kind::reg && function_->registers[o.index].type == Type::pred);
      if (!pred) return fail(o.where, "a predicate register");
    } else if (o.kind == Kind::address || o.kind == Kind::pair || o.kind == Kind::list) {
      return fail(o.where, "a register or a constant");
    }
    if (o.kind == Kind::vector && o.parts.size() > 1 && !takes_vectors(inst))
      return fail(o.where, "one register or constant");
    ++i;
  }
  if (i < inst.operands.size()) {
    error_at(inst.operands[i].where, "'" + std::string{inst.row->op} +
                                         "' takes fewer operands: " + std::string{inst.row->args});
    return false;
  }
  return true;
}

}  // namespace cucpu::ptx
