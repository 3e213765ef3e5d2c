// SPDX-License-Identifier: Apache-2.0
// cpu/engine/translate/emit_control.cpp: jumps, calls, returns, and the end of a thread.
#include "cpu/engine/translate/function_translator.hpp"

namespace cucpu::ir {

using Effect = ModuleTranslator::Effect;
using Kind = Operand::Kind;

void FunctionTranslator::emit_bra(const Instruction& i) {
  llvm::BasicBlock* target = labels_[i.operands[0].index];
  if (!i.guard) {
    b.CreateBr(target);
    return;
  }
  auto* next = llvm::BasicBlock::Create(out.getContext(), "");
  Value* guard = read_register(i.guard->reg);
  if (i.guard->negated) {
    b.CreateCondBr(guard, next, target);
  } else {
    b.CreateCondBr(guard, target, next);
  }
  start_block(next);
}

void FunctionTranslator::emit_brx(const Instruction& i) {
  const ptx::Label& list = source.labels[i.operands[1].index];
  if (list.kind != ptx::Label::Kind::branch_targets) {
    return error(i.operands[1].where, "expected the label of a .branchtargets list");
  }
  auto* wrong = llvm::BasicBlock::Create(out.getContext(), "", &out);
  auto* jump = b.CreateSwitch(read(i.operands[0], Type::b32), wrong,
                              static_cast<unsigned>(list.targets.size()));
  for (std::uint32_t k = 0; k < list.targets.size(); ++k) {
    jump->addCase(b.getInt32(k), labels_[list.targets[k].index]);
  }
  b.SetInsertPoint(wrong);  // on a GPU: a jump to an invalid address
  call_marker("trap", b.getVoidTy(), {b.getInt32(718)}, Effect::convergent);
  b.CreateUnreachable();
}

void FunctionTranslator::emit_ret(const Instruction&) {
  if (!source.entry && !module.signature(source).result_by_value) {
    for (const std::uint32_t r : source.returns) {
      const ptx::Variable& v = source.variables[r];
      if (v.space == Space::reg) b.CreateStore(read_register(v.reg), variable_ptr_[r]);
    }
  }
  if (source.entry || source.returns.empty() || !module.signature(source).result_by_value) {
    b.CreateRetVoid();
    return;
  }
  const ptx::Variable& v = source.variables[source.returns[0]];
  llvm::Type* t = out.getReturnType();
  if (v.space == Space::reg) {
    b.CreateRet(as_type(read_register(v.reg), t));
  } else {
    b.CreateRet(b.CreateLoad(t, variable_ptr_[source.returns[0]]));
  }
}

void FunctionTranslator::emit_exit(const Instruction&) {
  if (source.entry) {
    b.CreateRetVoid();
    return;
  }
  call_marker("exit", b.getVoidTy(), {}, Effect::convergent);
  b.CreateUnreachable();
}

// On a GPU both end the grid with an error: 719 launch failed.
void FunctionTranslator::emit_trap(const Instruction&) {
  call_marker("trap", b.getVoidTy(), {b.getInt32(719)}, Effect::convergent);
  b.CreateUnreachable();
}

void FunctionTranslator::emit_brkpt(const Instruction& i) { emit_trap(i); }

void FunctionTranslator::emit_nanosleep(const Instruction& i) {
  call_marker("yield", b.getVoidTy(), {read(i.operands[0], Type::u32)}, Effect::convergent);
}

/// The slot of a function result that is stored in a register.
Value* FunctionTranslator::result_place(Type type) {
  const llvm::IRBuilder<>::InsertPointGuard guard{b};
  b.SetInsertPoint(entry_, entry_->getFirstInsertionPt());
  return b.CreateAlloca(type_of(type));
}

void FunctionTranslator::emit_call(const Instruction& i) {
  const Operand &returns = i.operands[0], &callee = i.operands[1], &arguments = i.operands[2];
  Signature sig;
  Value* target = nullptr;
  bool noreturn = false;
  std::vector<const ptx::Variable*> results;
  if (callee.kind == Kind::function) {
    const ptx::Function& f = module.source.functions[callee.index];
    if (f.entry) return error(callee.where, "a kernel cannot be called");
    sig = module.signature(f);
    for (const std::uint32_t r : f.returns) results.push_back(&f.variables[r]);
    target = module.function(callee.index, callee.where);
    noreturn = f.noreturn;
    if (target == nullptr) return;
  } else {
    const ptx::Label& label = source.labels[i.operands[3].index];
    if (label.kind == ptx::Label::Kind::prototype) {
      std::vector<const ptx::Variable*> p;
      for (const ptx::Variable& v : label.returns) results.push_back(&v);
      for (const ptx::Variable& v : label.params) p.push_back(&v);
      sig = module.signature(results, p);
      noreturn = label.noreturn;
    } else if (label.kind == ptx::Label::Kind::call_targets && !label.targets.empty()) {
      const ptx::Function& f = module.source.functions[label.targets[0].index];
      sig = module.signature(f);
      for (const std::uint32_t r : f.returns) results.push_back(&f.variables[r]);
    } else {
      return error(i.operands[3].where, "expected the label of a .callprototype or .calltargets");
    }
    target = b.CreateIntToPtr(
        call_routine("call_target", b.getInt64Ty(), {read(callee, Type::b64)}, false),
        b.getPtrTy());
  }
  const std::size_t pointers = sig.result_by_value ? 0 : results.size();
  if (arguments.parts.size() + pointers != sig.type->getNumParams() ||
      (sig.result_by_value &&
       returns.parts.size() != (sig.type->getReturnType()->isVoidTy() ? 0u : 1u)) ||
      (!sig.result_by_value && returns.parts.size() != pointers)) {
    return error(i.where, "the call has " + std::to_string(arguments.parts.size()) +
                              " arguments and " + std::to_string(returns.parts.size()) +
                              " results, which are not those of the function");
  }
  llvm::SmallVector<Value*, 8> args;
  const auto place_of = [&](const Operand& o) -> Value* {
    if (o.kind == Kind::local && variable_ptr_[o.index] != nullptr) return variable_ptr_[o.index];
    error(o.where, "expected a .param variable");
    return llvm::PoisonValue::get(b.getPtrTy());
  };
  for (std::size_t k = 0; k < pointers; ++k) {
    const Operand& r = returns.parts[k];
    const bool in_register = r.kind == Kind::reg || r.kind == Kind::sink;
    if (in_register && !module.is_by_value(*results[k]))
      return error(r.where, "expected a .param variable");
    args.push_back(in_register ? result_place(results[k]->type) : place_of(r));
  }
  for (std::size_t k = 0; k < arguments.parts.size(); ++k) {
    const Operand& o = arguments.parts[k];
    llvm::Type* t = sig.type->getParamType(static_cast<unsigned>(args.size()));
    if (o.kind == Kind::local) {
      Value* place = place_of(o);
      args.push_back(sig.by_value[k] ? b.CreateLoad(t, place) : place);
    } else if (sig.by_value[k]) {
      args.push_back(read_bits(o, t->getIntegerBitWidth()));
    } else {
      return error(o.where, "expected a .param variable");
    }
  }
  auto* call = b.CreateCall(sig.type, target, args);
  if (sig.result_by_value && !returns.parts.empty()) {
    const Operand& r = returns.parts[0];
    if (r.kind == Kind::local) {
      b.CreateStore(call, place_of(r));
    } else {
      write(r, call);
    }
  }
  for (std::size_t k = 0; k < pointers; ++k) {
    const Operand& r = returns.parts[k];
    if (r.kind == Kind::reg) write(r, b.CreateLoad(type_of(results[k]->type), args[k]));
  }
  if (noreturn) b.CreateUnreachable();
}

}  // namespace cucpu::ir
