// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/function_debug.cpp
#include "cpu/engine/translate/function_debug.hpp"

#include <llvm/BinaryFormat/Dwarf.h>
#include <llvm/Demangle/Demangle.h>

#include <algorithm>
#include <cstdlib>

#include "cpu/engine/translate/function_translator.hpp"
#include "cpu/engine/translate/passes.hpp"

namespace cucpu::ir {
namespace {

using llvm::DIType;
using llvm::dwarf::DW_OP_deref;
using llvm::dwarf::DW_OP_plus_uconst;

/// The name of a variable inside a function: `tile` of `_ZZ6kernelE4tile`.
std::string source_name(std::string_view symbol) {
  std::string name = llvm::demangle(symbol);
  if (const std::size_t colons = name.rfind("::"); colons != std::string::npos)
    name.erase(0, colons + 2);
  return name;
}

std::string function_name(std::string_view symbol) {
  llvm::ItaniumPartialDemangler demangler;
  if (demangler.partialDemangle(std::string{symbol}.c_str())) return std::string{symbol};
  char* const base = demangler.getFunctionBaseName(nullptr, nullptr);
  std::string name{base ? std::string_view{base} : symbol};
  std::free(base);
  return name;
}

/// promote_registers() leaves it alone.
void keep_in_memory(llvm::AllocaInst* slot) {
  slot->setMetadata(kVariable, llvm::MDNode::get(slot->getContext(), {}));
}

/// The subprogram of a function of which only a name and a line are known.
llvm::DISubprogram* make_subprogram(ModuleTranslator& module, llvm::DIFile* file,
                                    std::string_view name, llvm::StringRef linkage, unsigned line) {
  auto* type = module.debug.createSubroutineType(module.debug.getOrCreateTypeArray({}));
  return module.debug.createFunction(file, function_name(name), linkage, file, line, type, line,
                                     llvm::DINode::FlagZero, llvm::DISubprogram::SPFlagDefinition);
}

}  // namespace

std::unique_ptr<FunctionDebug> FunctionDebug::make(FunctionTranslator& t) {
  ModuleTranslator& module = t.module;
  std::unique_ptr<FunctionDebug> debug{new FunctionDebug{t}};
  const auto index = static_cast<std::uint32_t>(&t.source - module.source.functions.data());
  llvm::DISubprogram* subprogram = nullptr;
  if (module.source_info) {
    const auto found = module.source_info->functions.find(index);
    if (found != module.source_info->functions.end()) {
      debug->source_ = &found->second;
      subprogram = found->second.subprogram;
      debug->in_prologue_ = true;
    }
  }
  if (subprogram == nullptr) {
    const auto line = std::ranges::find_if(t.source.body, [](const ptx::Statement& s) {
      return std::holds_alternative<ptx::SourceLine>(s);
    });
    if (line != t.source.body.end()) {
      const auto& first = std::get<ptx::SourceLine>(*line);
      subprogram = make_subprogram(module, module.debug_file(first.file), t.source.name,
                                   t.out.getName(), first.line);
    } else if (llvm::DIFile* const text = module.debug_ptx_file()) {
      debug->of_ptx_ = true;
      subprogram =
          make_subprogram(module, text, t.source.name, t.out.getName(), t.source.where.line);
    } else {
      return nullptr;
    }
  }
  t.out.setSubprogram(subprogram);
  t.subprogram_ = subprogram;
  debug->scope_ = subprogram;
  if (debug->source_) {
    auto& changes = debug->changes_;
    for (const SourceScope& scope : debug->source_->scopes)
      changes.insert(changes.end(), {scope.begin, scope.end});
    for (const SourceVariable& variable : debug->source_->variables)
      for (const SourcePlace& place : variable.places)
        if (!variable.fixed) changes.insert(changes.end(), {place.begin, place.end});
    std::ranges::sort(changes);
    changes.erase(std::unique(changes.begin(), changes.end()), changes.end());
  }
  t.b.SetCurrentDebugLocation(llvm::DILocation::get(t.out.getContext(), 0, 0, subprogram));
  return debug;
}

// ---- positions ----

void FunctionDebug::set_line(const ptx::SourceLine& line) {
  // A function begins with its own line in column 0 until its parameters are in their registers.
  // These statements are the prologue: breakpoints at the function are placed after them.
  const bool first = line.column == 0 && line.line == scope_->getSubprogram()->getLine();
  if (!first) in_prologue_ = false;
  line_ = line;
  update_position();
}

void FunctionDebug::begin_statement(std::size_t statement) {
  statement_ = static_cast<std::uint32_t>(statement);
  if (of_ptx_) {
    if (const auto* i = std::get_if<Instruction>(&t_.source.body[statement])) {
      line_ = {0, i->where.line, i->where.column};
      update_position();
    }
    return;
  }
  if (next_change_ >= changes_.size() || statement_ < changes_[next_change_]) return;
  while (next_change_ < changes_.size() && changes_[next_change_] <= statement_) ++next_change_;
  scope_ = source_->subprogram;
  inlined_at_ = nullptr;
  for (const SourceScope& scope : source_->scopes) {  // inner scopes come later
    if (statement_ < scope.begin || statement_ >= scope.end) continue;
    scope_ = scope.scope;
    inlined_at_ = scope.inlined_at;
  }
  update_position();
  update_values();
}

void FunctionDebug::begin_block() { update_values(); }

void FunctionDebug::update_position() {
  llvm::DILocalScope* scope = scope_;
  if (!of_ptx_ && line_.line != 0) {
    llvm::DIFile* const file = t_.module.debug_file(line_.file);
    if (file != scope->getFile()) scope = t_.module.debug.createLexicalBlockFile(scope, file);
  }
  const bool known = !in_prologue_;
  t_.b.SetCurrentDebugLocation(llvm::DILocation::get(t_.out.getContext(), known ? line_.line : 0,
                                                     known ? line_.column : 0, scope, inlined_at_));
}

/// Variables that move between registers: their places from here to the end of the block.
void FunctionDebug::update_values() {
  if (!source_ || t_.b.GetInsertBlock()->getTerminator() != nullptr) return;
  for (const SourceVariable& variable : source_->variables) {
    if (variable.fixed) continue;
    llvm::Value* place = nullptr;
    for (const SourcePlace& candidate : variable.places)
      if (candidate.begin <= statement_ && statement_ < candidate.end)
        place = register_of(candidate.reg);
    const std::uint64_t deref[] = {DW_OP_deref};
    llvm::DIBuilder& builder = t_.module.debug;
    llvm::BasicBlock* const block = t_.b.GetInsertBlock();
    if (place)
      builder.insertDbgValueIntrinsic(place, variable.variable, builder.createExpression(deref),
                                      variable.where, block);
    else
      builder.insertDbgValueIntrinsic(llvm::PoisonValue::get(t_.b.getInt32Ty()), variable.variable,
                                      builder.createExpression(), variable.where, block);
  }
}

// ---- variables ----

void FunctionDebug::declare(llvm::Value* address, llvm::DILocalVariable* variable,
                            llvm::DILocation* where, llvm::ArrayRef<std::uint64_t> expression) {
  if (auto* slot = llvm::dyn_cast<llvm::AllocaInst>(address)) keep_in_memory(slot);
  t_.module.debug.insertDeclare(address, variable, t_.module.debug.createExpression(expression),
                                where, t_.b.GetInsertBlock());
}

void FunctionDebug::declare_at(llvm::Value* address, llvm::DILocalVariable* variable,
                               llvm::DILocation* where) {
  llvm::AllocaInst* const slot = t_.b.CreateAlloca(t_.b.getPtrTy());
  t_.b.CreateStore(address, slot);
  declare(slot, variable, where, {DW_OP_deref});
}

void FunctionDebug::declare_at(llvm::Value* address, llvm::StringRef name, DIType* type) {
  llvm::DISubprogram* const scope = t_.subprogram_;
  declare_at(address,
             t_.module.debug.createAutoVariable(scope, name, scope->getFile(), scope->getLine(),
                                                type, true),
             llvm::DILocation::get(t_.out.getContext(), scope->getLine(), 0, scope));
}

void FunctionDebug::declare_variables() {
  declare_builtins();
  declare_shared();
  if (source_) {
    declare_source_variables();
  } else {
    declare_parameters();
    if (of_ptx_) declare_registers();
  }
}

/// threadIdx, blockIdx, blockDim and gridDim, with the types that CUDA C++ gives them.
void FunctionDebug::declare_builtins() {
  llvm::DIBuilder& builder = t_.module.debug;
  llvm::DISubprogram* const scope = t_.subprogram_;
  llvm::DIFile* const file = scope->getFile();
  DIType* const word = type_of(Type::u32);
  const auto triple = [&](const char* name) -> DIType* {
    llvm::DICompositeType* made =
        builder.createStructType(file, name, file, 0, 96, 32, llvm::DINode::FlagZero, nullptr, {});
    llvm::Metadata* members[3];
    for (unsigned d = 0; d < 3; ++d)
      members[d] = builder.createMemberType(made, llvm::StringRef{"xyz"}.substr(d, 1), file, 0, 32,
                                            32, 32 * d, llvm::DINode::FlagZero, word);
    builder.replaceArrays(made, builder.getOrCreateArray(members));
    return made;
  };
  struct Builtin {
    const char *name, *type, *special;
  };
  for (const auto& [name, type, special] : {Builtin{"threadIdx", "uint3", "sreg.tid."},
                                            {"blockIdx", "uint3", "sreg.ctaid."},
                                            {"blockDim", "dim3", "sreg.ntid."},
                                            {"gridDim", "dim3", "sreg.nctaid."}}) {
    llvm::AllocaInst* const slot = t_.b.CreateAlloca(llvm::ArrayType::get(t_.b.getInt32Ty(), 3));
    for (unsigned d = 0; d < 3; ++d) {
      llvm::Value* const value =
          t_.call_marker((llvm::StringRef{special} + llvm::StringRef{"xyz"}.substr(d, 1)).str(),
                         t_.b.getInt32Ty(), {}, ModuleTranslator::Effect::none);
      t_.b.CreateStore(value,
                       t_.b.CreateConstInBoundsGEP2_32(slot->getAllocatedType(), slot, 0, d));
    }
    declare(slot,
            builder.createAutoVariable(scope, name, file, scope->getLine(), triple(type), true),
            llvm::DILocation::get(t_.out.getContext(), scope->getLine(), 0, scope));
  }
}

void FunctionDebug::declare_shared() {
  const ptx::Module& module = t_.module.source;
  const std::vector<Type> elements = shared_elements();
  const auto at = [&](Operand::Kind kind, std::size_t index) {
    Operand operand;
    operand.kind = kind;
    operand.index = static_cast<std::uint32_t>(index);
    return t_.b.CreateGEP(t_.b.getInt8Ty(), t_.shared_base(),
                          t_.b.CreateZExtOrTrunc(t_.address_of(operand), t_.b.getInt64Ty()));
  };
  const auto add = [&](const ptx::Variable& v, llvm::Value* address, Type element) {
    if (t_.module.source_info) {
      const auto& globals = t_.module.source_info->globals;
      if (const auto known = globals.find(v.name); known != globals.end() && known->second.type)
        return declare_at(address, known->second.name, known->second.type);
    }
    declare_at(address, source_name(v.name), type_of(v, element));
  };
  for (std::size_t i = 0; i < t_.source.variables.size(); ++i)
    if (const ptx::Variable& v = t_.source.variables[i]; v.space == Space::shared)
      add(v, at(Operand::Kind::local, i), elements[module.variables.size() + i]);
  std::vector<char> used(module.variables.size(), t_.source.entry);
  const auto visit = [&](const auto& self, const Operand& o) -> void {
    if (o.kind == Operand::Kind::global) used[o.index] = 1;
    for (const Operand& part : o.parts) self(self, part);
  };
  for (const ptx::Statement& s : t_.source.body)
    if (const auto* i = std::get_if<Instruction>(&s))
      for (const Operand& o : i->operands) visit(visit, o);
  for (std::size_t i = 0; i < module.variables.size(); ++i)
    if (used[i] && t_.module_shared_[i] != -1 && module.variables[i].space == Space::shared)
      add(module.variables[i], at(Operand::Kind::global, i), elements[i]);
}

/// The element types of shared variables by the accesses to them: PTX declares them as bytes. First
/// those of the module, then those of the function; b8 where accesses differ.
std::vector<Type> FunctionDebug::shared_elements() const {
  const std::size_t globals = t_.module.source.variables.size();
  constexpr std::size_t kNone = ~std::size_t{0};
  std::vector<std::size_t> points_to(t_.source.registers.size(), kNone);
  std::vector<Type> found(globals + t_.source.variables.size(), Type::pred);  // pred: no access
  const auto variable_of = [&](const auto& self, const Operand& o) -> std::size_t {
    if (o.kind == Operand::Kind::reg) return points_to[o.index];
    if (o.kind == Operand::Kind::global) return o.index;
    if (o.kind == Operand::Kind::local) return globals + o.index;
    for (const Operand& part : o.parts)
      if (const std::size_t v = self(self, part); v != kNone) return v;
    return kNone;
  };
  for (int round = 0; round < 2; ++round) {  // twice: loops carry addresses backwards
    for (const ptx::Statement& s : t_.source.body) {
      const auto* i = std::get_if<Instruction>(&s);
      if (i == nullptr || i->operands.empty()) continue;
      const auto address = std::ranges::find(i->operands, Operand::Kind::address, &Operand::kind);
      if (address != i->operands.end()) {
        const std::size_t v = variable_of(variable_of, *address);
        if (v == kNone) continue;
        const Type type = i->types[0];
        if (found[v] == Type::pred) found[v] = type;
        if (found[v] != type) found[v] = Type::b8;
      } else if (i->operands[0].kind == Operand::Kind::reg && i->row->emit != ptx::Emit::call) {
        for (std::size_t k = 1; k < i->operands.size(); ++k)
          if (const std::size_t v = variable_of(variable_of, i->operands[k]); v != kNone)
            points_to[i->operands[0].index] = v;
      }
    }
  }
  return found;
}

void FunctionDebug::declare_source_variables() {
  for (const SourceVariable& variable : source_->variables) {
    if (!variable.fixed) {
      for (const SourcePlace& place : variable.places)
        if (llvm::AllocaInst* const slot = register_of(place.reg)) keep_in_memory(slot);
      continue;
    }
    if (variable.places.empty()) {
      // A parameter of a kernel whose copy has no place: the parameter itself.
      if (variable.parameter == 0 || !t_.source.entry ||
          variable.parameter > t_.source.params.size())
        continue;
      const std::uint32_t index = t_.source.params[variable.parameter - 1];
      declare_at(t_.offset_pointer(t_.params_base(), t_.variable_offset_[index]), variable.variable,
                 variable.where);
      continue;
    }
    const SourcePlace& place = variable.places.front();
    if (!place.reg.empty()) {
      if (llvm::AllocaInst* const slot = register_of(place.reg))
        declare(slot, variable.variable, variable.where);
      continue;
    }
    for (std::size_t i = 0; i < t_.source.variables.size(); ++i)
      if (t_.source.variables[i].name == place.symbol && t_.variable_ptr_[i] != nullptr)
        declare(t_.variable_ptr_[i], variable.variable, variable.where,
                {DW_OP_plus_uconst, place.offset});
  }
}

/// The parameters of a kernel without DWARF, with their PTX names and types.
void FunctionDebug::declare_parameters() {
  if (!t_.source.entry) return;
  for (const std::uint32_t index : t_.source.params) {
    const ptx::Variable& v = t_.source.variables[index];
    declare_at(t_.offset_pointer(t_.params_base(), t_.variable_offset_[index]),
               llvm::StringRef{v.name.data(), v.name.size()}, type_of(v, v.type));
  }
}

/// `%r12` is the variable `r12`.
void FunctionDebug::declare_registers() {
  llvm::DISubprogram* const scope = t_.subprogram_;
  for (std::size_t r = 0; r < t_.source.registers.size(); ++r) {
    const ptx::Register& reg = t_.source.registers[r];
    std::string name{reg.name};
    if (name.starts_with('%')) name.erase(0, 1);
    if (reg.number >= 0) name += std::to_string(reg.number);
    if (reg.component >= 0) name += std::string{"_"} + "xyzw"[reg.component & 3];
    declare(t_.registers_[r],
            t_.module.debug.createAutoVariable(scope, name, scope->getFile(), scope->getLine(),
                                               type_of(reg.type), true),
            llvm::DILocation::get(t_.out.getContext(), scope->getLine(), 0, scope));
  }
}

llvm::AllocaInst* FunctionDebug::register_of(std::string_view name) const {
  for (std::size_t r = 0; r < t_.source.registers.size(); ++r) {
    const ptx::Register& reg = t_.source.registers[r];
    if (!name.starts_with(reg.name) || reg.component >= 0) continue;
    const std::string_view rest = name.substr(reg.name.size());
    if (reg.number < 0 ? rest.empty() : rest == std::to_string(reg.number)) return t_.registers_[r];
  }
  return nullptr;
}

DIType* FunctionDebug::type_of(Type type) {
  using namespace llvm::dwarf;
  struct Basic {
    const char* name;
    unsigned encoding;
  };
  const unsigned bits = std::max(ptx::bits_of(type), 8u);
  const bool sign = ptx::class_of(type) == ptx::Class::signed_int;
  const auto basic = [&]() -> Basic {
    if (type == Type::pred) return {"bool", DW_ATE_boolean};
    if (type == Type::f64) return {"double", DW_ATE_float};
    if (type == Type::f32) return {"float", DW_ATE_float};
    if (type == Type::f16) return {"_Float16", DW_ATE_float};
    switch (bits) {
      case 8:
        return sign ? Basic{"signed char", DW_ATE_signed_char}
                    : Basic{"unsigned char", DW_ATE_unsigned_char};
      case 16:
        return sign ? Basic{"short", DW_ATE_signed} : Basic{"unsigned short", DW_ATE_unsigned};
      case 32:
        return sign ? Basic{"int", DW_ATE_signed} : Basic{"unsigned int", DW_ATE_unsigned};
      case 64:
        return sign ? Basic{"long", DW_ATE_signed} : Basic{"unsigned long", DW_ATE_unsigned};
      default:
        return {"unsigned __int128", DW_ATE_unsigned};
    }
  }();
  return t_.module.debug.createBasicType(basic.name, bits, basic.encoding);
}

DIType* FunctionDebug::type_of(const ptx::Variable& v, Type element) {
  if (v.type != Type::b8 || element == Type::pred) element = v.type;
  DIType* const of = type_of(element);
  const std::uint64_t bytes = std::max(ptx::bits_of(element) / 8, 1u);
  if (!v.array && v.vector == 1 && v.size <= bytes) return of;
  llvm::DIBuilder& builder = t_.module.debug;
  return builder.createArrayType(v.size * 8, 0, of,
                                 builder.getOrCreateArray({builder.getOrCreateSubrange(
                                     0, static_cast<std::int64_t>(v.size / bytes))}));
}

}  // namespace cucpu::ir
