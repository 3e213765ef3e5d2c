// SPDX-License-Identifier: Apache-2.0
// cpu/ptx/parse_function.cpp: .entry and .func, their directives, scopes, registers and labels.
#include <algorithm>

#include "cpu/ptx/parser_impl.hpp"

namespace cucpu::ptx {

void Parser::parse_params(Function& f, std::vector<std::uint32_t>& into) {
  if (accept(")")) return;
  do {
    if (token_.kind == Token::Kind::dotted && token_.text == "hidden") {
      error(
          ".hidden parameters are set by host code of Tile IR, which the CPU device does not run; "
          "compile for sm_80, as cucore's stand-ins do (`cucore run --cpu`)");
      return skip_statement();
    }
    Head head;
    if (!parse_head(head)) return skip_statement();
    if (head.space != Space::param && head.space != Space::reg) {
      error("parameters are .param or .reg");
    }
    auto v = parse_declarator(head);
    if (!v) return skip_statement();
    if (v->space == Space::reg && (v->vector > 1 || v->array)) {
      error_at(v->where, "a .reg parameter must be a scalar");
    }
    if (v->space == Space::reg) v->reg = add_register(v->name, -1, -1, v->type);
    const auto index = static_cast<std::uint32_t>(f.variables.size());
    const ScopeEntry entry = v->space == Space::reg ? ScopeEntry{ScopeEntry::Kind::reg, v->reg}
                                                    : ScopeEntry{ScopeEntry::Kind::variable, index};
    if (v->name != "_" && !scopes_.back().names.try_emplace(v->name, entry).second) {
      error_at(v->where, "'" + std::string{v->name} + "' is already declared");
    }
    f.variables.push_back(std::move(*v));
    into.push_back(index);
  } while (accept(","));
  if (!expect(")", "after the parameters")) skip_statement();
}

std::vector<Variable> Parser::parse_prototype_params() {
  std::vector<Variable> out;
  if (accept(")")) return out;
  do {
    Head head;
    if (!parse_head(head)) break;
    auto v = parse_declarator(head);
    if (!v) break;
    out.push_back(std::move(*v));
  } while (accept(","));
  (void)expect(")", "after the parameters of a prototype");
  return out;
}

std::optional<std::array<std::uint32_t, 3>> Parser::parse_dim3(std::string_view what) {
  std::array<std::uint32_t, 3> dims{1, 1, 1};
  for (int i = 0; i < 3; ++i) {
    const auto n = parse_count(what);
    if (!n) return std::nullopt;
    dims[static_cast<std::size_t>(i)] = static_cast<std::uint32_t>(*n);
    if (!accept(",")) break;
  }
  return dims;
}

void Parser::parse_directives(Function& f) {
  while (token_.kind == Token::Kind::dotted) {
    const std::string_view word = token_.text;
    const auto number = [&](std::uint32_t& into) {
      if (const auto n = parse_count("a number")) into = static_cast<std::uint32_t>(*n);
    };
    advance();
    if (word == "maxntid")
      f.maxntid = parse_dim3("the number of threads");
    else if (word == "reqntid")
      f.reqntid = parse_dim3("the number of threads");
    else if (word == "minnctapersm")
      number(f.minnctapersm);
    else if (word == "maxnctapersm")
      number(f.maxnctapersm);
    else if (word == "maxnreg")
      number(f.maxnreg);
    else if (word == "maxclusterrank")
      number(f.maxclusterrank);
    else if (word == "minperctamemory")
      number(f.minperctamemory);
    else if (word == "reqnctapercluster")
      f.reqnctapercluster = parse_dim3("the number of blocks");
    else if (word == "explicitcluster")
      f.explicitcluster = true;
    else if (word == "blocksareclusters")
      f.blocks_are_clusters = true;
    else if (word == "noreturn")
      f.noreturn = true;
    else if (word == "abi_preserve" || word == "abi_preserve_control")
      (void)parse_count("a number");
    else if (word == "language")
      number(f.language);
    else if (word == "pragma") {
      do {
        if (token_.kind != Token::Kind::string) {
          error("expected a string after .pragma, found " + found());
          break;
        }
        f.pragmas.push_back(token_.text);
        advance();
      } while (accept(","));
      (void)expect(";", "after .pragma");
    } else {
      error("unknown directive '." + std::string{word} + "' of a function");
      return;
    }
  }
}

void Parser::parse_function(Linkage linkage, bool entry) {
  Function f;
  f.linkage = linkage;
  f.entry = entry;
  function_ = &f;
  struct Reset {  // function_ must not outlive f
    Function*& function;
    ~Reset() { function = nullptr; }
  } const reset{function_};
  scopes_.clear();
  scopes_.emplace_back();
  label_alias_.clear();
  if (accept_dot("attribute")) {
    Head ignored;
    parse_attribute(ignored);
  }
  if (accept("(")) {
    if (entry) error("an .entry returns nothing");
    parse_params(f, f.returns);
  }
  f.where = token_.where;
  f.name = name(entry ? "kernel" : "function");
  if (f.name.empty()) return skip_statement();
  if (accept("(")) parse_params(f, f.params);
  const Location directives = token_.where;
  parse_directives(f);
  if (f.blocks_are_clusters && (!f.reqntid || !f.reqnctapercluster))
    error_at(directives, ".blocksareclusters needs .reqntid and .reqnctapercluster");
  if (token_.is("{")) {
    f.defined = true;
    // Declared before the body is parsed, because functions may be recursive.
    const auto known = module_.symbols.find(f.name);
    std::uint32_t index = 0;
    if (known == module_.symbols.end()) {
      index = static_cast<std::uint32_t>(module_.functions.size());
      module_.functions.emplace_back();
      module_.functions.back().name = f.name;
      module_.functions.back().returns = f.returns;
      module_.functions.back().params = f.params;
      declare(f.name, {true, index}, f.where);
    } else {
      index = known->second.index;
      if (!known->second.function || module_.functions[index].defined) {
        error_at(f.where, "'" + std::string{f.name} + "' is already declared");
        index = static_cast<std::uint32_t>(module_.functions.size());
        module_.functions.emplace_back();
      } else if (module_.functions[index].linkage != Linkage::external &&
                 f.linkage == Linkage::internal) {
        f.linkage = module_.functions[index].linkage;
      }
    }
    parse_body();
    module_.functions[index] = std::move(f);
  } else {
    if (!expect(";", "or '{' after the head of a function")) return skip_statement();
    const auto known = module_.symbols.find(f.name);
    if (known == module_.symbols.end()) {
      declare(f.name, {true, static_cast<std::uint32_t>(module_.functions.size())}, f.where);
      module_.functions.push_back(std::move(f));
    } else if (!known->second.function) {
      error_at(f.where, "'" + std::string{f.name} + "' is already declared");
    }
  }
}

void Parser::parse_body() {
  const Location open = token_.where;
  advance();
  scopes_.emplace_back();
  while (!diagnostics_.full()) {
    if (token_.kind == Token::Kind::end) {
      error("expected '}' to close the body opened at line " + std::to_string(open.line));
      break;
    }
    if (token_.is("{")) {
      advance();
      if (scopes_.size() > 1000000) {
        error("too many nested scopes");
        break;
      }
      scopes_.emplace_back();
      function_->body.emplace_back(ScopeBegin{});
    } else if (token_.is("}")) {
      advance();
      close_scope();
      if (scopes_.size() == 1) break;
      function_->body.emplace_back(ScopeEnd{});
    } else {
      parse_statement();
    }
  }
  while (scopes_.size() > 1) close_scope();
  finish_labels();
}

// A label that is used but not defined in this scope may be defined in the enclosing scope.
void Parser::close_scope() {
  Scope inner = std::move(scopes_.back());
  scopes_.pop_back();
  for (const auto& [text, entry] : inner.names) {
    if (entry.kind != ScopeEntry::Kind::label || function_->labels[entry.index].defined) continue;
    const auto [outer, fresh] = scopes_.back().names.try_emplace(text, entry);
    if (!fresh && outer->second.kind == ScopeEntry::Kind::label) {
      label_alias_[entry.index] = outer->second.index;
    }
  }
}

void Parser::finish_labels() {
  Function& f = *function_;
  const auto root = [&](std::uint32_t label) {
    while (label_alias_[label] != label)
      label = label_alias_[label] = label_alias_[label_alias_[label]];
    return label;
  };
  for (std::uint32_t i = 0; i < f.labels.size(); ++i) {
    if (!f.labels[i].defined && label_alias_[i] == i) {
      error_at(f.labels[i].where, "label '" + std::string{f.labels[i].name} + "' is not defined");
    }
  }
  const auto fix = [&](Operand& o) {
    if (o.kind == Operand::Kind::label) o.index = root(o.index);
  };
  for (Label& label : f.labels) std::ranges::for_each(label.targets, fix);
  for (Statement& s : f.body) {
    if (auto* inst = std::get_if<Instruction>(&s)) std::ranges::for_each(inst->operands, fix);
  }
}

std::uint32_t Parser::reference_label(std::string_view text, Location where) {
  const auto index = static_cast<std::uint32_t>(function_->labels.size());
  const auto [at, fresh] =
      scopes_.back().names.try_emplace(text, ScopeEntry{ScopeEntry::Kind::label, index});
  if (!fresh) {
    if (at->second.kind == ScopeEntry::Kind::label) return at->second.index;
    error_at(where, "'" + std::string{text} + "' is not a label");
  }
  Label label;
  label.name = text;
  label.where = where;
  function_->labels.push_back(std::move(label));
  label_alias_.push_back(index);
  return index;
}

void Parser::parse_label() {
  const Location where = token_.where;
  const std::string_view text = token_.text;
  advance(), advance();
  const std::uint32_t index = reference_label(text, where);
  if (function_->labels[index].defined) {
    return error_at(where, "label '" + std::string{text} + "' is already defined");
  }
  function_->labels[index].defined = true;
  function_->labels[index].where = where;
  function_->body.emplace_back(LabelMark{index});
  const bool branch = token_.is_dot("branchtargets");
  if (branch || token_.is_dot("calltargets")) {
    advance();
    std::vector<Operand> targets;
    do {
      Operand o;
      o.where = token_.where;
      const std::string_view target = name(branch ? "label" : "function");
      if (target.empty()) return skip_statement();
      if (branch) {
        o.kind = Operand::Kind::label;
        o.index = reference_label(target, o.where);
      } else {
        const auto found = module_.symbols.find(target);
        if (found == module_.symbols.end() || !found->second.function) {
          error_at(o.where, "function '" + std::string{target} + "' is not declared");
        } else {
          o.kind = Operand::Kind::function;
          o.index = found->second.index;
        }
      }
      targets.push_back(std::move(o));
    } while (accept(","));
    (void)expect(";", "after a list of targets");
    Label& label = function_->labels[index];
    label.kind = branch ? Label::Kind::branch_targets : Label::Kind::call_targets;
    label.targets = std::move(targets);
  } else if (accept_dot("callprototype")) {
    Label label = std::move(function_->labels[index]);
    parse_prototype(label);
    function_->labels[index] = std::move(label);
  }
}

void Parser::parse_prototype(Label& label) {
  label.kind = Label::Kind::prototype;
  if (accept("(")) label.returns = parse_prototype_params();
  (void)name("prototype (usually _)");
  if (accept("(")) label.params = parse_prototype_params();
  while (token_.kind == Token::Kind::dotted) {
    if (accept_dot("noreturn")) {
      label.noreturn = true;
    } else if (accept_dot("abi_preserve") || accept_dot("abi_preserve_control")) {
      (void)parse_count("a number");
    } else {
      error("unknown directive " + found() + " of a prototype");
      advance();
    }
  }
  if (!expect(";", "after .callprototype")) skip_statement();
}

void Parser::parse_statement() {
  if (accept(";")) return;
  if (token_.kind == Token::Kind::identifier) {
    if (ahead_.is(":")) return parse_label();
    return parse_instruction(std::nullopt);
  }
  if (token_.is("@")) {
    advance();
    const bool negated = accept("!");
    const Location where = token_.where;
    const std::string_view reg = name("predicate register");
    if (reg.empty()) return skip_statement();
    const auto guard = find_register(reg);
    if (!guard || guard->kind != Operand::Kind::reg ||
        function_->registers[guard->index].type != Type::pred) {
      error_at(where, "'" + std::string{reg} + "' is not a predicate register");
      return skip_statement();
    }
    if (token_.kind != Token::Kind::identifier) {
      error("expected an instruction after a predicate, found " + found());
      return skip_statement();
    }
    return parse_instruction(Guard{guard->index, negated});
  }
  if (token_.kind == Token::Kind::dotted) {
    const std::string_view word = token_.text;
    if (word == "reg") return parse_registers();
    if (word == "loc") return parse_loc();
    if (word == "loc_intermediate") return parse_intermediate_loc();
    if (word == "file") return parse_file();
    if (word == "section") return parse_section();
    if (word == "pragma") {
      for (const std::string_view text : parse_pragma()) function_->body.emplace_back(Pragma{text});
      return;
    }
    if (word == "local" || word == "shared" || word == "param" || word == "global" ||
        word == "const" || word == "align" || word == "attribute" || word == "shared::cta") {
      return parse_local_variables();
    }
  }
  error("expected an instruction, a label or a declaration, found " + found());
  advance();
  skip_statement();
}

/// True if a function may declare the variable; reports an error otherwise.
bool Parser::check_variable(const Variable& v) {
  const std::string who = "'" + std::string{v.name} + "'";
  if (v.space == Space::reg) {
    error_at(v.where, "the declaration of register " + who + " must begin with .reg");
  } else if (v.type == Type::texref || v.type == Type::samplerref || v.type == Type::surfref) {
    error_at(v.where, "the texture, sampler or surface reference " + who +
                          " must be declared at module level");
  } else if (v.unsized) {
    error_at(v.where, who + " needs a size: only .extern variables of a module have none");
  } else {
    return true;
  }
  return false;
}

// Variables with static lifetime become module variables that only this scope can name: .global and
// .const variables, and .shared variables of device functions, which all calling kernels share.
void Parser::parse_local_variables() {
  Head head;
  if (!parse_head(head)) {
    if (token_.kind != Token::Kind::end) advance();
    return skip_statement();
  }
  do {
    auto all = parse_declarators(head);
    if (!all) return skip_statement();
    for (Variable& v : *all) {
      if (!check_variable(v)) return skip_statement();
      const bool in_module = v.space == Space::global || v.space == Space::constant ||
                             (v.space == Space::shared && !function_->entry);
      v.scoped = in_module;
      std::vector<Variable>& list = in_module ? module_.variables : function_->variables;
      const auto index = static_cast<std::uint32_t>(list.size());
      const auto kind = in_module ? ScopeEntry::Kind::module_variable : ScopeEntry::Kind::variable;
      if (!scopes_.back().names.try_emplace(v.name, ScopeEntry{kind, index}).second) {
        error_at(v.where, "'" + std::string{v.name} + "' is already declared");
      }
      list.push_back(std::move(v));
      function_->body.emplace_back(Declaration{
          in_module ? Declaration::Kind::module_variable : Declaration::Kind::variable, index});
    }
  } while (accept(","));
  if (!expect(";", "after a declaration")) skip_statement();
}

std::uint32_t Parser::add_register(std::string_view text, std::int32_t number,
                                   std::int8_t component, Type type) {
  function_->registers.push_back({text, number, component, type});
  return static_cast<std::uint32_t>(function_->registers.size() - 1);
}

/// Adds the register of a declaration, or the consecutive components of a vector register.
std::uint32_t Parser::add_registers(const RegisterDecl& decl, std::int32_t number) {
  if (decl.vector == 1) return add_register(decl.name, number, -1, decl.type);
  const std::uint32_t first = add_register(decl.name, number, 0, decl.type);
  for (int i = 1; i < decl.vector; ++i)
    add_register(decl.name, number, static_cast<std::int8_t>(i), decl.type);
  return first;
}

void Parser::parse_registers() {
  Head head;
  if (!parse_head(head)) {
    if (token_.kind != Token::Kind::end) advance();
    return skip_statement();
  }
  if (head.vector > 1 && (head.type == Type::pred || head.vector * bits_of(head.type) > 128)) {
    error("a vector register has up to 128 bits, and none are predicates");
    return skip_statement();
  }
  do {
    const Location where = token_.where;
    const std::string_view text = name("register");
    if (text.empty()) return skip_statement();
    RegisterDecl decl{head.type, head.vector, text, -1};
    bool fresh = true;
    if (accept("<")) {
      if (token_.kind != Token::Kind::integer || token_.value > 0x7fffffff) {
        error("expected the number of registers, found " + found());
        return skip_statement();
      }
      decl.count = static_cast<std::int64_t>(token_.value);
      advance();
      if (!expect(">", "after the number of registers")) return skip_statement();
      fresh = scopes_.back().ranges.try_emplace(text, RegisterRange{decl, {}}).second;
    } else {
      const auto kind = head.vector > 1 ? ScopeEntry::Kind::vector_reg : ScopeEntry::Kind::reg;
      const ScopeEntry entry{kind, add_registers(decl, -1)};
      fresh = scopes_.back().names.try_emplace(text, entry).second;
    }
    if (!fresh) error_at(where, "'" + std::string{text} + "' is already declared");
    function_->body.emplace_back(Declaration{
        Declaration::Kind::reg, static_cast<std::uint32_t>(function_->register_decls.size())});
    function_->register_decls.push_back(decl);
  } while (accept(","));
  if (!expect(";", "after .reg")) skip_statement();
}

// .loc file line column [, function_name label [+ offset], inlined_at file line column]
/// A position in the Tile IR that the PTX was made from.
void Parser::parse_intermediate_loc() {
  advance();
  for (int i = 0; i < 3; ++i) {
    if (token_.kind != Token::Kind::integer)
      return error("expected file, line and column after .loc_intermediate, found " + found());
    advance();
  }
}

void Parser::parse_loc() {
  advance();
  SourceLine line{};
  for (std::uint32_t* into : {&line.file, &line.line, &line.column}) {
    if (token_.kind != Token::Kind::integer) {
      return error("expected file, line and column after .loc, found " + found());
    }
    *into = static_cast<std::uint32_t>(token_.value);
    advance();
  }
  while (token_.is(",")) {
    advance();
    const std::string_view word = name("attribute of .loc");
    if (word == "function_name") {
      if (token_.kind == Token::Kind::dotted)
        advance();
      else
        (void)name("label");
      if (accept("+")) (void)parse_count("an offset");
    } else if (word == "inlined_at") {
      for (int i = 0; i < 3 && token_.kind == Token::Kind::integer; ++i) advance();
    } else if (!word.empty()) {
      error("unknown attribute '" + std::string{word} + "' of .loc");
    } else {
      return;
    }
  }
  if (function_ != nullptr) function_->body.emplace_back(line);
}

}  // namespace cucpu::ptx
