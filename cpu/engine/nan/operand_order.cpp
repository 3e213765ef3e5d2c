// SPDX-License-Identifier: Apache-2.0
// cpu/engine/nan/operand_order.cpp
#include "cpu/engine/nan/operand_order.hpp"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>

namespace cucpu {

using namespace llvm;

namespace {

bool is_fence(const Value* v) {
  const auto* call = dyn_cast<IntrinsicInst>(v);
  return call && call->getIntrinsicID() == Intrinsic::arithmetic_fence;
}

/// Whether LLVM may swap operands 0 and 1 of an f64 instruction.
bool commutes(const Instruction& i) {
  if (!i.getType()->getScalarType()->isDoubleTy()) return false;
  const auto* call = dyn_cast<IntrinsicInst>(&i);
  return i.getOpcode() == Instruction::FAdd || i.getOpcode() == Instruction::FMul ||
         (call && call->getIntrinsicID() == Intrinsic::fma);
}

/// Whether a value is a mark, or selected from values of which one is a mark.
bool is_marked(const Value* v, SmallPtrSetImpl<const Value*>& seen) {
  if (is_fence(v)) return true;
  if (!isa<PHINode, SelectInst, ShuffleVectorInst, InsertElementInst, ExtractElementInst,
           FreezeInst>(v) ||
      !seen.insert(v).second)
    return false;
  return any_of(cast<Instruction>(v)->operands(),
                [&](const Use& use) { return is_marked(use.get(), seen); });
}

bool is_marked(const Value* v) {
  SmallPtrSet<const Value*, 8> seen;
  return is_marked(v, seen);
}

}  // namespace

void mark_first_operands(Function& function) {
  for (Instruction& i : instructions(function)) {
    if (!commutes(i)) continue;
    Value *first = i.getOperand(0), *second = i.getOperand(1);
    if (first == second || isa<Constant>(first) || isa<Constant>(second)) continue;
    IRBuilder<> b{&i};
    auto* fence = cast<CallInst>(b.CreateArithmeticFence(first, first->getType()));
    fence->getCalledFunction()->setSpeculatable();  // as its operand is
    i.setOperand(0, fence);
  }
}

void restore_operand_order(Function& function) {
  SmallVector<Instruction*> fences;
  for (Instruction& i : instructions(function)) {
    if (is_fence(&i)) fences.push_back(&i);
    if (commutes(i) && is_marked(i.getOperand(1)) && !is_marked(i.getOperand(0)))
      i.getOperandUse(0).swap(i.getOperandUse(1));
  }
  for (Instruction* fence : fences) {
    fence->replaceAllUsesWith(fence->getOperand(0));
    fence->eraseFromParent();
  }
}

}  // namespace cucpu
