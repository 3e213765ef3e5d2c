// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/narrow_kernel.cpp
#include "cpu/engine/simt/narrow_kernel.hpp"

#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>

#include <algorithm>

namespace cucpu::simt {

using namespace llvm;

namespace {

constexpr unsigned kMostBits = 16;
constexpr unsigned kDepth = 12;  // of a condition

bool is_truth(const Type* type) { return type->isIntegerTy(1); }

/// Whether a condition differs between lanes only by comparisons of indices.
bool follows_from_indices(const Value* condition, const Shapes& full, unsigned depth = 0) {
  auto* inst = dyn_cast<Instruction>(condition);
  if (!inst || full[inst].scalar()) return true;
  if (depth > kDepth) return false;
  if (isa<ICmpInst>(inst))
    return all_of(inst->operands(), [&](const Value* one) { return full[one].scalar(); });
  return isa<BinaryOperator, SelectInst>(inst) && all_of(inst->operands(), [&](const Value* one) {
           return is_truth(one->getType()) && follows_from_indices(one, full, depth + 1);
         });
}

/// Whether a vector of these elements is narrow: as many lanes as usual fill part of a register.
bool is_narrow(Type* type) {
  return type->isIntegerTy() && type->getIntegerBitWidth() <= kMostBits;
}

/// Whether lanes access consecutive narrow numbers.
bool is_narrow_access(Instruction& access, const Shapes& full) {
  Type* type = getLoadStoreType(&access);
  const Shape at = full[getLoadStorePointerOperand(&access)];
  return is_narrow(type) && at.kind == Shape::Strided &&
         at.stride ==
             static_cast<std::int64_t>(access.getModule()->getDataLayout().getTypeStoreSize(type));
}

}  // namespace

unsigned bits_of_narrow_kernel(const Flow& flow, const Shapes& full) {
  unsigned most = 0;
  for (BasicBlock* block : flow.order) {
    if (full.diverges(block) &&
        !follows_from_indices(cast<BranchInst>(block->getTerminator())->getCondition(), full))
      return 0;
    for (Instruction& inst : *block) {
      Type* type = inst.getType();
      if (isa<LoadInst, StoreInst>(inst)) {
        if (isa<LoadInst>(inst) && full[&inst].scalar()) continue;
        if (inst.isAtomic() || !is_narrow_access(inst, full)) return 0;
        type = getLoadStoreType(&inst);
      } else if (inst.mayReadOrWriteMemory()) {
        return 0;
      } else if (type->isVoidTy() || is_truth(type) || full[&inst].scalar()) {
        continue;
      }
      if (!is_narrow(type)) return 0;
      most = std::max(most, type->getIntegerBitWidth());
    }
  }
  return most;
}

}  // namespace cucpu::simt
