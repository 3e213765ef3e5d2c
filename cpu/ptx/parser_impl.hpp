// SPDX-License-Identifier: Apache-2.0
// cpu/ptx/parser_impl.hpp: the parser class, implemented in parse_module.cpp, parse_variable.cpp,
// parse_function.cpp, parse_instruction.cpp and parse_constant.cpp.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cpu/ptx/ast.hpp"
#include "cpu/ptx/lexer.hpp"

namespace cucpu::ptx {

/// The value of a constant expression.
struct Constant {
  enum class Kind : std::uint8_t { integer, f32, f64 } kind = Kind::integer;
  bool is_unsigned = false;
  std::uint64_t value = 0;  ///< integer, or the bits of the float
};

/// A register range: `.reg .b32 %r<10>`. Members get an index on first use.
struct RegisterRange {
  RegisterDecl decl;
  std::unordered_map<std::uint32_t, std::uint32_t> members;  ///< number to (first) register index
};

struct ScopeEntry {
  enum class Kind : std::uint8_t { reg, vector_reg, variable, module_variable, label } kind;
  std::uint32_t index;
};

struct Scope {
  std::unordered_map<std::string_view, ScopeEntry> names;
  std::unordered_map<std::string_view, RegisterRange> ranges;
};

class Parser {
 public:
  Parser(Module& module, Diagnostics& diagnostics, std::uint32_t device);
  int run();  ///< 0, 218 or 222

 private:
  // Tokens.
  void advance();
  [[nodiscard]] bool accept(std::string_view punct);
  [[nodiscard]] bool accept_dot(std::string_view word);
  bool expect(std::string_view punct, std::string_view where);
  void error(std::string text) { diagnostics_.error(token_.where, std::move(text)); }
  void error_at(Location where, std::string text) { diagnostics_.error(where, std::move(text)); }
  [[nodiscard]] std::string found() const;  ///< "'x'" or "end of text"
  void skip_statement();                    ///< past the next ';', or up to a '}' of this level
  std::string_view name(std::string_view what);

  // parse_module.cpp
  bool parse_version();
  void parse_target();
  void parse_top();
  void parse_section();
  std::vector<std::string_view> parse_pragma();  ///< the strings after .pragma
  void parse_file();
  void parse_alias();
  void declare(std::string_view name, Symbol symbol, Location where);
  [[nodiscard]] std::optional<Symbol> find_symbol(std::string_view name) const;

  // parse_variable.cpp
  struct Head {  ///< the part of a declaration before the name
    Linkage linkage = Linkage::internal;
    Space space = Space::generic;
    Type type = Type::none;
    std::uint8_t vector = 1;
    std::uint32_t align = 0;
    bool managed = false, unified = false;
    bool pointer = false;
    Space pointer_space = Space::generic;
    std::uint32_t pointer_align = 0;
  };
  bool parse_head(Head& head);
  void parse_attribute(Head& head);
  std::optional<Variable> parse_declarator(const Head& head);
  std::optional<std::vector<Variable>> parse_declarators(const Head& head);
  void parse_initializer(Variable& variable);
  void parse_element(Variable& variable, std::uint64_t offset);
  void parse_module_variables(Linkage linkage);
  std::optional<Linkage> accept_linkage();

  // parse_constant.cpp
  std::optional<Constant> parse_constant() { return parse_conditional(0); }
  std::optional<Constant> parse_conditional(int depth);
  std::optional<Constant> parse_binary(int level, int depth);
  std::optional<Constant> parse_unary(int depth);
  std::optional<std::uint64_t> parse_count(std::string_view what);  ///< a non-negative integer

  // parse_function.cpp
  void parse_function(Linkage linkage, bool entry);
  void parse_params(Function& f, std::vector<std::uint32_t>& into);
  std::vector<Variable> parse_prototype_params();
  void parse_directives(Function& f);
  std::optional<std::array<std::uint32_t, 3>> parse_dim3(std::string_view what);
  void parse_body();
  void parse_statement();
  void parse_registers();
  void parse_local_variables();
  [[nodiscard]] bool check_variable(const Variable& variable);
  void parse_label();
  void parse_prototype(Label& label);
  void parse_loc();
  void parse_intermediate_loc();
  void close_scope();
  void finish_labels();
  std::uint32_t reference_label(std::string_view name, Location where);

  // parse_instruction.cpp
  void parse_instruction(std::optional<Guard> guard);
  void parse_call(Instruction& inst);
  bool parse_operands(Instruction& inst);
  std::optional<Operand> parse_operand(bool label, int depth = 0);
  std::optional<Operand> parse_simple(bool label, int depth);
  std::optional<Operand> parse_name(bool label);
  std::optional<Operand> parse_variable_operand(Operand o, const Variable& variable);
  std::optional<Operand> parse_address(int depth);
  std::optional<Operand> parse_group(std::string_view close, Operand::Kind kind, int depth);
  bool offset_after(Operand& operand);
  [[nodiscard]] bool reject_sum(const Operand& operand);
  [[nodiscard]] Type type_of_operand(const Operand& operand) const;
  std::optional<Operand> find_register(std::string_view name);
  std::uint32_t add_register(std::string_view name, std::int32_t number, std::int8_t component,
                             Type type);
  std::uint32_t add_registers(const RegisterDecl& decl, std::int32_t number);
  [[nodiscard]] Operand vector_of(std::uint32_t first) const;
  bool match(Instruction& inst, std::string_view op, const std::vector<Token>& words);
  bool check_operands(const Instruction& inst);

  static constexpr int kMaxDepth = 200;
  static constexpr int kProduct = 9;  ///< precedence level of '*' and '/' in parse_binary

  Module& module_;
  Diagnostics& diagnostics_;
  const std::uint32_t device_;  ///< compute capability of the device, times ten
  Lexer lexer_;
  Token token_, ahead_;
  Function* function_ = nullptr;  ///< the function being parsed
  bool indexed_ = false;          ///< the operand was written as `array[2]`
  bool takes_minus_ = false;      ///< the instruction's operands may be written as `-register`
  std::vector<Scope> scopes_;
  std::vector<std::uint32_t> label_alias_;  ///< label -> equivalent label of an outer scope
};

}  // namespace cucpu::ptx
