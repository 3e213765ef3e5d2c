// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/state_space_check.cpp
#include "cpu/engine/jit/state_space_check.hpp"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Operator.h>
#include <llvm/Transforms/Utils/Local.h>

#include "cpu/engine/simt/markers.hpp"

namespace cucpu {
namespace {

using namespace llvm;

/// The base of an address that is one value plus an offset.
const Value* root_of(const Value* value) {
  for (unsigned depth = 0; depth < 32; ++depth) {
    const auto* op = dyn_cast<Operator>(value);
    if (!op) return value;
    switch (op->getOpcode()) {
      case Instruction::IntToPtr:
      case Instruction::PtrToInt:
      case Instruction::GetElementPtr:
      case Instruction::Freeze:
        value = op->getOperand(0);
        continue;
      case Instruction::Add:
        if (isa<ConstantInt>(op->getOperand(1))) {
          value = op->getOperand(0);
          continue;
        }
        return value;
      default:
        return value;
    }
  }
  return value;
}

}  // namespace

void trap_state_space_violations(Module& module) {
  SmallVector<Instruction*, 4> wrong;
  SmallPtrSet<BasicBlock*, 4> ended;  // the rest of the block is unreachable
  for (Function& function : module) {
    for (Instruction& i : instructions(function)) {
      if (ended.contains(i.getParent())) continue;
      if (simt::space_of(i) != "global") continue;
      const Value* pointer = isa<StoreInst>(i) ? i.getOperand(1) : i.getOperand(0);
      const Value* root = root_of(pointer);
      const auto* call = dyn_cast<CallInst>(root);
      if (isa<AllocaInst>(root) || (call && call->getCalledFunction() &&
                                    call->getCalledFunction()->getName() == "cucpu.shared")) {
        wrong.push_back(&i);
        ended.insert(i.getParent());
      }
    }
  }
  if (wrong.empty()) return;
  LLVMContext& context = module.getContext();
  FunctionCallee trap =
      module.getOrInsertFunction("cucpu.trap", Type::getVoidTy(context), Type::getInt32Ty(context));
  for (Instruction* access : wrong) {
    IRBuilder<>{access}.CreateCall(trap, {ConstantInt::get(Type::getInt32Ty(context), 717)});
    changeToUnreachable(access);
  }
}

}  // namespace cucpu
