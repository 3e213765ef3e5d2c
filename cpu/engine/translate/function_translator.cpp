// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/function_translator.cpp: set-up of a function and the walk over its
// statements.
#include "cpu/engine/translate/function_translator.hpp"

#include <llvm/IR/InstIterator.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include <algorithm>

#include "cpu/engine/translate/function_debug.hpp"
#include "cpu/engine/translate/passes.hpp"

namespace cucpu::ir {

namespace {

constexpr std::uint64_t align_to(std::uint64_t n, std::uint64_t align) {
  return (n + align - 1) / align * align;
}

}  // namespace

FunctionTranslator::FunctionTranslator(ModuleTranslator& module, const ptx::Function& source,
                                       llvm::Function& out)
    : module{module}, source{source}, out{out}, b{out.getContext()} {}

FunctionTranslator::~FunctionTranslator() = default;

void FunctionTranslator::run() {
  entry_ = llvm::BasicBlock::Create(out.getContext(), "entry", &out);
  auto* body = llvm::BasicBlock::Create(out.getContext(), "body", &out);
  b.SetInsertPoint(entry_);
  start_debug();
  choose_register_types();
  create_registers();
  layout_params();
  layout_variables();
  receive_arguments();
  if (debug_) debug_->declare_variables();
  b.CreateBr(body);
  b.SetInsertPoint(body);
  labels_.reserve(source.labels.size());
  for (const ptx::Label& label : source.labels) {
    labels_.push_back(llvm::BasicBlock::Create(
        out.getContext(), llvm::StringRef{label.name.data(), label.name.size()}));
  }
  for (const ptx::Statement& s : source.body) {
    if (debug_) debug_->begin_statement(static_cast<std::size_t>(&s - source.body.data()));
    if (const auto* i = std::get_if<Instruction>(&s)) {
      if (has_ptx_lines_)
        b.SetCurrentDebugLocation(
            llvm::DILocation::get(out.getContext(), i->where.line, i->where.column, subprogram_));
      statement(*i);
    } else if (const auto* mark = std::get_if<ptx::LabelMark>(&s)) {
      if (source.labels[mark->label].kind != ptx::Label::Kind::code) continue;
      llvm::BasicBlock* block = labels_[mark->label];
      if (b.GetInsertBlock()->getTerminator() == nullptr) b.CreateBr(block);
      start_block(block);
    } else if (const auto* line = std::get_if<ptx::SourceLine>(&s)) {
      set_line(*line);
    }
  }
  finish();
}

// NVRTC keeps floats in .b32 registers. Such a register has the type that most of its instructions
// use, which keeps bitcasts, and the places where NaNs must be canonical, out of loops.
void FunctionTranslator::choose_register_types() {
  std::vector<int> votes(source.registers.size(), 0);
  const auto vote = [&](const Operand& o, int n) {
    if (o.kind == Operand::Kind::reg) votes[o.index] += n;
  };
  for (const ptx::Statement& s : source.body) {
    const auto* i = std::get_if<Instruction>(&s);
    if (i == nullptr) continue;
    if (i->row->emit == ptx::Emit::mov || i->row->emit == ptx::Emit::mov_vector ||
        i->row->emit == ptx::Emit::selp || i->row->emit == ptx::Emit::ld ||
        i->row->emit == ptx::Emit::st) {
      continue;
    }
    const bool convert = i->row->emit == ptx::Emit::cvt;
    for (std::size_t k = 0; k < i->operands.size(); ++k) {
      const Type t = i->types[convert && k == 1 ? 1 : 0];
      const bool floating = t == Type::f32 || t == Type::f64 || t == Type::f16;
      const Operand& o = i->operands[k];
      vote(o, floating ? 1 : -1);
      for (const Operand& p : o.parts)
        vote(p, floating && o.kind != Operand::Kind::address ? 1 : -1);
    }
  }
  float_votes_.assign(source.registers.size(), 0);
  for (std::size_t r = 0; r < votes.size(); ++r) float_votes_[r] = votes[r] > 0;
}

void FunctionTranslator::create_registers() {
  registers_.reserve(source.registers.size());
  for (std::size_t r = 0; r < source.registers.size(); ++r) {
    const Type t = source.registers[r].type;
    llvm::Type* type = type_of(t);
    if (float_votes_[r] != 0 && ptx::class_of(t) == ptx::Class::bits) {
      if (t == Type::b16) type = b.getHalfTy();
      if (t == Type::b32) type = b.getFloatTy();
      if (t == Type::b64) type = b.getDoubleTy();
    }
    registers_.push_back(b.CreateAlloca(type));
  }
}

void FunctionTranslator::layout_params() {
  variable_ptr_.assign(source.variables.size(), nullptr);
  variable_offset_.assign(source.variables.size(), 0);
  if (!source.entry) return;
  std::uint64_t offset = 0;
  for (std::uint32_t index : source.params) {
    const ptx::Variable& v = source.variables[index];
    offset = align_to(offset, v.align);
    variable_offset_[index] = offset;
    params.push_back(
        {static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(v.size), v.align});
    offset += v.size;
  }
  param_bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(offset, UINT32_MAX));
}

// Shared memory of a kernel: first the variables that its device functions use (SharedLayout), then
// its own variables and those of the module that only it uses, then dynamic shared memory.
void FunctionTranslator::layout_variables() {
  module_shared_.assign(module.source.variables.size(), -1);
  std::uint64_t shared = 0, dynamic_align = 16;
  bool calls = !source.entry;
  std::vector<char> used(module.source.variables.size(), 0);
  const auto visit = [&](const auto& self, const Operand& o) -> void {
    if (o.kind == Operand::Kind::global) used[o.index] = 1;
    for (const Operand& p : o.parts) self(self, p);
  };
  for (const ptx::Statement& s : source.body) {
    const auto* i = std::get_if<Instruction>(&s);
    if (i == nullptr) continue;
    if (i->row->emit == ptx::Emit::call) calls = true;
    for (const Operand& o : i->operands) visit(visit, o);
  }
  const auto index = static_cast<std::size_t>(&source - module.source.functions.data());
  if (source.entry) shared = module.shared.bytes(module.number, index);
  const auto place = [&](const ptx::Variable& v) {
    shared = align_to(shared, v.align);
    const std::uint64_t at = shared;
    shared += v.size;
    return at;
  };
  for (std::size_t i = 0; i < module.source.variables.size(); ++i) {
    const ptx::Variable& v = module.source.variables[i];
    if (v.space != Space::shared) continue;
    if (v.unsized) {
      module_shared_[i] = -2;
      if (used[i] != 0 || calls) dynamic_align = std::max<std::uint64_t>(dynamic_align, v.align);
    } else if (!source.entry || module.shared.reaches(module.number, index, i)) {
      module_shared_[i] = static_cast<std::int64_t>(module.shared.offset(module.number, i));
    } else if (used[i] != 0) {
      module_shared_[i] = static_cast<std::int64_t>(place(v));
    }
  }
  for (std::size_t i = 0; i < source.variables.size(); ++i) {
    const ptx::Variable& v = source.variables[i];
    const bool param = std::ranges::find(source.params, i) != source.params.end() ||
                       std::ranges::find(source.returns, i) != source.returns.end();
    if (v.space == Space::shared) {
      variable_offset_[i] = place(v);
    } else if (v.space == Space::local || (v.space == Space::param && !(param && source.entry))) {
      const bool by_address = param && !module.is_by_value(v);
      if (by_address) continue;  // receive_arguments() sets its address
      auto* a =
          b.CreateAlloca(llvm::ArrayType::get(b.getInt8Ty(), std::max<std::uint64_t>(v.size, 1)));
      a->setAlignment(llvm::Align(std::max<std::uint32_t>(v.align, 8)));
      variable_ptr_[i] = a;
      if (v.space == Space::local) {
        local_bytes += v.size;
        a->setMetadata("cucpu.local", llvm::MDNode::get(out.getContext(), {}));  // for check mode
      }
    }
  }
  // The error text of ptxas.
  const auto most = [&](std::uint64_t bytes, std::uint64_t limit, const char* what) {
    if (bytes > limit)
      error(source.where,
            ptx::cat("'", source.name, "' uses too much ", what, ": ", std::to_string(bytes),
                     " bytes, at most ", std::to_string(limit)));
  };
  most(shared, 48 << 10, "shared memory");
  most(local_bytes, 512 << 10, "local memory");
  if (source.entry) most(param_bytes, 32764, "parameter space");
  static_shared_bytes = shared;
  dynamic_shared_offset = align_to(shared, dynamic_align);
}

void FunctionTranslator::receive_arguments() {
  if (source.entry) return;
  const Signature sig = module.signature(source);
  unsigned arg = 0;
  if (!sig.result_by_value) {
    for (std::uint32_t r : source.returns) variable_ptr_[r] = out.getArg(arg++);
  }
  for (std::size_t p = 0; p < source.params.size(); ++p) {
    const ptx::Variable& v = source.variables[source.params[p]];
    Value* value = out.getArg(arg++);
    if (v.space == Space::reg) {
      b.CreateStore(as_type(value, registers_[v.reg]->getAllocatedType()), registers_[v.reg]);
    } else if (sig.by_value[p]) {
      b.CreateStore(value, variable_ptr_[source.params[p]]);
    } else {
      variable_ptr_[source.params[p]] = value;
    }
  }
}

void FunctionTranslator::start_block(llvm::BasicBlock* block) {
  if (block->getParent() == nullptr) block->insertInto(&out);
  b.SetInsertPoint(block);
  accessed_.clear();
  if (debug_) debug_->begin_block();
}

void FunctionTranslator::statement(const Instruction& i) {
  using Emitter = void (FunctionTranslator::*)(const Instruction&);
  static constexpr Emitter kEmitters[] = {
#define CUCPU_PTX_EMIT(name) &FunctionTranslator::emit_##name,
#include "ptx_emits.inc"
#undef CUCPU_PTX_EMIT
  };
  if (b.GetInsertBlock()->getTerminator() !=
      nullptr) {  // after a jump: unreachable, removed by a pass
    start_block(llvm::BasicBlock::Create(out.getContext(), ""));
  }
  const Emitter emitter = kEmitters[static_cast<std::size_t>(i.row->emit)];
  widens_ = i.row->wide;
  if (!i.guard || i.row->emit == ptx::Emit::bra) return (this->*emitter)(i);
  Value* guard = read_register(i.guard->reg);
  if (i.guard->negated) guard = b.CreateNot(guard);
  if (!i.row->effects) {
    select_guard_ = guard;
    (this->*emitter)(i);
    select_guard_ = nullptr;
    return;
  }
  auto* then = llvm::BasicBlock::Create(out.getContext(), "");
  auto* after = llvm::BasicBlock::Create(out.getContext(), "");
  b.CreateCondBr(guard, then, after);
  start_block(then);
  (this->*emitter)(i);
  if (b.GetInsertBlock()->getTerminator() == nullptr) b.CreateBr(after);
  start_block(after);
}

void FunctionTranslator::finish() {
  if (b.GetInsertBlock()->getTerminator() == nullptr) {
    if (source.entry || source.returns.empty()) {
      Instruction none;
      emit_ret(none);
    } else {
      b.CreateUnreachable();  // falling off the end of a function that returns something
    }
  }
  for (llvm::BasicBlock* block : labels_) {
    if (block->getParent() == nullptr) delete block;
  }
}

// The first .loc of a function creates its subprogram; earlier instructions have line 0.
void FunctionTranslator::set_line(const ptx::SourceLine& line) {
  if (debug_) return debug_->set_line(line);
  if (subprogram_ == nullptr) return;
  llvm::DIFile* file = module.debug_file(line.file);
  llvm::DIScope* scope = subprogram_;
  if (file != subprogram_->getFile())
    scope = module.debug.createLexicalBlockFile(subprogram_, file);
  b.SetCurrentDebugLocation(llvm::DILocation::get(out.getContext(), line.line, line.column, scope));
}

void FunctionTranslator::start_debug() {
  if (!module.options.line_info) return;
  if (module.options.debug) {
    debug_ = FunctionDebug::make(*this);
    return;
  }
  for (const ptx::Statement& s : source.body) {
    const auto* line = std::get_if<ptx::SourceLine>(&s);
    if (line == nullptr) continue;
    llvm::DIFile* file = module.debug_file(line->file);
    auto* type = module.debug.createSubroutineType(module.debug.getOrCreateTypeArray({}));
    const llvm::StringRef name{source.name.data(), source.name.size()};
    subprogram_ =
        module.debug.createFunction(file, name, out.getName(), file, line->line, type, line->line,
                                    llvm::DINode::FlagZero, llvm::DISubprogram::SPFlagDefinition);
    out.setSubprogram(subprogram_);
    b.SetCurrentDebugLocation(llvm::DILocation::get(out.getContext(), 0, 0, subprogram_));
    return;
  }
  llvm::DIFile* const file = module.debug_ptx_file();
  if (file == nullptr) return;
  has_ptx_lines_ = true;
  auto* type = module.debug.createSubroutineType(module.debug.getOrCreateTypeArray({}));
  const llvm::StringRef name{source.name.data(), source.name.size()};
  subprogram_ = module.debug.createFunction(file, name, out.getName(), file, source.where.line,
                                            type, source.where.line, llvm::DINode::FlagZero,
                                            llvm::DISubprogram::SPFlagDefinition);
  out.setSubprogram(subprogram_);
  b.SetCurrentDebugLocation(llvm::DILocation::get(out.getContext(), 0, 0, subprogram_));
}

}  // namespace cucpu::ir
